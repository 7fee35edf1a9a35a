package runs

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// FollowUp is a pending run of a job with `after`. Its due time is that of the parent's run whose
// searches have ended.
type FollowUp struct {
	Job   string
	Due   time.Time
	Noted time.Time // when it was recorded, after those searches
}

// NoteFollowUps records pending follow-up runs, except those that have already been started.
func NoteFollowUps(tx *store.Tx, all []FollowUp) error {
	for _, f := range all {
		_, err := tx.Exec(`INSERT INTO follow_ups (job, due, noted) SELECT ?1, ?2, ?3
			WHERE NOT EXISTS (SELECT 1 FROM runs WHERE job = ?1 AND due = ?2 AND due <> 0)
			ON CONFLICT DO NOTHING`,
			f.Job, store.Micros(f.Due), store.Micros(tx.Now()))
		if err != nil {
			return fmt.Errorf("note that job %s is due at %s: %w", f.Job, f.Due, err)
		}
	}
	return nil
}

// DropFollowUps removes pending follow-up runs.
func DropFollowUps(tx *store.Tx, all []FollowUp) error {
	for _, f := range all {
		if _, err := tx.Exec(`DELETE FROM follow_ups WHERE job = ? AND due = ?`,
			f.Job, store.Micros(f.Due)); err != nil {
			return fmt.Errorf("drop the run of job %s due at %s: %w", f.Job, f.Due, err)
		}
	}
	return nil
}

// FollowUps returns the pending follow-up runs, by due time.
func (rs *Runs) FollowUps() (all []FollowUp, err error) {
	type row struct {
		job        string
		due, noted int64
	}
	err = rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(r *row) []any { return []any{&r.job, &r.due, &r.noted} },
			`SELECT job, due, noted FROM follow_ups ORDER BY due, job`)
		for _, r := range rows {
			all = append(all, FollowUp{r.job, store.Instant(r.due), store.Instant(r.noted)})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for runs that are to follow others: %w", err)
	}
	return all, nil
}
