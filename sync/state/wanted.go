package state

import (
	"fmt"

	"outlierd/outlier"
)

// want is a kind of call that a job has in the queue, be it as the first who asked.
type want struct {
	job string
	op  outlier.Operation
}

func (w *want) columns() []any { return []any{&w.job, &w.op} }

// Wanting are the jobs that want a task, the first who asked before the others; none if
// it is not queued.
func (s *Store) Wanting(task Task) (jobs []string, err error) {
	err = s.view(func() error {
		jobs, err = list(s, func(job *string) []any { return []any{job} },
			`SELECT job FROM queue_wants WHERE op = ? AND entity = ? ORDER BY first DESC, job`, string(task.Op), task.Entity)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("who wants %s: %w", task, err)
	}
	return jobs, nil
}

// DropUnwanted removes from the queue what wanted says no job wants any more, as after
// an edit of the file, and returns how many tasks that were. A task stays while one of
// the jobs that asked for it wants it, and is then that job's.
func (s *Store) DropUnwanted(wanted func(job string, op outlier.Operation) bool) (dropped int, err error) {
	err = s.Update(func(tx *Tx) error {
		kinds, err := list(s, (*want).columns, `SELECT DISTINCT job, op FROM queue_wants`)
		if err != nil {
			return err
		}
		var unwanted []want
		for _, kind := range kinds {
			if !wanted(kind.job, kind.op) {
				unwanted = append(unwanted, kind)
			}
		}
		dropped, err = tx.forgo(unwanted)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop what no job wants any more from the queue: %w", err)
	}
	return dropped, nil
}

// ClearQueue drops the tasks of a job, or of all jobs if job is "", and returns how
// many there were. What another job wants too stays as that job's.
func (s *Store) ClearQueue(job string) (n int64, err error) {
	err = s.Update(func(tx *Tx) error {
		kinds, err := list(s, (*want).columns, `SELECT DISTINCT job, op FROM queue_wants WHERE job = ?1 OR ?1 = ''`, job)
		if err != nil {
			return err
		}
		dropped, err := tx.forgo(kinds)
		n = int64(dropped)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clear the queue: %w", err)
	}
	return n, nil
}

// forgo takes back the wish of jobs for kinds of calls, and returns how many tasks were
// dropped since nobody else wants them. All who want one no more have to be forgotten
// before its heir is looked for.
func (t *Tx) forgo(kinds []want) (dropped int, err error) {
	for _, k := range kinds {
		if _, err := t.exec(`DELETE FROM queue_others WHERE job = ? AND op = ?`, k.job, string(k.op)); err != nil {
			return dropped, err
		}
	}
	for _, k := range kinds {
		_, err := t.exec(`UPDATE queue SET (job, run) = (SELECT o.job, o.run FROM queue_others o
				WHERE o.op = queue.op AND o.entity = queue.entity ORDER BY o.wanted_at, o.job LIMIT 1)
			WHERE job = ? AND op = ? AND EXISTS (SELECT 1 FROM queue_others o WHERE o.op = queue.op AND o.entity = queue.entity)`,
			k.job, string(k.op))
		if err != nil {
			return dropped, err
		}
		result, err := t.exec(`DELETE FROM queue WHERE job = ? AND op = ?`, k.job, string(k.op))
		if err != nil {
			return dropped, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return dropped, err
		}
		dropped += int(n)
	}
	return dropped, nil
}
