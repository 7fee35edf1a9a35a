package runs

import (
	"fmt"
	"time"

	"outlierd/sync/ledger"
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
	Waits     string    // why it has not started, as last logged
}

func (d *Due) columns() store.Columns {
	return store.Columns{
		"job": &d.Job, "due": store.Time(&d.At), "trigger": &d.Trigger, "noted": store.Time(&d.Noted),
		"not_before": store.Time(&d.NotBefore), "waits": &d.Waits,
	}
}

// NoteDues records due times, except those that are recorded already and those that have a run.
func NoteDues(tx *store.Tx, all []Due) error {
	for _, d := range all {
		_, err := tx.Exec(`INSERT INTO dues (job, due, trigger, noted) SELECT ?1, ?2, ?3, ?4
			WHERE NOT EXISTS (SELECT 1 FROM runs WHERE job = ?1 AND due = ?2 AND due <> 0)
			ON CONFLICT DO NOTHING`,
			d.Job, store.Micros(d.At), d.Trigger, store.Micros(tx.Now()))
		if err != nil {
			return fmt.Errorf("note that job %s is due at %s: %w", d.Job, d.At, err)
		}
	}
	return nil
}

// DropDues removes due times.
func DropDues(tx *store.Tx, all []Due) error {
	for _, d := range all {
		if _, err := tx.Exec(`DELETE FROM dues WHERE job = ? AND due = ?`, d.Job, store.Micros(d.At)); err != nil {
			return fmt.Errorf("drop the run of job %s due at %s: %w", d.Job, d.At, err)
		}
	}
	return nil
}

// Delay records why the run of a due time has not started, and when to try again.
func (sc *Schedule) Delay(d Due) error {
	return store.Change(sc.db, "delay the run of job "+d.Job, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE dues SET not_before = ?3, waits = ?4 WHERE job = ?1 AND due = ?2`,
			d.Job, store.Micros(d.At), store.Micros(d.NotBefore), d.Waits)
		return err
	})
}

// Dues returns the due times whose runs are not recorded yet, oldest first.
func (sc *Schedule) Dues() ([]Due, error) {
	return store.Read(sc.db, "look for runs that are due", func(tx *store.Tx) ([]Due, error) {
		return store.Select(tx, (*Due).columns, `FROM dues ORDER BY due, job`)
	})
}

// FirstSeen returns when FirstSeen was first called for a job, which is now for the first call. Due
// times before that time are not caught up.
func (sc *Schedule) FirstSeen(job string, now time.Time) (time.Time, error) {
	return sc.firstTime(firstSeen(job), now)
}

// firstSeen has the time at which a job was first seen.
func firstSeen(job string) store.Cell[time.Time] {
	return store.Cell[time.Time]{Key: "first seen: " + job}
}

// CountAsNow records that the due time of a run of the job, which is after now, counts as now: the run was
// recorded while the clock was ahead. Later calls for the same due time change nothing.
func (sc *Schedule) CountAsNow(job string, due, now time.Time) error {
	_, err := sc.firstTime(dueAhead(job, store.Micros(due)), now)
	return err
}

// dueAhead has the time as which a due time in the future counts.
func dueAhead(job string, due int64) store.Cell[time.Time] {
	return store.Cell[time.Time]{Key: fmt.Sprintf("due ahead: %s %d", job, due)}
}

// firstTime returns the time in a cell. If there is none, or one after now, as the clock was ahead, it is now
// from then on.
func (sc *Schedule) firstTime(cell store.Cell[time.Time], now time.Time) (first time.Time, err error) {
	err = sc.db.Update(func(tx *store.Tx) error {
		if first, err = cell.Get(tx); err != nil || !first.IsZero() && !first.After(now) {
			return err
		}
		first = now
		return cell.Set(tx, now.UTC())
	})
	return first, err
}

// Performed reports whether a run of the job is recorded for a due time.
func (sc *Schedule) Performed(job string, due time.Time) (bool, error) {
	return store.Read(sc.db, fmt.Sprintf("read whether job %s ran for %s", job, due), func(tx *store.Tx) (bool, error) {
		return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM runs WHERE job = ? AND due = ? AND due <> 0)`,
			job, store.Micros(due))
	})
}

// LastDue returns the latest due time for which a run of the job was started, under this name or a
// former one, or the zero time. If there is one after now, as the clock was ahead, it counts as the time
// that [Schedule.CountAsNow] has recorded for it. If that was not called yet, last is now, and ahead the due time.
func (sc *Schedule) LastDue(job string, now time.Time) (last, ahead time.Time, err error) {
	err = sc.db.View(func(tx *store.Tx) error {
		due, future, err := lastDue(tx, job, store.Micros(now))
		last = store.Instant(due)
		if err != nil || future == 0 {
			return err
		}
		noted, err := dueAhead(job, future).Get(tx)
		switch {
		case err != nil:
			return err
		case noted.IsZero() || noted.After(now):
			last, ahead = now, store.Instant(future)
		case noted.After(last):
			last = noted
		}
		return nil
	})
	if err != nil {
		return last, ahead, fmt.Errorf("read when job %s was last due: %w", job, err)
	}
	return last, ahead, nil
}

// lastDue returns the latest due time of a job's runs up to now, and the latest one after now; 0 for none.
func lastDue(tx *store.Tx, job string, now int64) (due, future int64, err error) {
	former, err := ledger.FormerOf(tx, job)
	if err != nil {
		return 0, 0, err
	}
	err = tx.Row(`SELECT
		(SELECT coalesce(max(due), 0) FROM runs WHERE job = ?1 AND due <> 0 AND due <= ?3 AND id > ?2),
		(SELECT coalesce(max(due), 0) FROM runs WHERE job = ?1 AND due <> 0 AND due > ?3 AND id > ?2)`,
		job, former.AfterRun, now).Scan(&due, &future)
	if at := store.Micros(former.LastDue); at <= now {
		due = max(due, at)
	} else {
		future = max(future, at)
	}
	return due, future, err
}
