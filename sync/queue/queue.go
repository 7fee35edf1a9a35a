// Package queue stores the data calls to be made: their order, which answers are recent enough to
// skip a call, which calls have failed and when they are retried. It owns the tables queue,
// queue_others, queue_counts and freshness.
package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/forgotten"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Queue is the queue of one state folder.
type Queue struct {
	db     *store.Store
	ledger *ledger.Ledger

	// Forgotten holds erased ids, for which no calls are queued.
	Forgotten *forgotten.Set
}

// New returns the queue of a database whose schema is up to date.
func New(db *store.Store, l *ledger.Ledger) *Queue { return &Queue{db: db, ledger: l} }

// keepQueued is how long a call stays queued after a job last requested it.
const keepQueued = 7 * 24 * time.Hour

// Task is a data call to be made: one per endpoint and entity, for all jobs that want it.
type Task struct {
	Op       outlier.Operation
	Entity   string
	Run, Job string        // the first requester; lineage of the answer
	Value    float64       // tasks with a higher value come first
	MaxAge   time.Duration // a younger answer makes the call unnecessary

	// Mark is the current number of the requested items, for kinds that change only in number: an
	// answer of any age is fresh if the number was the same then. It is nil if the number is
	// unknown or does not apply.
	Mark *int64

	// Once is set for a one-off request: an entity that was found missing is requested again after MaxAge.
	Once bool

	Others []string // other jobs that want it; set for queued tasks

	Attempts  int       // failed attempts
	NotBefore time.Time // when to try again
}

func (t Task) String() string { return fmt.Sprintf("%s %s", t.Op, t.Entity) }

// Wanting returns the jobs that want a queued task, the first requester before the others.
func (t Task) Wanting() []string { return append([]string{t.Job}, t.Others...) }

// Filter selects the tasks that one job wants, whether or not it was the first requester. The zero
// value selects all tasks.
type Filter struct{ Job string }

// Enqueue adds tasks to the queue and returns how many were not queued before. It skips a task about
// a forgotten id, one whose last answer is recent enough, and one whose entity is known not to exist
// until its retry is due. A task that is queued already keeps its first requester and takes the
// higher value and the shorter age of the two. Another job that wants it is recorded, in case the
// first no longer wants it.
func (q *Queue) Enqueue(tx *store.Tx, tasks []Task) (queued int, err error) {
	return q.enqueue(tx, tasks, nil)
}

// Add is like [Queue.Enqueue] for any number of tasks, in several transactions; see
// [store.Store.InPieces]. After a kill it must be called again with the same tasks. If skipped is
// not nil, Add calls it for each task that is fresh, with the time of the answer.
func (q *Queue) Add(ctx context.Context, tasks iter.Seq[Task], skipped func(Task, time.Time)) error {
	next, stop := iter.Pull(tasks)
	defer stop()
	return q.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) {
		var piece []Task
		for task, ok := next(); ok; task, ok = next() {
			if piece = append(piece, task); len(piece) == most {
				break
			}
		}
		_, err := q.enqueue(tx, piece, skipped)
		return len(piece), err
	})
}

// enqueue is like [Queue.Enqueue]. If skipped is not nil, it is called for each task that is fresh,
// with the time of the answer.
func (q *Queue) enqueue(tx *store.Tx, tasks []Task, skipped func(Task, time.Time)) (queued int, err error) {
	for _, task := range tasks {
		if q.Forgotten.Mentions(nil, []byte(task.Entity)) {
			q.db.Log().Warn("call skipped: its id was erased with 'outlierd forget'", "op", task.Op, "job", task.Job)
			continue
		}
		at, fresh, err := q.fresh(tx, task)
		if err != nil {
			return queued, fmt.Errorf("queue %s: %w", task, err)
		}
		if fresh {
			if skipped != nil {
				skipped(task, at)
			}
			continue
		}
		joined, err := insert(tx, task)
		if err != nil {
			return queued, fmt.Errorf("queue %s: %w", task, err)
		}
		if joined {
			queued++
		}
	}
	return queued, nil
}

