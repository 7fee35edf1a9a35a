package queue

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// # The order of the queue
//
// Tasks that may be tried are processed by rank, highest first, then by operation and entity. Failed
// tasks are in back-off and join the order when that is over. The order is read in pages from
// indexes, so that the cost of reading its beginning does not depend on its length.

// Place is the position of a task in the order.
type Place struct {
	Rank      float64
	Op        outlier.Operation
	Entity    string
	NotBefore time.Time // zero unless the task has failed
	Jobs      []string  // the jobs that want it; only for tasks in back-off
}

// Compare compares places of tasks that may be tried. It returns a negative number if p comes first,
// a positive one if q does, and 0 if they are equal.
func (p *Place) Compare(q *Place) int {
	switch {
	case p.Rank != q.Rank && p.Rank > q.Rank:
		return -1
	case p.Rank != q.Rank:
		return 1
	}
	if byOp := strings.Compare(string(p.Op), string(q.Op)); byOp != 0 {
		return byOp
	}
	return strings.Compare(p.Entity, q.Entity)
}

// Before is the place before every task.
var Before = Place{Rank: math.MaxFloat64}

type placeRow struct {
	Place
	notBefore   int64
	job, others string
}

func (p *Place) columns() []any { return []any{&p.Rank, &p.Op, &p.Entity} }

// Places returns, in order, the places of the first tasks after a place that may be tried now, at
// most limit.
func (q *Queue) Places(f Filter, now time.Time, after Place, limit int) (all []Place, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		all, err = store.List(tx, (*Place).columns, f.places(), store.Micros(now), after.Rank,
			string(after.Op), after.Entity, limit, f.Job)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	return all, nil
}

// places returns the query for the tasks of job ?6, or of any if that is empty, that may be tried at
// ?1, after the place in ?2, ?3 and ?4.
func (f Filter) places() string {
	tables, job, may := []string{"queue"}, `?6 = ''`, ranked
	if f.Job != "" {
		tables, job, may = []string{"queue", "queue_others"}, `job = ?6`, triable
	}
	var parts []string
	for _, table := range tables {
		for _, may := range may {
			parts = append(parts, `SELECT * FROM (SELECT rank, op, entity FROM `+table+` o `+may+` AND `+job+`
				AND rank <= ?2 AND (rank < ?2 OR (op, entity) > (?3, ?4)) ORDER BY rank DESC, op, entity
				LIMIT ?5)`)
		}
	}
	return `SELECT * FROM (` + strings.Join(parts, ` UNION ALL `) + `) ORDER BY rank DESC, op, entity
		LIMIT ?5`
}

// Conditions for the tasks that may be tried at ?1: one without back-off and one with, because they
// have separate indexes. ranked is for reading them by rank.
var (
	triable = [...]string{`WHERE not_before = 0`, `WHERE not_before > 0 AND not_before <= ?1`}
	ranked  = [...]string{triable[0], `INDEXED BY queue_back_off_ranked ` + triable[1]}
)

