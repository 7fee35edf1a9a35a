package state

import (
	"fmt"

	"outlierd/outlier"
)

// want is a kind of call that a job has in the queue.
type want struct {
	job string
	op  outlier.Operation
}

func (w *want) columns() []any { return []any{&w.job, &w.op} }

// DropUnwanted removes from the queue what wanted says no job wants any more, as after
// an edit of the file, and returns how many tasks that were. A task belongs to the job
// that asked for it first; another one that wants it too asks again when it runs.
func (s *Store) DropUnwanted(wanted func(job string, op outlier.Operation) bool) (dropped int, err error) {
	err = s.Update(func(tx *Tx) error {
		dropped = 0
		kinds, err := list(s, (*want).columns, `SELECT DISTINCT job, op FROM queue`)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			if wanted(kind.job, kind.op) {
				continue
			}
			result, err := tx.exec(`DELETE FROM queue WHERE job = ? AND op = ?`, kind.job, string(kind.op))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			dropped += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("drop what no job wants any more from the queue: %w", err)
	}
	return dropped, nil
}