// insert queues a task and reports whether it was not queued before. Each day of waiting raises a
// task's rank by one, so that tasks of low value are done eventually. The increase is the same for
// all, so the order is fixed here (see 0003.sql).
func insert(tx *store.Tx, task Task) (bool, error) {
	now := store.Micros(tx.Now())
	result, err := tx.Exec(`INSERT INTO queue (op, entity, run, job, value, max_age, not_before, wanted_at,
		since, rank, mark)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?5 - ?8 / 86400e6, ?9) ON CONFLICT DO NOTHING`,
		string(task.Op), task.Entity, task.Run, task.Job, task.Value, task.MaxAge.Microseconds(),
		store.Micros(task.NotBefore), now, task.Mark)
	if err != nil || store.Changed(result) {
		return err == nil, err
	}
	_, err = tx.Exec(`UPDATE queue SET value = max(value, ?1), max_age = min(max_age, ?2), wanted_at = ?3,
		rank = max(rank, ?1 - since / 86400e6), mark = coalesce(?4, mark) WHERE op = ?5 AND entity = ?6`,
		task.Value, task.MaxAge.Microseconds(), now, task.Mark, string(task.Op), task.Entity)
	if err == nil {
		_, err = tx.Exec(`INSERT INTO queue_others (op, entity, job, run, wanted_at, rank, not_before)
			SELECT op, entity, ?1, ?2, ?3, rank, not_before FROM queue
			WHERE op = ?4 AND entity = ?5 AND job <> ?1 ON CONFLICT DO NOTHING`,
			task.Job, task.Run, now, string(task.Op), task.Entity)
	}
	return false, err
}

// parts returns the parts of the queue that the filter selects, each as FROM and WHERE with o for
// the row: tasks without back-off and tasks with, which have separate indexes. ?1 is the job; tasks
// last wanted at ?2 or before have expired.
func (f Filter) parts() (ready, backOff []string) {
	parts := []string{`queue o WHERE o.job = ?1 AND o.wanted_at > ?2`,
		`queue_others o CROSS JOIN queue q USING (op, entity) WHERE o.job = ?1 AND q.wanted_at > ?2`}
	if f.Job == "" {
		parts = []string{`queue o WHERE ?1 = '' AND o.wanted_at > ?2`}
	}
	for _, part := range parts {
		ready, backOff = append(ready, part+` AND o.not_before = 0`), append(backOff, part+`
			AND o.not_before > 0`)
	}
	return ready, backOff
}

// NextTask returns the task with the highest rank that may be tried now, or nil. It
// stays queued until [Done].
func (q *Queue) NextTask(now time.Time, f Filter) (*Task, error) {
	return q.NextTaskBut(now, f, "", "")
}

// NextTaskBut is [Queue.NextTask] without the call about an entity.
func (q *Queue) NextTaskBut(now time.Time, f Filter, op outlier.Operation, entity string) (*Task, error) {
	var task Task
	var maxAge, notBefore int64
	var others string
	err := q.db.View(func(tx *store.Tx) (err error) {
		for _, query := range []string{f.queries().usual, f.queries().next} {
			err = tx.Row(query, f.Job, store.Micros(now.Add(-keepQueued)), store.Micros(now), string(op), entity).
				Scan(&task.Op, &task.Entity, &task.Run, &task.Job, &task.Value, &maxAge, &task.Attempts,
					&notBefore, &task.Mark, &others)
			if !errors.Is(err, sql.ErrNoRows) {
				break
			}
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the next queued call: %w", err)
	}
	if others != "[]" {
		if err := json.Unmarshal([]byte(others), &task.Others); err != nil {
			return nil, fmt.Errorf("find the other jobs that want %s: %w", task, err)
		}
	}
	task.MaxAge, task.NotBefore = time.Duration(maxAge)*time.Microsecond, store.Instant(notBefore)
	return &task, nil
}

// queries holds the queries of a filter that run for each call. They depend only on whether it names
// a job, and are built once.
type queries struct{ usual, next, pending string }

var (
	ofAll = Filter{}.build()
	ofOne = Filter{Job: "any"}.build()
)

func (f Filter) build() queries { return queries{f.usual(), f.next(), f.pending()} }

func (f Filter) queries() queries {
	if f.Job == "" {
		return ofAll
	}
	return ofOne
}

// due returns the parts of the queue with the tasks that may be tried at ?3, without that of operation ?4
// about entity ?5. The first one has those without back-off whose first requester is selected.
func (f Filter) due() []string {
	ready, backOff := f.parts()
	for i := range backOff {
		backOff[i] += ` AND o.not_before <= ?3`
	}
	due := slices.Concat(ready, backOff)
	for i := range due {
		due[i] += ` AND (o.op <> ?4 OR o.entity <> ?5)`
	}
	return due
}

// usual returns a query that finds the same task as [Filter.next], in two thirds of the time, if all tasks
// that may be tried are in the first part of the queue. Otherwise it finds none. The other parts are a
// condition of the limit, which SQLite checks once. As a condition of the rows it would be checked for each
// row of the first part before none is found.
func (f Filter) usual() string {
	due := f.due()
	limit := `1`
	for _, part := range due[1:] {
		limit += ` AND NOT EXISTS (SELECT 1 FROM ` + part + `)`
	}
	return selectTask + first(due[0], limit) + ` CROSS JOIN queue q USING (op, entity)`
}

// next returns the query for the task with the highest rank that may be tried at ?3. Each part has an
// index by rank, so the cost does not depend on the length of the queue.
func (f Filter) next() string {
	var best []string
	for _, part := range f.due() {
		best = append(best, `SELECT * FROM `+first(part, `1`))
	}
	return selectTask + `(` + strings.Join(best, ` UNION ALL `) + `) CROSS JOIN queue q USING (op, entity)
		ORDER BY rank DESC, op, entity LIMIT 1`
}

// selectTask begins a query for tasks.
const selectTask = `SELECT q.op, q.entity, run, job, value, max_age, attempts, not_before, mark, ` + others + ` FROM `

// first returns a query for the task with the highest rank in a part of the queue, or for none if limit is 0.
func first(part, limit string) string {
	return `(SELECT o.op, o.entity FROM ` + part + `
		ORDER BY o.rank DESC, o.op, o.entity LIMIT ` + limit + `)`
}

// Pending reports whether a task may be tried now. It is cheaper than [Queue.NextTask], which finds
// the one with the highest rank.
func (q *Queue) Pending(now time.Time, f Filter) (pending bool, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		return tx.Row(f.queries().pending, f.Job, store.Micros(now.Add(-keepQueued)),
			store.Micros(now), "", "").Scan(&pending)
	})
	if err != nil {
		return false, fmt.Errorf("look for a queued call: %w", err)
	}
	return pending, nil
}

