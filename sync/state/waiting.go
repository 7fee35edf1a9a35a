package state

import (
	"fmt"
	"time"
)

// Waiting is a task as it stands in the queue.
type Waiting struct {
	Task
	Since  time.Time // when it joined
	Failed time.Time // when it was last tried in vain; zero if it never was
	Reason string    // why that failed
}

type waitingRow struct {
	Waiting
	maxAge, notBefore, since, failed int64
}

func (r *waitingRow) columns() []any {
	return []any{&r.Op, &r.Entity, &r.Run, &r.Job, &r.Value, &r.maxAge, &r.Attempts, &r.notBefore, &r.Mark, &r.since, &r.failed, &r.Reason}
}

// Waiting lists the tasks that the filter lets through in the order in which they will
// be done: best first, those that may not be tried yet included.
func (s *Store) Waiting(f Filter) (all []Waiting, err error) {
	err = s.view(func() error {
		rows, err := list(s, (*waitingRow).columns, `SELECT op, entity, run, job, value, max_age, attempts, not_before, mark, since, failed_at, reason
			FROM queue WHERE`+inFilter+`ORDER BY rank DESC, op, entity`, f.Run, f.Job, micros(time.Now().Add(-keepQueued)))
		for _, r := range rows {
			r.MaxAge, r.NotBefore = time.Duration(r.maxAge)*time.Microsecond, instant(r.notBefore)
			r.Since, r.Failed = instant(r.since), instant(r.failed)
			all = append(all, r.Waiting)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	return all, nil
}

// ClearQueue drops the tasks of a job, or of all jobs if job is "", and returns how
// many there were.
func (s *Store) ClearQueue(job string) (n int64, err error) {
	err = s.Update(func(tx *Tx) error {
		result, err := tx.exec(`DELETE FROM queue WHERE job = ?1 OR ?1 = ''`, job)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clear the queue: %w", err)
	}
	return n, nil
}
