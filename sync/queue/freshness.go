package queue

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// fresh reports whether the last answer about the task's entity is recent enough, and when it was
// received. An answer dated in the future comes from a wrong clock and is never recent enough.
func (q *Queue) fresh(tx *store.Tx, task Task) (learned time.Time, fresh bool, err error) {
	var at, missing, retry int64
	var mark *int64
	err = tx.Row(`SELECT at, missing, retry_at, mark FROM freshness WHERE op = ?
		AND entity = ?`, string(task.Op), task.Entity).
		Scan(&at, &missing, &retry, &mark)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, nil
	}
	if err != nil || at > store.Micros(tx.Now().Add(ledger.Skew)) {
		return time.Time{}, false, err
	}
	learned = store.Instant(at)
	if missing != 0 {
		known := tx.Now().Before(store.Instant(retry))
		return learned, known && (!task.Once || tx.Now().Before(learned.Add(task.MaxAge))), nil
	}
	unmoved := mark != nil && task.Mark != nil && *mark == *task.Mark
	return learned, unmoved || tx.Now().Before(learned.Add(task.MaxAge)), nil
}

// Fresh returns how many entities would not be requested from op at the given time, which may be in
// the future, by a job that accepts answers received after since.
func (q *Queue) Fresh(op outlier.Operation, entities []string, since, at time.Time) (n int, err error) {
	n, err = q.count(countFresh, op, entities,
		store.Micros(at), store.Micros(since), store.Micros(time.Now().Add(ledger.Skew)))
	if err != nil {
		return 0, fmt.Errorf("count what is known by %s: %w", op, err)
	}
	return n, nil
}

// countFresh counts the entities of a JSON list ?2 that are fresh at ?3 if their answers were
// received after ?4 and not after ?5. It is [Queue.fresh] for many at once.
const countFresh = `SELECT count(*) FROM json_each(?2) e CROSS JOIN freshness f
	ON f.op = ?1 AND f.entity = e.value
	WHERE iif(f.missing, f.retry_at > ?3, f.at > ?4) AND f.at <= ?5`

// Unasked returns how many entities are neither fresh in the sense of [Queue.Fresh] nor queued for
// the job.
func (q *Queue) Unasked(
	job string, op outlier.Operation, entities []string, since, at time.Time,
) (n int, err error) {
	now := time.Now()
	n, err = q.count(countUnasked, op, entities,
		store.Micros(at), store.Micros(since), store.Micros(now.Add(ledger.Skew)),
		job, store.Micros(now.Add(-keepQueued)))
	if err != nil {
		return 0, fmt.Errorf("count what is to be asked by %s: %w", op, err)
	}
	return n, nil
}

// countUnasked counts the entities of a JSON list ?2 that are not fresh, see countFresh, and for
// which job ?6 has no queued call that was wanted after ?7.
const countUnasked = `SELECT count(*) FROM json_each(?2) e WHERE NOT EXISTS (
		SELECT 1 FROM freshness f WHERE f.op = ?1 AND f.entity = e.value
			AND iif(f.missing, f.retry_at > ?3, f.at > ?4) AND f.at <= ?5)
	AND NOT EXISTS (
		SELECT 1 FROM queue q WHERE q.op = ?1 AND q.entity = e.value AND q.wanted_at > ?7
		AND (q.job = ?6 OR EXISTS (
			SELECT 1 FROM queue_others o WHERE o.op = q.op AND o.entity = q.entity AND o.job = ?6)))`

// count sums a query over entities, a thousand at a time. The query's first parameters are op and
// the entities as a JSON list.
func (q *Queue) count(
	query string, op outlier.Operation, entities []string, more ...any,
) (sum int, err error) {
	for piece := range slices.Chunk(entities, 1000) {
		list, err := json.Marshal(piece)
		if err != nil {
			return 0, err
		}
		n := 0
		err = q.db.View(func(tx *store.Tx) error {
			return tx.Row(query, append([]any{string(op), string(list)}, more...)...).Scan(&n)
		})
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
