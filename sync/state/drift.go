package state

import (
	"fmt"
	"strconv"
	"time"

	"outlierd/outlier"
)

// Drift is a way in which answers differ from the interface: a field that it does
// not have, or one of another type.
type Drift struct {
	Op            outlier.Operation
	Path, Problem string
	Count         int64 // times it was met
	First, Last   time.Time
	Example       string
}

// driftMark is where meta keeps the journal id up to which drift has been counted.
const driftMark = "drift counted up to"

// NoteDrift adds up what decoding the answers after [Store.DriftMark] up to journal
// id upto has met, and returns what nobody had met before. Answers are counted once:
// if the mark stands at upto already, nothing happens.
func (t *Tx) NoteDrift(seen []Drift, upto int64) (fresh []Drift, err error) {
	mark, err := t.driftMark()
	if err != nil || upto <= mark {
		return nil, err
	}
	for _, d := range seen {
		first, err := t.noteDrift(d)
		if err != nil {
			return nil, fmt.Errorf("note %s of %s: %w", d.Path, d.Op, err)
		}
		if first {
			fresh = append(fresh, d)
		}
	}
	return fresh, t.setMeta(driftMark, strconv.FormatInt(upto, 10))
}

// noteDrift reports whether d was never met before.
func (t *Tx) noteDrift(d Drift) (bool, error) {
	result, err := t.exec(`INSERT INTO drift (op, path, problem, count, first_at, last_at, example) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, string(d.Op), d.Path, d.Problem, d.Count, micros(d.First), micros(d.Last), bounded(d.Example))
	if err != nil || changed(result) {
		return err == nil, err
	}
	_, err = t.exec(`UPDATE drift SET count = count + ?, first_at = min(first_at, ?), last_at = max(last_at, ?)
		WHERE op = ? AND path = ? AND problem = ?`, d.Count, micros(d.First), micros(d.Last), string(d.Op), d.Path, d.Problem)
	return false, err
}

func (t *Tx) driftMark() (int64, error) {
	text, err := t.meta(driftMark)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// DriftMark is the journal id up to which drift has been counted.
func (s *Store) DriftMark() (mark int64, err error) {
	err = s.view(func() error {
		mark, err = (&Tx{s: s}).driftMark()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("up to where was drift counted: %w", err)
	}
	return mark, nil
}

// driftRow is a drift on its way out of the database.
type driftRow struct {
	Drift
	first, last int64
}

func (r *driftRow) columns() []any {
	return []any{&r.Op, &r.Path, &r.Problem, &r.Count, &r.first, &r.last, &r.Example}
}

// Drift is all that was ever met, by operation and path.
func (s *Store) Drift() ([]Drift, error) {
	var all []Drift
	err := s.view(func() error {
		rows, err := list(s, (*driftRow).columns,
			`SELECT op, path, problem, count, first_at, last_at, example FROM drift ORDER BY op, path, problem`)
		for _, r := range rows {
			r.First, r.Last = instant(r.first), instant(r.last)
			all = append(all, r.Drift)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what drifted: %w", err)
	}
	return all, nil
}
