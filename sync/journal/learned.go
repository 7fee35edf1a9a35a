package journal

import (
	"time"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/ops"
	"outlierd/sync/store"
)

// Learned is the record of what was learned from answers.
type Learned struct{ db *store.Store }

// LearnedIn returns the record in a database whose schema is up to date.
func LearnedIn(db *store.Store) *Learned { return &Learned{db} }

// driftMark has the journal id up to which drift has been counted.
var driftMark = store.Cell[int64]{Key: "drift counted up to"}

// NoteDrift counts the drift found in the answers after [Learned.DriftMark] up to journal id upto,
// and returns the drift that is new. Answers are counted once: if the mark is at upto already,
// nothing happens.
func NoteDrift(tx *store.Tx, seen []schema.Drift, upto int64) (fresh []schema.Drift, err error) {
	mark, err := driftMark.Get(tx)
	if err != nil || upto <= mark {
		return nil, err
	}
	for _, d := range seen {
		first, err := noteDrift(tx, d)
		if err != nil {
			return nil, err
		}
		if first {
			fresh = append(fresh, d)
		}
	}
	return fresh, driftMark.Set(tx, upto)
}

// noteDrift reports whether d is new.
func noteDrift(tx *store.Tx, d schema.Drift) (bool, error) {
	known, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM drift WHERE op = ? AND path = ? AND problem = ?)`,
		d.Op, d.Path, d.Problem)
	if err != nil {
		return false, err
	}
	d.Example = store.Bounded(d.Example)
	err = store.Insert(tx, "drift", driftColumns(&d), `ON CONFLICT DO UPDATE SET count = count + excluded.count,
		first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)`)
	return !known, err
}

// DriftMark returns the journal id up to which drift has been counted.
func (k *Learned) DriftMark() (int64, error) {
	return driftMark.Get(k.db)
}

func driftColumns(d *schema.Drift) store.Columns {
	return store.Columns{
		"op": &d.Op, "path": &d.Path, "problem": &d.Problem, "count": &d.Count, "example": &d.Example,
		"first_at": store.Time(&d.First), "last_at": store.Time(&d.Last),
	}
}

// Drift returns all recorded drift, by operation and path.
func (k *Learned) Drift() ([]schema.Drift, error) {
	return store.Select(k.db, driftColumns, `FROM drift ORDER BY op, path, problem`)
}

// Limit is the rate limit as the limiter assumes it. A negative number and a zero duration or time
// are unknown.
type Limit struct {
	At        time.Time // when it was learned; zero means now
	Limit     int64     // requests per window
	Window    time.Duration
	Remaining int64 // in the window
	Reset     time.Time
	Foreign   int64 // requests of other clients in the window
}

// AddLimit stores l if the limit or its window has changed, or if others use more of it than was stored
// last: their use rises and falls with every call.
func (k *Learned) AddLimit(l Limit) error {
	return k.db.Update(func(tx *store.Tx) error {
		columns := l.columns()
		same, err := store.Value[bool](tx, `SELECT max_requests IS ? AND window IS ? AND
			coalesce(foreign_requests, 0) >= coalesce(?, 0) FROM limits ORDER BY id DESC LIMIT 1`,
			columns["max_requests"], columns["window"], columns["foreign_requests"])
		if err != nil || same {
			return err
		}
		if l.At.IsZero() {
			l.At = tx.Now()
		}
		return store.Insert(tx, "limits", columns, "")
	})
}

// columns are those of an insertion: what is unknown is NULL.
func (l *Limit) columns() store.Columns {
	window, reset := l.Window.Microseconds(), store.Micros(l.Reset)
	return store.Columns{
		"observed_at": store.Time(&l.At), "max_requests": store.Known(l.Limit), "window": store.Optional(&window),
		"remaining": store.Known(l.Remaining), "reset_at": store.Optional(&reset), "foreign_requests": store.Known(l.Foreign),
	}
}

// Paging is what `from` counts at an endpoint, as learned from answers.
type Paging struct {
	Op      outlier.Operation `json:"operation"`
	Reading string            `json:"counts"`         // "page", "offset", or "" while unknown
	Learned time.Time         `json:"since,omitzero"` // zero if the configuration says so
}

// Paging returns what was learned about an endpoint.
func (k *Learned) Paging(op outlier.Operation) (Paging, error) {
	p := Paging{Op: op}
	_, err := store.Scan(k.db, []any{&p.Reading, store.Time(&p.Learned)}, `SELECT reading, learned_at FROM paging WHERE op = ?`, op)
	return p, err
}

// LearnPaging stores what `from` counts at an endpoint, "page" or "offset". If it was known already, the
// stored time does not change.
func LearnPaging(tx *store.Tx, op outlier.Operation, reading string) error {
	return tx.Exec(`INSERT INTO paging (op, reading, learned_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET reading = excluded.reading, learned_at = excluded.learned_at
		WHERE reading <> excluded.reading`, op, reading, store.Micros(tx.Now()))
}

// UnlearnPaging removes what was learned about an endpoint, after an answer has contradicted it.
func UnlearnPaging(tx *store.Tx, op outlier.Operation) error {
	return tx.Exec(`DELETE FROM paging WHERE op = ?`, op)
}

// Ops is the operations table of learned limits.
var Ops = []ops.Table{
	{Table: schema.OpsLimits, Source: "limits", From: `limits`, SQL: map[string]string{"window_s": `window`}},
}
