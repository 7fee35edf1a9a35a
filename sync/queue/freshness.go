package queue

import (
	"errors"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// isFresh is the condition for answers f that are recent enough at ?3, if they were received after ?4 and
// not after ?5: an answer dated in the future comes from a wrong clock. An entity that was found missing is
// not requested before its retry is due, but for a one-off request, ?6, only for as long as an answer would
// be fresh. An answer of any age is fresh if the number of items, ?7, is still the same.
const isFresh = `f.at <= ?5 AND iif(f.missing, f.retry_at > ?3 AND (NOT ?6 OR f.at > ?4), f.at > ?4 OR f.mark = ?7)`

// fresh reports whether the last answer about the task's entity is recent enough, and when it was
// received.
func fresh(tx *store.Tx, task Task) (learned time.Time, fresh bool, err error) {
	now := tx.Now()
	_, err = store.Scan(tx, []any{store.Time(&learned), &fresh},
		`SELECT at, coalesce(`+isFresh+`, 0) FROM freshness f WHERE op = ?1 AND entity = ?2`,
		task.Op, task.Entity, store.Micros(now), store.Micros(now.Add(-task.MaxAge)), store.Micros(now.Add(ledger.Skew)),
		task.Once, task.Mark)
	return learned, fresh, err
}

// Fresh returns how many entities would not be requested from op at the given time, which may be in
// the future, by a job that accepts answers received after since.
func (q *Queue) Fresh(op outlier.Operation, entities []string, since, at time.Time) (int, error) {
	return store.Value[int](q.db, `SELECT count(*) FROM json_each(?2) e CROSS JOIN freshness f
		ON f.op = ?1 AND f.entity = e.value WHERE `+isFresh,
		op, store.JSON(entities), store.Micros(at), store.Micros(since),
		store.Micros(time.Now().Add(ledger.Skew)), false, nil)
}

// Unasked returns how many entities are neither fresh in the sense of [Queue.Fresh] nor queued for
// the job.
func (q *Queue) Unasked(job string, op outlier.Operation, entities []string, since, at time.Time) (int, error) {
	return store.Value[int](q.db, `SELECT count(*) FROM json_each(?2) e WHERE NOT EXISTS (
			SELECT 1 FROM freshness f WHERE f.op = ?1 AND f.entity = e.value AND `+isFresh+`)
		AND NOT EXISTS (SELECT 1 FROM tasks t JOIN wants w ON w.task = t.id
			WHERE t.op = ?1 AND t.entity = e.value AND w.job = ?8)`,
		op, store.JSON(entities), store.Micros(at), store.Micros(since),
		store.Micros(time.Now().Add(ledger.Skew)), false, nil, job)
}

// DropUnwanted removes the queued tasks that no job wants any more according to wanted, such as
// after an edit of the configuration, and returns their number. A task stays as long as one of its
// requesters wants it.
func (q *Queue) DropUnwanted(wanted func(job string, op outlier.Operation) bool) (dropped int, err error) {
	counts, err := q.Counts()
	if err != nil {
		return 0, err
	}
	err = q.db.Update(func(tx *store.Tx) error {
		for _, c := range counts {
			if wanted(c.Job, c.Op) {
				continue
			}
			if err := tx.Exec(`DELETE FROM wants WHERE job = ? AND task IN (SELECT id FROM tasks WHERE op = ?)`, c.Job, c.Op); err != nil {
				return err
			}
		}
		dropped, err = dropUnwanted(tx)
		return err
	})
	return dropped, err
}

// Cancel withdraws a job from all its queued calls. It returns how many tasks were dropped, and how
// many were kept because another job wants them.
func (q *Queue) Cancel(job string) (dropped, kept int, err error) {
	err = q.db.Update(func(tx *store.Tx) error {
		all, err := tx.Change(`DELETE FROM wants WHERE job = ?`, job)
		if err == nil {
			dropped, err = dropUnwanted(tx)
		}
		kept = int(all) - dropped
		return err
	})
	return dropped, kept, err
}

// dropUnwanted removes the tasks that no job wants, and returns their number.
func dropUnwanted(tx *store.Tx) (int, error) {
	n, err := tx.Change(`DELETE FROM tasks WHERE NOT EXISTS (SELECT 1 FROM wants WHERE task = tasks.id)`)
	return int(n), err
}

// Rename moves the calls of a job to its new name. A call that the new name wants already stays as
// it is.
func Rename(tx *store.Tx, old, new string) error {
	return errors.Join(tx.Exec(`UPDATE OR IGNORE wants SET job = ?2 WHERE job = ?1`, old, new),
		tx.Exec(`DELETE FROM wants WHERE job = ?`, old))
}

// Forget removes the queued calls about entities and the record of when they were last requested.
func Forget(tx *store.Tx, ids [][]byte) (err error) {
	for _, id := range ids {
		err = errors.Join(err, tx.Exec(`DELETE FROM tasks WHERE entity = ?`, string(id)),
			tx.Exec(`DELETE FROM freshness WHERE entity = ?`, string(id)))
	}
	return err
}
