package journal

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Learned is the record of what was learned from answers.
type Learned struct{ db *store.Store }

// LearnedIn returns the record in a database whose schema is up to date.
func LearnedIn(db *store.Store) *Learned { return &Learned{db} }

// Drift is a difference between answers and the interface: an unknown field, or a field of another
// type.
type Drift struct {
	Op      outlier.Operation `json:"operation"`
	Path    string            `json:"path"`
	Problem string            `json:"problem"`
	Count   int64             `json:"count"` // occurrences
	First   time.Time         `json:"first_seen_at"`
	Last    time.Time         `json:"last_seen_at"`
	Example string            `json:"example"`
}

// driftMark has the journal id up to which drift has been counted.
var driftMark = store.Cell[int64]{Key: "drift counted up to"}

// NoteDrift counts the drift found in the answers after [Learned.DriftMark] up to journal id upto,
// and returns the drift that is new. Answers are counted once: if the mark is at upto already,
// nothing happens.
func NoteDrift(tx *store.Tx, seen []Drift, upto int64) (fresh []Drift, err error) {
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
func noteDrift(tx *store.Tx, d Drift) (bool, error) {
	known, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM drift WHERE op = ? AND path = ? AND problem = ?)`,
		d.Op, d.Path, d.Problem)
	if err != nil {
		return false, err
	}
	d.Example = store.Bounded(d.Example)
	err = store.Insert(tx, "drift", d.columns(), `ON CONFLICT DO UPDATE SET count = count + excluded.count,
		first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)`)
	return !known, err
}

// DriftMark returns the journal id up to which drift has been counted.
func (k *Learned) DriftMark() (int64, error) {
	return driftMark.Get(k.db)
}

func (d *Drift) columns() store.Columns {
	return store.Columns{
		"op": &d.Op, "path": &d.Path, "problem": &d.Problem, "count": &d.Count, "example": &d.Example,
		"first_at": store.Time(&d.First), "last_at": store.Time(&d.Last),
	}
}

// Drift returns all recorded drift, by operation and path.
func (k *Learned) Drift() ([]Drift, error) {
	return store.Select(k.db, (*Drift).columns, `FROM drift ORDER BY op, path, problem`)
}