// pending returns the query for whether a task may be tried at ?3.
func (f Filter) pending() string {
	var any []string
	for _, part := range f.due() {
		any = append(any, `EXISTS (SELECT 1 FROM `+part+`)`)
	}
	return `SELECT ` + strings.Join(any, ` OR `)
}

// NextRetry returns the first time after now at which the back-off of a task ends; zero if no task
// is in back-off. Until then no further task becomes available to [Queue.NextTask].
func (q *Queue) NextRetry(now time.Time, f Filter) (time.Time, error) {
	var at int64
	err := q.db.View(func(tx *store.Tx) error {
		return tx.Row(f.retry(), f.Job, store.Micros(now.Add(-keepQueued)), store.Micros(now)).Scan(&at)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the next retry: %w", err)
	}
	return store.Instant(at), nil
}

// retry returns the query for the first time after ?3 at which the back-off of a task ends.
func (f Filter) retry() string {
	_, backOff := f.parts()
	var first []string
	for _, part := range backOff {
		// The bound is first, because SQLite searches the index by it. The plus keeps SQLite from
		// checking whether the bound implies the index's condition, for which it would prepare
		// the statement again for every bound.
		part = strings.Replace(part, `o.not_before > 0`, `o.not_before > +?3 AND o.not_before > 0`, 1)
		first = append(first, `SELECT * FROM (SELECT o.not_before AS at FROM `+part+` ORDER BY o.not_before
			LIMIT 1)`)
	}
	return `SELECT coalesce(min(at), 0) FROM (` + strings.Join(first, ` UNION ALL `) + `)`
}

// Done records that a task was answered and removes it from the queue. If missing is set, the
// service has no such entity, and it is not requested again before retryAt. Done belongs in the
// Commit of the answer, whose journal id is response.
func Done(tx *store.Tx, task Task, response int64, missing bool, retryAt time.Time) error {
	gone := 0
	if missing {
		gone = 1
	}
	_, err := tx.Exec(`INSERT INTO freshness (op, entity, response, at, missing, retry_at, mark)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET response = excluded.response, at = excluded.at,
		missing = excluded.missing, retry_at = excluded.retry_at, mark = excluded.mark`,
		string(task.Op), task.Entity, response, store.Micros(tx.Now()), gone, store.Micros(retryAt),
		task.Mark)
	if err == nil && missing && response != 0 {
		err = journal.MarkMissing(tx, response, retryAt)
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM queue WHERE op = ? AND entity = ?`, string(task.Op), task.Entity)
	}
	if err != nil {
		return fmt.Errorf("note the answer to %s: %w", task, err)
	}
	return nil
}

// Fail records that a task failed. It stays queued until a week after a job last requested it.
func Fail(tx *store.Tx, task Task, at time.Time, reason string, retryAt time.Time) error {
	_, err := tx.Exec(`UPDATE queue SET attempts = attempts + 1, failed_at = ?, reason = ?, not_before = ?
		WHERE op = ? AND entity = ?`,
		store.Micros(at), store.Bounded(reason), store.Micros(retryAt), string(task.Op), task.Entity)
	if err != nil {
		return fmt.Errorf("note the failure of %s: %w", task, err)
	}
	return nil
}

// RetryNow ends the back-off of the tasks that a job wants.
func (q *Queue) RetryNow(job string) error {
	err := q.db.Update(func(tx *store.Tx) error {
		for _, of := range []string{`job = ?`,
			`(op, entity) IN (SELECT op, entity FROM queue_others WHERE job = ? AND not_before > 0)`} {
			if _, err := tx.Exec(`UPDATE queue SET not_before = 0 WHERE not_before > 0 AND `+of, job); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end the back-off of the calls of job %s: %w", job, err)
	}
	return nil
}

// Queued returns the number of queued tasks, including those in back-off.
func (q *Queue) Queued(f Filter) (n int, err error) {
	query := queuedOf
	if f.Job == "" {
		query = queued
	}
	err = q.db.View(func(tx *store.Tx) error {
		return tx.Row(query, f.Job, store.Micros(time.Now().Add(-keepQueued))).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count the queue: %w", err)
	}
	return n, nil
}

// The queries for the number of queued tasks: the stored count minus the tasks that have expired but
// are not removed yet.
const (
	queued = `SELECT coalesce((SELECT sum(asked) FROM queue_counts), 0) - (SELECT count(*) FROM queue
		WHERE wanted_at <= ?2) WHERE ?1 = ''`

	queuedOf = `SELECT coalesce((SELECT sum(asked + shared) FROM queue_counts WHERE job = ?1), 0)
		- (SELECT count(*) FROM queue q WHERE wanted_at <= ?2 AND (job = ?1 OR EXISTS (
			SELECT 1 FROM queue_others o WHERE o.op = q.op AND o.entity = q.entity AND o.job = ?1)))`
)

// Count is the number of queued calls of an operation that a job wants.
type Count struct {
	Job    string
	Op     outlier.Operation
	Asked  int // calls with this job as first requester; each call has exactly one
	Shared int // calls with another job as first requester
}

// Counts returns the numbers of queued calls, by job and operation.
func (q *Queue) Counts() (all []Count, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		all, err = store.List(tx, func(c *Count) []any { return []any{&c.Job, &c.Op, &c.Asked, &c.Shared} },
			`SELECT job, op, asked, shared FROM queue_counts WHERE asked > 0 OR shared > 0 ORDER BY job, op`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the queue by job: %w", err)
	}
	return all, nil
}

// Expire drops some of the tasks that no job has requested for a week, and reports whether there may
// be more. Transactions are short, so that no other command waits for long.
func (q *Queue) Expire() (more bool, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT EXISTS (SELECT 1 FROM queue WHERE wanted_at <= ?)`, q.expired()).Scan(&more)
	})
	if err == nil && more {
		err = q.db.Update(func(tx *store.Tx) error { return q.ExpireSome(tx) })
	}
	if err != nil {
		return false, fmt.Errorf("drop calls from the queue that have expired: %w", err)
	}
	return more, nil
}

