package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"outlierd/sync/store"
)

// Waiting is a task as it stands in the queue.
type Waiting struct {
	Task
	Others []string  // jobs that want it beside that which asked first
	Since  time.Time // when it joined
	Failed time.Time // when it failed last; zero if it never did
	Reason string    // of that failure
}

// waitingRow is a task on its way out of the database.
type waitingRow struct {
	Waiting
	maxAge, notBefore, since, failed int64
	others                           string
}

const waitingColumns = `q.op, q.entity, q.run, q.job, q.value, max_age, attempts, not_before, mark, since,
	failed_at, reason,
	(SELECT json_group_array(job ORDER BY job) FROM queue_others o WHERE o.op = q.op AND o.entity = q.entity)`

func (r *waitingRow) columns() []any {
	return []any{&r.Op, &r.Entity, &r.Run, &r.Job, &r.Value, &r.maxAge, &r.Attempts, &r.notBefore, &r.Mark,
		&r.since, &r.failed, &r.Reason, &r.others}
}

// PendingFor lists the tasks about ids, best first.
func (q *Queue) PendingFor(ids ...string) (all []Waiting, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		all, err = waiting(tx, `WITH ops (op) AS (SELECT DISTINCT op FROM queue_counts)
			SELECT `+waitingColumns+` FROM json_each(?) ids CROSS JOIN ops CROSS JOIN queue q
			WHERE q.op = ops.op AND q.entity = ids.value ORDER BY rank DESC, q.op, q.entity`,
			slices.Concat([]string{}, ids))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	return all, nil
}

// waiting lists tasks by a query whose first parameter is a list, as JSON.
func waiting(tx *store.Tx, query string, of any, args ...any) (all []Waiting, err error) {
	encoded, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	rows, err := store.List(tx, (*waitingRow).columns, query, append([]any{string(encoded)}, args...)...)
	for i := range rows {
		r := &rows[i]
		r.MaxAge, r.NotBefore = time.Duration(r.maxAge)*time.Microsecond, store.Instant(r.notBefore)
		r.Since, r.Failed = store.Instant(r.since), store.Instant(r.failed)
		if err := json.Unmarshal([]byte(r.others), &r.Others); err != nil {
			return nil, fmt.Errorf("who else wants %s: %w", r.Task, err)
		}
		all = append(all, r.Waiting)
	}
	return all, err
}
