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
func (rs *Runs) FollowUps() ([]FollowUp, error) {
	return store.Read(rs.db, "look for runs that are to follow others", func(tx *store.Tx) ([]FollowUp, error) {
		return store.Select(tx, func(f *FollowUp) store.Columns {
			return store.Columns{"job": &f.Job, "due": store.Time(&f.Due), "noted": store.Time(&f.Noted)}
		}, `FROM follow_ups ORDER BY due, job`)
	})
}
