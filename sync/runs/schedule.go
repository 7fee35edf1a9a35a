package runs

import (
	"errors"
	"time"

	"outlierd/sync/store"
)

// Schedule is the record of when jobs were due, and of the pauses of their schedules.
type Schedule struct{ db *store.Store }

// Due is a due time whose run is not recorded yet: one of the job's schedule, or for a job with `after` that of
// the parent's run, whose searches have ended.
type Due struct {
	Job       string
	At        time.Time
	Trigger   string    // of the run
	Noted     time.Time // when it came, or those searches ended
	NotBefore time.Time // when to try again to start the run; zero for at once
}

func (d *Due) columns() store.Columns {
	return store.Columns{
		"job": &d.Job, "due": store.Time(&d.At), "trigger": &d.Trigger, "noted": store.Time(&d.Noted),
		"not_before": store.Time(&d.NotBefore),
	}
}

// NoteDues records due times, except those that are recorded already and those that have a run.
func NoteDues(tx *store.Tx, all []Due) error {
	for _, d := range all {
		err := tx.Exec(`INSERT INTO dues (job, due, trigger, noted) SELECT ?1, ?2, ?3, ?4
			WHERE NOT EXISTS (SELECT 1 FROM runs WHERE job = ?1 AND due = ?2 AND due <> 0)
			ON CONFLICT DO NOTHING`,
			d.Job, store.Micros(d.At), d.Trigger, store.Micros(tx.Now()))
		if err == nil && d.Trigger != After {
			err = moveNoted(tx, d.Job, d.At)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DropDues removes due times.
func DropDues(tx *store.Tx, all []Due) (err error) {
	for _, d := range all {
		err = errors.Join(err, tx.Exec(`DELETE FROM dues WHERE job = ? AND due = ?`, d.Job, store.Micros(d.At)))
	}
	return err
}

// Delay records when to try again to start the run of a due time.
func (sc *Schedule) Delay(d Due) error {
	return sc.db.Exec(`UPDATE dues SET not_before = ?3 WHERE job = ?1 AND due = ?2`,
		d.Job, store.Micros(d.At), store.Micros(d.NotBefore))
}

// Dues returns the due times whose runs are not recorded yet, oldest first.
func (sc *Schedule) Dues() ([]Due, error) { return listDues(sc.db) }

func listDues(in store.Reader) ([]Due, error) {
	return store.Select(in, (*Due).columns, `FROM dues ORDER BY due, job`)
}

// DueTimes is what is on record about the due times of all jobs.
type DueTimes struct {
	Pauses map[string]*Pause // in force, by job
	Dues   []Due             // whose runs are not recorded yet, oldest first

	// Noted has the time up to which the due times of each job have come: the last one, under this name or a former one,
	// or when a schedule first saw the job; none if none did. It is in the future if the clock was ahead.
	Noted map[string]time.Time
}

// DueTimes returns what is on record about due times at a time.
func (sc *Schedule) DueTimes(now time.Time) (c DueTimes, err error) {
	err = sc.db.View(func(tx *store.Tx) (err error) {
		if c.Pauses, err = listPauses(tx, now); err != nil {
			return err
		}
		if c.Dues, err = listDues(tx); err != nil {
			return err
		}
		c.Noted, err = store.Cells[time.Time](tx, notedKey)
		return err
	})
	return c, err
}

// noted has the time up to which the due times of a job have a run or a row of their own, or will have none.
func noted(job string) store.Cell[time.Time] {
	return store.Cell[time.Time]{Key: notedKey + job}
}

const notedKey = "due times noted: "

// SetNoted sets the time after which the next due time of a job comes.
func (sc *Schedule) SetNoted(job string, at time.Time) error {
	return noted(job).Set(sc.db, at.UTC())
}

// moveNoted records that a due time of a job has come.
func moveNoted(tx *store.Tx, job string, due time.Time) error {
	last, err := noted(job).Get(tx)
	if err != nil || !due.After(last) {
		return err
	}
	return noted(job).Set(tx, due.UTC())
}

// Performed reports whether a run of the job is recorded for a due time.
func (sc *Schedule) Performed(job string, due time.Time) (bool, error) {
	return store.Value[bool](sc.db, `SELECT EXISTS (SELECT 1 FROM runs WHERE job = ? AND due = ? AND due <> 0)`,
		job, store.Micros(due))
}

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
func (sc *Schedule) Pauses(now time.Time) (map[string]*Pause, error) { return listPauses(sc.db, now) }

func listPauses(in store.Reader, now time.Time) (map[string]*Pause, error) {
	pauses, err := store.Select(in, (*Pause).columns, `FROM pauses WHERE until = 0 OR until > ?`, store.Micros(now))
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
