package queue

import (
	"errors"

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
