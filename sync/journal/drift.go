package journal

import (
	"fmt"
	"strconv"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Drift is a difference between answers and the interface: an unknown field, or a field of another
// type.
type Drift struct {
	Op            outlier.Operation
	Path, Problem string
	Count         int64 // occurrences
	First, Last   time.Time
	Example       string
}

// driftMark is the key in meta of the journal id up to which drift has been counted.
const driftMark = "drift counted up to"

// NoteDrift counts the drift found in the answers after [Journal.DriftMark] up to journal id upto,
// and returns the drift that is new. Answers are counted once: if the mark is at upto already,
// nothing happens.
func NoteDrift(tx *store.Tx, seen []Drift, upto int64) (fresh []Drift, err error) {
	mark, err := readMark(tx)
	if err != nil || upto <= mark {
		return nil, err
	}
	for _, d := range seen {
		first, err := noteDrift(tx, d)
		if err != nil {
			return nil, fmt.Errorf("note %s of %s: %w", d.Path, d.Op, err)
		}
		if first {
			fresh = append(fresh, d)
		}
	}
	return fresh, tx.SetMeta(driftMark, strconv.FormatInt(upto, 10))
}

// noteDrift reports whether d is new.
func noteDrift(tx *store.Tx, d Drift) (bool, error) {
	result, err := tx.Exec(`INSERT INTO drift (op, path, problem, count, first_at, last_at, example)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		string(d.Op), d.Path, d.Problem, d.Count, store.Micros(d.First), store.Micros(d.Last),
		store.Bounded(d.Example))
	if err != nil || store.Changed(result) {
		return err == nil, err
	}
	_, err = tx.Exec(`UPDATE drift
		SET count = count + ?, first_at = min(first_at, ?), last_at = max(last_at, ?)
		WHERE op = ? AND path = ? AND problem = ?`,
		d.Count, store.Micros(d.First), store.Micros(d.Last), string(d.Op), d.Path, d.Problem)
	return false, err
}

func readMark(tx *store.Tx) (int64, error) {
	text, err := tx.Meta(driftMark)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// DriftMark returns the journal id up to which drift has been counted.
func (j *Journal) DriftMark() (mark int64, err error) {
	err = j.db.View(func(tx *store.Tx) error {
		mark, err = readMark(tx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read up to where drift was counted: %w", err)
	}
	return mark, nil
}

// driftRow is a row of the table drift.
type driftRow struct {
	Drift
	first, last int64
}

func (r *driftRow) columns() []any {
	return []any{&r.Op, &r.Path, &r.Problem, &r.Count, &r.first, &r.last, &r.Example}
}

// Drift returns all recorded drift, by operation and path.
func (j *Journal) Drift() ([]Drift, error) {
	var all []Drift
	err := j.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, (*driftRow).columns,
			`SELECT op, path, problem, count, first_at, last_at, example FROM drift
				ORDER BY op, path, problem`)
		for _, r := range rows {
			r.First, r.Last = store.Instant(r.first), store.Instant(r.last)
			all = append(all, r.Drift)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the drift: %w", err)
	}
	return all, nil
}