// LastPlace returns the place of the last task of a job that may be tried now, or nil.
func (q *Queue) LastPlace(job string, now time.Time) (*Place, error) {
	var all []Place
	err := q.db.View(func(tx *store.Tx) (err error) {
		all, err = store.List(tx, (*Place).columns, last(), store.Micros(now), job)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the last call of job %s in the queue: %w", job, err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return &all[0], nil
}

// last returns the query for the last place of a task that job ?2 wants and that may be tried at ?1.
func last() string {
	const backwards = ` ORDER BY rank, op DESC, entity DESC LIMIT 1`
	var parts []string
	for _, table := range []string{"queue", "queue_others"} {
		for _, may := range triable {
			parts = append(parts, `SELECT * FROM (SELECT rank, op, entity FROM `+table+` o `+may+`
				AND job = ?2`+backwards+`)`)
		}
	}
	return `SELECT * FROM (` + strings.Join(parts, ` UNION ALL `) + `)` + backwards
}

// Between returns how many tasks between two places may be tried now.
func (q *Queue) Between(now time.Time, from, to Place) (n int, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		return tx.Row(between(), store.Micros(now), from.Rank, string(from.Op), from.Entity, to.Rank,
			string(to.Op), to.Entity).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count a part of the queue: %w", err)
	}
	return n, nil
}

// between returns the query that counts the tasks that may be tried at ?1 between two places, ?2 to
// ?4 and ?5 to ?7. Tasks with the rank of either place are counted separately, because operation and
// entity ascend while the rank descends.
func between() string {
	var parts []string
	for _, may := range ranked {
		for _, part := range []string{
			`rank < ?2 AND rank > ?5`,
			`rank = ?2 AND ?2 <> ?5 AND (op, entity) > (?3, ?4)`,
			`rank = ?5 AND (op, entity) < (?6, ?7) AND (?2 <> ?5 OR (op, entity) > (?3, ?4))`,
		} {
			parts = append(parts, `(SELECT count(*) FROM queue o `+may+` AND `+part+`)`)
		}
	}
	return `SELECT ` + strings.Join(parts, ` + `)
}

// AfterNow returns the place in back-off after all tasks whose back-off is over.
func AfterNow(now time.Time) Place { return Place{NotBefore: now, Op: "~"} }

// BackedOff returns the places of the first tasks in back-off after a place, at most limit, ordered
// by the time at which they may be tried again.
func (q *Queue) BackedOff(after Place, limit int) (all []Place, err error) {
	err = q.db.View(func(tx *store.Tx) error {
		columns := func(r *placeRow) []any { return append(r.columns(), &r.notBefore, &r.job, &r.others) }
		rows, err := store.List(tx, columns, backedOff,
			store.Micros(after.NotBefore), string(after.Op), after.Entity, limit)
		for i := range rows {
			r := &rows[i]
			r.NotBefore = store.Instant(r.notBefore)
			if err := json.Unmarshal([]byte(r.others), &r.Jobs); err != nil {
				return err
			}
			r.Jobs = append(r.Jobs, r.job)
			all = append(all, r.Place)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the calls that have failed: %w", err)
	}
	return all, nil
}

// backedOff is the query for the tasks in back-off after the one in ?1, ?2 and ?3. The bound is
// before the condition of the partial index, because SQLite searches the index by the first of two.
const backedOff = `SELECT p.rank, op, entity, p.not_before, q.job,
		(SELECT json_group_array(o.job) FROM queue_others o WHERE o.op = q.op AND o.entity = q.entity)
	FROM (SELECT rank, op, entity, not_before FROM queue INDEXED BY queue_back_off
		WHERE not_before >= ?1 AND not_before > 0 AND (not_before > ?1 OR (op, entity) > (?2, ?3))
		ORDER BY not_before, op, entity LIMIT ?4) p CROSS JOIN queue q USING (op, entity)
	ORDER BY p.not_before, op, entity`

// At returns the tasks at places; nil for one that has left the queue or expired.
func (q *Queue) At(places []Place) ([]*Waiting, error) {
	all, at := make([]*Waiting, len(places)), map[[2]string]int{}
	keys := make([][2]string, len(places))
	for i, p := range places {
		keys[i] = [2]string{string(p.Op), p.Entity}
		at[keys[i]] = i
	}
	err := q.db.View(func(tx *store.Tx) error {
		found, err := waiting(tx, details, keys, store.Micros(time.Now().Add(-keepQueued)))
		for i := range found {
			all[at[[2]string{string(found[i].Op), found[i].Entity}]] = &found[i]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the queue: %w", err)
	}
	return all, nil
}

// details is the query for tasks by a JSON list of [operation, entity]. Tasks last wanted at ?2 or
// before have expired.
const details = `SELECT ` + waitingColumns + ` FROM json_each(?1) p CROSS JOIN queue q
	WHERE q.op = p.value ->> 0 AND q.entity = p.value ->> 1 AND q.wanted_at > ?2`

// Waiting is a queued task.
type Waiting struct {
	Task
	Since  time.Time // when it joined
	Failed time.Time // when it last failed; zero if never
	Reason string    // of that failure
}

// PendingFor returns the tasks about ids, highest rank first.
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

// waiting returns the tasks of a query whose first parameter is the list of, as JSON.
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
			return nil, fmt.Errorf("find the other jobs that want %s: %w", r.Task, err)
		}
		all = append(all, r.Waiting)
	}
	return all, err
}

const waitingColumns = `q.op, q.entity, q.run, q.job, q.value, max_age, attempts, not_before, mark, since,
	failed_at, reason, ` + others

// others is the SQL expression for the jobs that want the task in q, as JSON, without the first
// requester.
const others = `(SELECT json_group_array(job) FROM (SELECT job FROM queue_others o
	WHERE o.op = q.op AND o.entity = q.entity ORDER BY job))`

// waitingRow is a row of a query for queued tasks.
type waitingRow struct {
	Waiting
	maxAge, notBefore, since, failed int64
	others                           string
}

func (r *waitingRow) columns() []any {
	return []any{&r.Op, &r.Entity, &r.Run, &r.Job, &r.Value, &r.maxAge, &r.Attempts, &r.notBefore, &r.Mark,
		&r.since, &r.failed, &r.Reason, &r.others}
}
