package runs

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// Pause is a pause of a job's schedule: no due time starts a run of the job or of jobs that run
// after it.
type Pause struct {
	Job   string    `json:"job"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero if it must be ended manually
	Why   string    `json:"why,omitempty"`  // the user's reason
}

// Pauses returns the pauses in force at a time, by job.
func (rs *Runs) Pauses(now time.Time) (map[string]*Pause, error) {
	type row struct {
		Pause
		since, until int64
	}
	all := map[string]*Pause{}
	err := rs.db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(r *row) []any { return []any{&r.Job, &r.since, &r.until, &r.Why} },
			`SELECT job, since, until, why FROM pauses WHERE until = 0 OR until > ?`, store.Micros(now))
		for i := range rows {
			p := &rows[i].Pause
			p.Since, p.Until = store.Instant(rows[i].since), store.Instant(rows[i].until)
			all[p.Job] = p
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read which jobs are paused: %w", err)
	}
	return all, nil
}

// Pause pauses jobs, replacing their current pauses.
func (rs *Runs) Pause(pauses []Pause) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		for _, p := range pauses {
			_, err := tx.Exec(`INSERT OR REPLACE INTO pauses (job, since, until, why) VALUES (?, ?, ?, ?)`,
				p.Job, store.Micros(p.Since), store.Micros(p.Until), p.Why)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pause jobs: %w", err)
	}
	return nil
}

// Unpause ends the pauses of jobs.
func (rs *Runs) Unpause(jobs []string) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		for _, job := range jobs {
			if _, err := tx.Exec(`DELETE FROM pauses WHERE job = ?`, job); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("resume jobs: %w", err)
	}
	return nil
}
