package state

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
)

// keepQueued is how long an entity that nobody asks for again stays queued.
const keepQueued = 7 * 24 * time.Hour

// Task is a data call that is wanted: one per endpoint and entity, whoever wants it.
type Task struct {
	Op       outlier.Operation
	Entity   string
	Run, Job string        // who asked first; lineage of the answer
	Value    float64       // the higher, the sooner
	MaxAge   time.Duration // an answer younger than this will do

	// Mark is how many there are of what the task asks for, of a kind that changes only
	// in number: an answer of whatever age will do if there were as many. nil if it is
	// not known, or means nothing.
	Mark *int64

	Attempts  int       // that failed
	NotBefore time.Time // when to try again
}

func (t Task) String() string { return fmt.Sprintf("%s %s", t.Op, t.Entity) }

// Filter narrows the queue to the tasks that one job wants, whether or not it was the
// first who asked for them. Its zero value lets everything through.
type Filter struct{ Job string }

// queued is the part of the queue that the filter lets through. ?1 is its job; what was
// wanted last at ?2 or before has expired.
func (f Filter) queued() string {
	if f.Job == "" {
		return ` FROM queue q WHERE ?1 = '' AND wanted_at > ?2 `
	}
	return ` FROM queue_wants w CROSS JOIN queue q USING (op, entity) WHERE w.job = ?1 AND wanted_at > ?2 `
}

// Enqueue asks for tasks and returns how many joined the queue by this call. A task
// whose answer is young enough, or of whose entity it is known for now that it does
// not exist, is skipped. One that is queued already keeps its first requester and
// takes the higher value and the shorter age of the two; that another job wants it
// too is remembered, for when the first does not want it any more.
func (t *Tx) Enqueue(tasks []Task) (queued int, err error) {
	for _, task := range tasks {
		fresh, err := t.fresh(task)
		if err != nil {
			return queued, fmt.Errorf("queue %s: %w", task, err)
		}
		if fresh {
			continue
		}
		joined, err := t.want(task)
		if err != nil {
			return queued, fmt.Errorf("queue %s: %w", task, err)
		}
		if joined {
			queued++
		}
	}
	return queued, nil
}

// Wanted counts the tasks that would be queued now: whose entity is not known, or not
// well enough.
func (s *Store) Wanted(tasks []Task) (n int, err error) {
	err = s.view(func() error {
		tx := Tx{s: s, now: time.Now()}
		for _, task := range tasks {
			fresh, err := tx.fresh(task)
			if err != nil {
				return fmt.Errorf("is %s known: %w", task, err)
			}
			if !fresh {
				n++
			}
		}
		return nil
	})
	return n, err
}

// fresh reports whether what is known of the task's entity will do.
func (t *Tx) fresh(task Task) (bool, error) {
	var at, missing, retry int64
	var mark *int64
	err := t.row(`SELECT at, missing, retry_at, mark FROM freshness WHERE op = ? AND entity = ?`, string(task.Op), task.Entity).
		Scan(&at, &missing, &retry, &mark)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if missing != 0 {
		return t.now.Before(instant(retry)), err
	}
	unmoved := mark != nil && task.Mark != nil && *mark == *task.Mark
	return unmoved || t.now.Before(instant(at).Add(task.MaxAge)), err
}

// want queues a task, and reports whether it was not queued before. A day of waiting
// makes any task worth one more, so that what is worth little is done one day, too;
// as that is the same for all of them, the order is fixed here (see 0003.sql).
func (t *Tx) want(task Task) (bool, error) {
	now := micros(t.now)
	result, err := t.exec(`INSERT INTO queue (op, entity, run, job, value, max_age, not_before, wanted_at, since, rank, mark)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?5 - ?8 / 86400e6, ?9) ON CONFLICT DO NOTHING`,
		string(task.Op), task.Entity, task.Run, task.Job, task.Value, task.MaxAge.Microseconds(), micros(task.NotBefore), now, task.Mark)
	if err != nil || changed(result) {
		return err == nil, err
	}
	_, err = t.exec(`UPDATE queue SET value = max(value, ?1), max_age = min(max_age, ?2), wanted_at = ?3,
		rank = max(rank, ?1 - since / 86400e6), mark = coalesce(?4, mark) WHERE op = ?5 AND entity = ?6`,
		task.Value, task.MaxAge.Microseconds(), now, task.Mark, string(task.Op), task.Entity)
	if err == nil {
		_, err = t.exec(`INSERT INTO queue_others (op, entity, job, run, wanted_at, rank) SELECT op, entity, ?1, ?2, ?3, rank FROM queue
			WHERE op = ?4 AND entity = ?5 AND job <> ?1 ON CONFLICT DO NOTHING`,
			task.Job, task.Run, now, string(task.Op), task.Entity)
	}
	return false, err
}

