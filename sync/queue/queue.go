// Package queue stores the data calls to be made: their order, which jobs want them, which answers are
// recent enough to skip a call, which calls have failed and when they are retried. It owns the tables
// tasks, wants and freshness.
//
// # The order of the queue
//
// A task that may be tried is done before all others of a lower rank: its value, plus one for each day of
// waiting, so that tasks of low value are done eventually. All ranks grow at the same pace, so the order
// is fixed when a task is queued. A failed task joins the order again when its back-off is over.
//
// The queue is fast for what can be served before it expires: 10 calls a minute are 100,800 in a week.
package queue

import (
	"cmp"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/forgotten"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Queue is the queue of one state folder.
type Queue struct {
	db    *store.Store
	clock *ledger.Clock

	// Forgotten holds erased ids, for which no calls are queued.
	Forgotten *forgotten.Set
}

// New returns the queue of a database whose schema is up to date.
func New(db *store.Store, clock *ledger.Clock) *Queue { return &Queue{db: db, clock: clock} }

// Task is a data call to be made: one per endpoint and entity, for all jobs that want it.
type Task struct {
	Op     outlier.Operation `json:"operation"`
	Entity string            `json:"entity"`
	Run    string            `json:"-"` // of Job; lineage of the answer
	Job    string            `json:"job"`
	Value  float64           `json:"value"` // tasks with a higher value come first
	MaxAge time.Duration     `json:"-"`     // a younger answer makes the call unnecessary

	// Mark is the current number of the requested items, for kinds that change only in number: an
	// answer of any age is fresh if the number was the same then. It is nil if the number is
	// unknown or does not apply.
	Mark *int64 `json:"-"`

	// Once is set for a one-off request: an entity that was found missing is requested again after MaxAge.
	Once bool `json:"-"`

	Others []string `json:"others,omitempty"` // other jobs that want it; set for queued tasks

	Attempts      int `json:"failed_attempts"` // how often it has failed
	outlier.Tries     // of the present call; or NotBefore alone: when to try again after it has failed
}

func (t Task) String() string { return fmt.Sprintf("%s %s", t.Op, t.Entity) }

// Wanting returns the jobs that want a queued task, the first requester before the others.
func (t Task) Wanting() []string { return append([]string{t.Job}, t.Others...) }

// Waiting is a queued task.
type Waiting struct {
	Task
	Since  time.Time `json:"since"`              // when it joined
	Failed time.Time `json:"failed_at,omitzero"` // when it last failed; zero if never
	Reason string    `json:"reason,omitempty"`   // of that failure

	Before int `json:"-"` // tasks that come before it; set by [Queue.List]
}

func (w *Waiting) columns() store.Columns {
	return store.Columns{
		"t.op": &w.Op, "t.entity": &w.Entity, "t.value": &w.Value, "t.max_age": store.Duration(&w.MaxAge),
		"t.mark": &w.Mark, "t.attempts": &w.Attempts, "t.failures": &w.Failures, "t.refusals": &w.Refusals, "t.not_before": store.Time(&w.NotBefore),
		"t.since": store.Time(&w.Since), "t.failed_at": store.Time(&w.Failed), "t.reason": &w.Reason,
		"(SELECT run FROM wants WHERE task = t.id ORDER BY id LIMIT 1)": &w.Run,
		"(SELECT job FROM wants WHERE task = t.id ORDER BY id LIMIT 1)": &w.Job,
		`(SELECT json_group_array(job) FROM (SELECT job FROM wants WHERE task = t.id
			AND id > (SELECT min(id) FROM wants WHERE task = t.id) ORDER BY job))`: store.JSON(&w.Others),
	}
}

// Filter selects the tasks that one job wants, whether or not it was the first requester. The zero
// value selects all tasks.
type Filter struct{ Job string }

// wanted is the condition for the tasks t that job ?1 wants, or any if that is empty.
const wanted = `(?1 = '' OR EXISTS (SELECT 1 FROM wants WHERE task = t.id AND job = ?1))`

// repeated is the condition for tasks that are being repeated at ?2. Their pauses last seconds: a time further ahead
// comes from a clock that was ahead.
const repeated = `failures > 0 AND not_before <= ?2 + 60000000`

// Add queues a task. It skips one about a forgotten id, one whose last answer is recent enough, and one whose entity is
// known not to exist until its retry is due. A task that is queued already keeps its first requester and takes the higher
// value and the shorter age of the two. If the task is fresh, Add returns when the answer was received.
func (q *Queue) Add(tx *store.Tx, task Task) (learned time.Time, known bool, err error) {
	if q.Forgotten.Mentions(nil, []byte(task.Entity)) {
		q.db.Log().Warn("call skipped: its id was erased with 'outlierd forget'", "op", task.Op, "job", task.Job)
		return learned, false, nil
	}
	if learned, known, err = fresh(tx, task); err != nil || known {
		return learned, known, err
	}
	err = tx.Exec(`INSERT INTO tasks (op, entity, value, max_age, mark, not_before, since, wanted_at, rank)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?3 - ?7 / 86400e6)
		ON CONFLICT DO UPDATE SET value = max(value, ?3), max_age = min(max_age, ?4), mark = coalesce(?5, mark),
			wanted_at = ?7, rank = max(rank, ?3 - since / 86400e6)`,
		task.Op, task.Entity, task.Value, store.Duration(&task.MaxAge), task.Mark, store.Time(&task.NotBefore),
		store.Micros(tx.Now()))
	if err == nil {
		err = tx.Exec(`INSERT INTO wants (task, job, run) SELECT id, ?3, ?4 FROM tasks WHERE op = ?1 AND entity = ?2
			ON CONFLICT DO NOTHING`, task.Op, task.Entity, task.Job, task.Run)
	}
	return learned, false, err
}

// NextTask returns the task with the highest rank that may be tried now, or nil. It
// stays queued until [Done]. While one task waits to be repeated, others are done. While two wait, none is, as the
// service may be away.
func (q *Queue) NextTask(now time.Time, f Filter) (*Task, error) {
	next, err := store.First(q.db, (*Waiting).columns, `FROM tasks t WHERE not_before <= ?2 AND `+wanted+`
		AND (SELECT count(*) FROM tasks WHERE `+repeated+` AND not_before > ?2) < 2
		ORDER BY rank DESC, op, entity`, f.Job, store.Micros(now))
	if err != nil || next == nil {
		return nil, err
	}
	return &next.Task, nil
}

// Pending reports whether a task may be tried now, or is being repeated.
func (q *Queue) Pending(now time.Time, f Filter) (bool, error) {
	return store.Value[bool](q.db, `SELECT EXISTS (SELECT 1 FROM tasks t WHERE not_before <= ?2 AND `+wanted+`)
		OR EXISTS (SELECT 1 FROM tasks t WHERE `+repeated+` AND `+wanted+`)`, f.Job, store.Micros(now))
}

// NextRetry returns the first time after now at which the back-off of a task ends; zero if no task
// is in back-off. Until then no further task becomes available to [Queue.NextTask].
func (q *Queue) NextRetry(now time.Time, f Filter) (time.Time, error) {
	return store.ValueTime(q.db, `SELECT not_before FROM tasks t WHERE not_before <> 0 AND not_before > ?2 AND `+wanted+`
		ORDER BY not_before LIMIT 1`, f.Job, store.Micros(now))
}

// MarkOf returns the mark of a queued task; nil if it has none or is not queued.
func MarkOf(tx *store.Tx, op outlier.Operation, entity string) (*int64, error) {
	return store.Value[*int64](tx, `SELECT mark FROM tasks WHERE op = ? AND entity = ?`, op, entity)
}

// Done records that a task was answered and removes it from the queue. If missing is set, the
// service has no such entity, and it is not requested again before retryAt. Done belongs in the
// Commit of the answer, whose journal id is response.
func Done(tx *store.Tx, task Task, response int64, missing bool, retryAt time.Time) error {
	err := store.Insert(tx, "freshness", store.Columns{
		"op": task.Op, "entity": task.Entity, "response": response, "at": store.Micros(tx.Now()), "missing": missing,
		"retry_at": store.Time(&retryAt), "mark": task.Mark,
	}, `ON CONFLICT DO UPDATE SET response = excluded.response, at = excluded.at,
		missing = excluded.missing, retry_at = excluded.retry_at, mark = excluded.mark`)
	if err == nil && missing && response != 0 {
		err = journal.MarkMissing(tx, response, retryAt)
	}
	if err == nil {
		err = tx.Exec(`DELETE FROM tasks WHERE op = ? AND entity = ?`, task.Op, task.Entity)
	}
	return err
}

// Fail records that a task failed. It stays queued until a week after a job last requested it.
func Fail(in store.Writer, task Task, at time.Time, reason string, retryAt time.Time) error {
	return in.Exec(`UPDATE tasks SET attempts = attempts + 1, failed_at = ?, reason = ?, not_before = ?, failures = 0, refusals = 0
		WHERE op = ? AND entity = ?`,
		store.Micros(at), store.Bounded(reason), store.Micros(retryAt), task.Op, task.Entity)
}

// SaveTries records the attempts at a call, if it is queued.
func SaveTries(in store.Writer, op outlier.Operation, entity string, t outlier.Tries) error {
	return in.Exec(`UPDATE tasks SET failures = ?, refusals = ?, not_before = ? WHERE op = ? AND entity = ?`,
		t.Failures, t.Refusals, store.Time(&t.NotBefore), op, entity)
}

// RetryNow ends the back-off of the tasks that a job wants.
func RetryNow(tx *store.Tx, job string) error {
	return tx.Exec(`UPDATE tasks SET not_before = 0, failures = 0, refusals = 0 WHERE not_before <> 0
		AND id IN (SELECT task FROM wants WHERE job = ?)`, job)
}

// Queued returns the number of queued tasks, including those in back-off.
func (q *Queue) Queued(f Filter) (int, error) {
	if f.Job == "" {
		return store.Value[int](q.db, `SELECT count(*) FROM tasks`)
	}
	return store.Value[int](q.db, `SELECT count(*) FROM wants WHERE job = ?`, f.Job)
}

// Count is the number of queued calls of an operation that a job wants. A call that several jobs want counts
// for each of them.
type Count struct {
	Job   string
	Op    outlier.Operation
	Calls int
}

// Counts returns the numbers of queued calls, by job and operation.
func (q *Queue) Counts() ([]Count, error) {
	return store.List(q.db, func(c *Count) []any { return []any{&c.Job, &c.Op, &c.Calls} },
		`SELECT job, op, count(*) FROM tasks t CROSS JOIN wants w ON w.task = t.id GROUP BY job, op ORDER BY job, op`)
}

// # Expiry

// keepQueued is how long a call stays queued after a job last requested it.
const keepQueued = 7 * 24 * time.Hour

// Expire drops the tasks that no job has requested for a week. None is dropped until the service has confirmed the
// time, so that a local clock that was set forward does not empty the queue.
func (q *Queue) Expire(in store.Writer) error {
	if !q.clock.Agreed() {
		return nil
	}
	at := q.clock.Now()
	if now := time.Now(); now.Before(at) {
		at = now
	}
	return in.Exec(`DELETE FROM tasks WHERE wanted_at <= ?`, store.Micros(at.Add(-keepQueued)))
}

// Correct ends the back-off of calls that would last longer than any call stays queued: the clock
// was ahead when they failed.
func Correct(tx *store.Tx) error {
	return tx.Exec(`UPDATE tasks SET not_before = ? WHERE not_before > ?`,
		store.Micros(tx.Now()), store.Micros(tx.Now().Add(keepQueued)))
}

// # Reading the queue

// ordered are the tasks, each with the number of those that come before it at ?2. Both parts have indexes in their order.
const ordered = `SELECT id, row_number() OVER (ORDER BY rank DESC, op, entity) - 1 AS before FROM tasks WHERE not_before <= ?2
	UNION ALL SELECT id, (SELECT count(*) FROM tasks WHERE not_before <= ?2)
		+ row_number() OVER (ORDER BY not_before, rank DESC, op, entity) - 1 FROM tasks WHERE not_before > ?2`

// List returns the tasks that a filter selects in the order in which they will be done from now on, at most most, or for
// 0 all: by rank, then those in back-off as it ends.
func (q *Queue) List(now time.Time, f Filter, most int) ([]Waiting, error) {
	return store.Select(q.db, func(w *Waiting) store.Columns {
		all := w.columns()
		all["p.before"] = &w.Before
		return all
	}, `FROM (SELECT * FROM (`+ordered+`) WHERE ?1 = '' OR id IN (SELECT task FROM wants WHERE job = ?1) ORDER BY before LIMIT ?3) p
		JOIN tasks t USING (id) ORDER BY p.before`, f.Job, store.Micros(now), cmp.Or(most, -1))
}

// PendingFor returns the tasks about ids, highest rank first.
func (q *Queue) PendingFor(ids ...string) ([]Waiting, error) {
	return store.Select(q.db, (*Waiting).columns, `FROM tasks t WHERE entity IN (SELECT value FROM json_each(?))
		ORDER BY rank DESC, op, entity`, store.JSON(ids))
}
