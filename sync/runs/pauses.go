package runs

import (
	"errors"
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

func (p *Pause) columns() store.Columns {
	return store.Columns{"job": &p.Job, "since": store.Time(&p.Since), "until": store.Time(&p.Until), "why": &p.Why}
}

// Pauses returns the pauses in force at a time, by job.
func (sc *Schedule) Pauses(now time.Time) (map[string]*Pause, error) {
	pauses, err := store.Select(sc.db, (*Pause).columns, `FROM pauses WHERE until = 0 OR until > ?`, store.Micros(now))
	all := map[string]*Pause{}
	for i := range pauses {
		all[pauses[i].Job] = &pauses[i]
	}
	return all, err
}

// Pause pauses jobs, replacing their current pauses.
func (sc *Schedule) Pause(pauses []Pause) error {
	return sc.db.Update(func(tx *store.Tx) (err error) {
		for _, p := range pauses {
			err = errors.Join(err, store.Insert(tx, "pauses", p.columns(), `ON CONFLICT DO UPDATE
				SET since = excluded.since, until = excluded.until, why = excluded.why`))
		}
		return err
	})
}

// Unpause ends the pauses of jobs.
func (sc *Schedule) Unpause(jobs []string) error {
	return sc.db.Exec(`DELETE FROM pauses WHERE job IN (SELECT value FROM json_each(?))`, store.JSON(jobs))
}