// Done notes that a task was answered, for better or worse: with missing set the
// service has no such thing, and is asked again at retryAt at the earliest. It
// belongs in the Commit of the answer, whose journal id is response.
func (t *Tx) Done(task Task, response int64, missing bool, retryAt time.Time) error {
	gone := 0
	if missing {
		gone = 1
	}
	_, err := t.exec(`INSERT INTO freshness (op, entity, response, at, missing, retry_at, mark) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET response = excluded.response, at = excluded.at, missing = excluded.missing, retry_at = excluded.retry_at,
			mark = excluded.mark`,
		string(task.Op), task.Entity, response, micros(t.now), gone, micros(retryAt), task.Mark)
	if err == nil && missing && response != 0 {
		_, err = t.exec(`UPDATE responses SET missing = 1, retry_at = ? WHERE id = ?`, micros(retryAt), response)
	}
	if err == nil {
		_, err = t.exec(`DELETE FROM queue WHERE op = ? AND entity = ?`, string(task.Op), task.Entity)
	}
	if err != nil {
		return fmt.Errorf("note the answer to %s: %w", task, err)
	}
	return nil
}

// Fail notes that a task was tried in vain. It stays queued, until a week has
// passed since somebody last asked for it.
func (t *Tx) Fail(task Task, at time.Time, reason string, retryAt time.Time) error {
	_, err := t.exec(`UPDATE queue SET attempts = attempts + 1, failed_at = ?, reason = ?, not_before = ? WHERE op = ? AND entity = ?`,
		micros(at), bounded(reason), micros(retryAt), string(task.Op), task.Entity)
	if err != nil {
		return fmt.Errorf("note the failure of %s: %w", task, err)
	}
	return nil
}

// expire drops the tasks that nobody has asked for in a week.
func (t *Tx) expire() error {
	_, err := t.exec(`DELETE FROM queue WHERE wanted_at <= ?`, micros(t.now.Add(-keepQueued)))
	return err
}

// next is the query for the best task that may be tried at ?3. Of a job it is the better
// one of what it asked for first and of what it wants, too; each has an index in this
// order, so that the length of the queue does not matter.
func (f Filter) next() string {
	const (
		columns = `SELECT q.op, q.entity, q.run, q.job, q.value, q.max_age, q.attempts, q.not_before, q.mark, q.rank FROM `
		ready   = ` AND wanted_at > ?2 AND not_before <= ?3 `
		best    = ` ORDER BY rank DESC, op, entity LIMIT 1`
		asked   = `SELECT * FROM (` + columns + `queue q WHERE q.job = ?1` + ready + best + `)`
		wanted  = `SELECT * FROM (` + columns + `queue_others o CROSS JOIN queue q USING (op, entity) WHERE o.job = ?1 AND q.wanted_at > ?2 AND q.not_before <= ?3
			ORDER BY o.rank DESC, o.op, o.entity LIMIT 1)`
	)
	picked := `(` + asked + ` UNION ALL ` + wanted + `)` + best
	if f.Job == "" {
		picked = `(` + columns + `queue q WHERE ?1 = ''` + ready + best + `)`
	}
	return `SELECT op, entity, run, job, value, max_age, attempts, not_before, mark FROM ` + picked
}

// NextTask is the most valuable task that may be tried now; nil if there is none.
// It stays queued until it is [Tx.Done].
func (s *Store) NextTask(now time.Time, f Filter) (*Task, error) {
	var task Task
	var maxAge, notBefore int64
	err := s.view(func() error {
		return s.row(f.next(), f.Job, micros(now.Add(-keepQueued)), micros(now)).
			Scan(&task.Op, &task.Entity, &task.Run, &task.Job, &task.Value, &maxAge, &task.Attempts, &notBefore, &task.Mark)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the next task: %w", err)
	}
	task.MaxAge, task.NotBefore = time.Duration(maxAge)*time.Microsecond, instant(notBefore)
	return &task, nil
}

// Pending reports whether there is a task that may be tried now. It is cheaper than
// [Store.NextTask], which looks for the best.
func (s *Store) Pending(now time.Time, f Filter) (pending bool, err error) {
	err = s.view(func() error {
		return s.row(`SELECT EXISTS (SELECT 1`+f.queued()+`AND not_before <= ?3)`,
			f.Job, micros(now.Add(-keepQueued)), micros(now)).Scan(&pending)
	})
	if err != nil {
		return false, fmt.Errorf("look whether a task waits: %w", err)
	}
	return pending, nil
}

// NextRetry is the first instant after now at which a task may be tried that may not
// be tried yet; zero if there is none. Until then [Store.NextTask] has nothing new.
func (s *Store) NextRetry(now time.Time, f Filter) (time.Time, error) {
	var at int64
	err := s.view(func() error {
		return s.row(`SELECT coalesce(min(not_before), 0)`+f.queued()+`AND not_before > ?3`,
			f.Job, micros(now.Add(-keepQueued)), micros(now)).Scan(&at)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the next retry: %w", err)
	}
	return instant(at), nil
}

// Queued counts the tasks that wait, those included that may not be tried yet.
func (s *Store) Queued(f Filter) (n int, err error) {
	err = s.view(func() error {
		return s.row(`SELECT count(*)`+f.queued(), f.Job, micros(time.Now().Add(-keepQueued))).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count the queue: %w", err)
	}
	return n, nil
}