// ExpireSome drops tasks that no job has requested for a week, at most [expirePiece].
func (q *Queue) ExpireSome(tx *store.Tx) error {
	_, err := tx.Exec(`DELETE FROM queue WHERE (op, entity) IN (SELECT op, entity FROM queue
		WHERE wanted_at <= ? LIMIT ?)`,
		q.expired(), expirePiece)
	return err
}

// expired returns the time, in microseconds, at or before which an expired task was last requested.
// It is 0 until the service has confirmed the time, so that a local clock that was set forward does
// not empty the queue.
func (q *Queue) expired() int64 {
	now := time.Now()
	service, agreed := q.ledger.LearnedTime()
	if !agreed {
		return 0
	}
	if service.Before(now) {
		now = service
	}
	return store.Micros(now.Add(-keepQueued))
}

// expirePiece is the maximum number of tasks that expire in one transaction.
const expirePiece = 1000

// Correct ends the back-off of calls that would last longer than any call stays queued: the clock
// was ahead when they failed.
func Correct(tx *store.Tx) error {
	_, err := tx.Exec(`UPDATE queue SET not_before = ? WHERE not_before > 0 AND not_before > ?`,
		store.Micros(tx.Now()), store.Micros(tx.Now().Add(keepQueued)))
	return err
}
