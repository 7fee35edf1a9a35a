package queue

import (
	"context"
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// DropUnwanted removes the queued tasks that no job wants any more according to wanted, such as
// after an edit of the configuration, and returns their number. A task stays as long as one of its
// requesters wants it, and then belongs to that job.
func (q *Queue) DropUnwanted(
	ctx context.Context, wanted func(job string, op outlier.Operation) bool,
) (dropped int, err error) {
	counts, err := q.Counts()
	if err != nil {
		return 0, err
	}
	var unwanted []want
	for _, c := range counts {
		if !wanted(c.Job, c.Op) {
			unwanted = append(unwanted, want{c.Job, c.Op})
		}
	}
	dropped, _, err = q.withdraw(ctx, unwanted)
	if err != nil {
		return 0, fmt.Errorf("drop what no job wants any more from the queue: %w", err)
	}
	return dropped, nil
}

// Cancel withdraws a job from all its queued calls. It returns how many tasks were dropped, and how
// many were kept because another job wants them. After an error, part of the work may be done; call
// it again for the rest.
func (q *Queue) Cancel(ctx context.Context, job string) (dropped, kept int, err error) {
	dropped, kept, err = q.withdraw(ctx, []want{{job: job}})
	if err != nil {
		return 0, 0, fmt.Errorf("clear the queue: %w", err)
	}
	return dropped, kept, nil
}

// want identifies the queued calls of an operation that a job wants, as first requester or not. An
// empty op means all operations.
type want struct {
	job string
	op  outlier.Operation
}

// withdraw withdraws jobs from kinds of calls. It returns how many tasks were dropped because no
// other job wants them, and how often a task was kept. All jobs that no longer want a task must be
// removed before it is passed to another.
func (q *Queue) withdraw(ctx context.Context, kinds []want) (dropped, kept int, err error) {
	for _, k := range kinds {
		err := q.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) {
			result, err := tx.Exec(`DELETE FROM queue_others WHERE job = ?1
				AND (op, entity) IN (`+wants("queue_others")+`)`,
				k.job, string(k.op), most)
			if err != nil {
				return 0, err
			}
			n, err := result.RowsAffected()
			kept += int(n)
			return int(n), err
		})
		if err != nil {
			return dropped, kept, err
		}
	}
	for _, k := range kinds {
		err := q.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) {
			gone, passed, err := dropOrPass(tx, k, most)
			dropped, kept = dropped+gone, kept+passed
			return gone + passed, err
		})
		if err != nil {
			return dropped, kept, err
		}
	}
	return dropped, kept, nil
}

// dropOrPass drops some of the calls whose first requester is a job, or passes them to the next
// requester.
func dropOrPass(tx *store.Tx, k want, most int) (dropped, passed int, err error) {
	type call struct {
		op, entity string
		shared     bool
	}
	calls, err := store.List(tx, func(c *call) []any { return []any{&c.op, &c.entity, &c.shared} },
		`SELECT op, entity, EXISTS (SELECT 1 FROM queue_others o WHERE o.op = w.op AND o.entity = w.entity)
		FROM (`+wants("queue")+`) w`, k.job, string(k.op), most)
	for _, c := range calls {
		if c.shared {
			passed++
			_, err = tx.Exec(`UPDATE queue SET (job, run) = (SELECT o.job, o.run FROM queue_others o
				WHERE o.op = queue.op AND o.entity = queue.entity ORDER BY o.wanted_at, o.job LIMIT 1)
				WHERE op = ? AND entity = ?`, c.op, c.entity)
		} else {
			dropped++
			_, err = tx.Exec(`DELETE FROM queue WHERE op = ? AND entity = ?`, c.op, c.entity)
		}
		if err != nil {
			break
		}
	}
	return dropped, passed, err
}

// wants returns the query for up to ?3 calls of operation ?2, or of any if that is empty, that job
// ?1 has in a table of the queue. Calls in back-off have separate indexes.
func wants(table string) string {
	return `SELECT op, entity FROM (SELECT op, entity FROM ` + table + ` WHERE job = ?1 AND not_before = 0
		UNION ALL SELECT op, entity FROM ` + table + ` WHERE job = ?1 AND not_before > 0)
		WHERE op = ?2 OR ?2 = '' LIMIT ?3`
}

// Rename moves the calls of a job to its new name. A call that the new name wants already stays as
// it is.
func (q *Queue) Rename(ctx context.Context, old, new string) error {
	const shared = ` AND (EXISTS (SELECT 1 FROM queue q WHERE q.op = ?3 AND q.entity = ?4 AND q.job = ?2)
		OR EXISTS (SELECT 1 FROM queue_others n WHERE n.op = ?3 AND n.entity = ?4 AND n.job = ?2))`
	for _, table := range []struct{ name, drop string }{
		{"queue", ""},
		{"queue_others", `DELETE FROM queue_others WHERE job = ?1 AND op = ?3 AND entity = ?4` + shared},
	} {
		move := `UPDATE ` + table.name + ` SET job = ?2 WHERE job = ?1 AND op = ?3 AND entity = ?4`
		err := q.db.InPieces(ctx, func(tx *store.Tx, most int) (int, error) {
			type call struct{ op, entity string }
			calls, err := store.List(tx, func(c *call) []any { return []any{&c.op, &c.entity} },
				wants(table.name), old, "", most)
			for _, c := range calls {
				if table.drop != "" {
					_, err = tx.Exec(table.drop, old, new, c.op, c.entity)
				}
				if err == nil {
					_, err = tx.Exec(move, old, new, c.op, c.entity)
				}
				if err != nil {
					break
				}
			}
			return len(calls), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
