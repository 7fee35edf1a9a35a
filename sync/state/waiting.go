package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Waiting is a task as it stands in the queue.
type Waiting struct {
	Task
	Since  time.Time // when it joined
	Failed time.Time // when it was last tried in vain; zero if it never was
	Reason string    // why that failed
}

// waitingRow is a task on its way out of the database.
type waitingRow struct {
	Waiting
	maxAge, notBefore, since, failed int64
}

const waitingColumns = `op, entity, run, q.job, value, max_age, attempts, not_before, mark, since, failed_at, reason`

func (r *waitingRow) columns() []any {
	return []any{&r.Op, &r.Entity, &r.Run, &r.Job, &r.Value, &r.maxAge, &r.Attempts, &r.notBefore, &r.Mark, &r.since, &r.failed, &r.Reason}
}

// Waiting lists the tasks that the filter lets through in the order in which they will
// be done: best first, those that may not be tried yet included.
func (s *Store) Waiting(f Filter) ([]Waiting, error) {
	return s.waiting(f.queued(), f.Job, micros(time.Now().Add(-keepQueued)))
}

// PendingFor lists the tasks about ids, best first.
func (s *Store) PendingFor(ids ...string) ([]Waiting, error) {
	encoded, err := json.Marshal(slices.Concat([]string{}, ids))
	if err != nil {
		return nil, err
	}
	return s.waiting(` FROM queue q WHERE entity IN (SELECT value FROM json_each(?)) `, string(encoded))
}

func (s *Store) waiting(from string, args ...any) (all []Waiting, err error) {
	err = s.view(func() error {
		rows, err := list(s, (*waitingRow).columns, `SELECT `+waitingColumns+from+`ORDER BY rank DESC, op, entity`, args...)
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
