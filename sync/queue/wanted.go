package queue

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// DropUnwanted removes the queued tasks that no job wants any more according to wanted, such as
// after an edit of the configuration, and returns their number. A task stays as long as one of its
// requesters wants it.
func (q *Queue) DropUnwanted(wanted func(job string, op outlier.Operation) bool) (dropped int, err error) {
	counts, err := q.Counts()
	if err != nil {
		return 0, err
	}
	err = store.Change(q.db, "drop what no job wants any more from the queue", func(tx *store.Tx) error {
		for _, c := range counts {
			if wanted(c.Job, c.Op) {
				continue
			}
			_, err := tx.Exec(`DELETE FROM wants WHERE job = ? AND task IN (SELECT id FROM tasks WHERE op = ?)`, c.Job, c.Op)
			if err != nil {
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
	err = store.Change(q.db, "clear the queue of job "+job, func(tx *store.Tx) error {
		result, err := tx.Exec(`DELETE FROM wants WHERE job = ?`, job)
		if err != nil {
			return err
		}
		all, err := result.RowsAffected()
		if err != nil {
			return err
		}
		dropped, err = dropUnwanted(tx)
		kept = int(all) - dropped
		return err
	})
	return dropped, kept, err
}

// dropUnwanted removes the tasks that no job wants, and returns their number.
func dropUnwanted(tx *store.Tx) (int, error) {
	result, err := tx.Exec(`DELETE FROM tasks WHERE NOT EXISTS (SELECT 1 FROM wants WHERE task = tasks.id)`)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Rename moves the calls of a job to its new name. A call that the new name wants already stays as
// it is.
func Rename(tx *store.Tx, old, new string) error {
	for _, statement := range []string{
		`UPDATE OR IGNORE wants SET job = ?2 WHERE job = ?1`,
		`DELETE FROM wants WHERE job = ?1`,
	} {
		if _, err := tx.Exec(statement, old, new); err != nil {
			return fmt.Errorf("rename the queued calls of job %s: %w", old, err)
		}
	}
	return nil
}

// Forget removes the queued calls about entities and the record of when they were last requested.
func Forget(tx *store.Tx, ids [][]byte) error {
	for _, id := range ids {
		for _, statement := range []string{
			`DELETE FROM tasks WHERE entity = ?`,
			`DELETE FROM freshness WHERE entity = ?`,
		} {
			if _, err := tx.Exec(statement, string(id)); err != nil {
				return err
			}
		}
	}
	return nil
}
