package state

import (
	"context"
	"database/sql"
	"errors"
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
		dropped, _, err = tx.forgo(unwanted)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop what no job wants any more from the queue: %w", err)
	}
	return dropped, nil
}

// ClearQueue takes back the wish of a job for all that it has in the queue, and returns
// how many tasks were dropped, and how many were kept since another job wants them.
func (s *Store) ClearQueue(job string) (dropped, kept int, err error) {
	err = s.Update(func(tx *Tx) error {
		kinds, err := list(s, (*want).columns, `SELECT DISTINCT job, op FROM queue_wants WHERE job = ?`, job)
		if err != nil {
			return err
		}
		dropped, kept, err = tx.forgo(kinds)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("clear the queue: %w", err)
	}
	return dropped, kept, nil
}

// Clear is [Store.ClearQueue] for the state folder dir, also while another process
// holds it. That one looks into the queue before every call, and the answer to a call
// that it has under way is kept whether or not anybody still waits for it.
func Clear(ctx context.Context, dir string, o Options, job string) (dropped, kept int, err error) {
	seen, err := Peek(ctx, dir, o) // which refuses what is not to be written to
	if err == nil {
		err = seen.Close()
	}
	if err != nil {
		return 0, 0, err
	}
	s := &Store{dir: dir, options: seen.options, space: space{dir: dir}, stmts: map[string]*sql.Stmt{}}
	if err := s.attach(ctx, "rw"); err != nil {
		return 0, 0, err
	}
	dropped, kept, err = s.ClearQueue(job)
	return dropped, kept, errors.Join(err, s.db.Close())
}

// forgo takes back the wish of jobs for kinds of calls, and returns how many tasks were
// dropped since nobody else wants them, and of how many wishes the task was kept. All who
// want one no more have to be forgotten before its heir is looked for.
func (t *Tx) forgo(kinds []want) (dropped, kept int, err error) {
	count := func(into *int, query string, args ...any) error {
		result, err := t.exec(query, args...)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		*into += int(n)
		return err
	}
	for _, k := range kinds {
		if err := count(&kept, `DELETE FROM queue_others WHERE job = ? AND op = ?`, k.job, string(k.op)); err != nil {
			return dropped, kept, err
		}
	}
	for _, k := range kinds {
		err := count(&kept, `UPDATE queue SET (job, run) = (SELECT o.job, o.run FROM queue_others o
				WHERE o.op = queue.op AND o.entity = queue.entity ORDER BY o.wanted_at, o.job LIMIT 1)
			WHERE job = ? AND op = ? AND EXISTS (SELECT 1 FROM queue_others o WHERE o.op = queue.op AND o.entity = queue.entity)`,
			k.job, string(k.op))
		if err == nil {
			err = count(&dropped, `DELETE FROM queue WHERE job = ? AND op = ?`, k.job, string(k.op))
		}
		if err != nil {
			return dropped, kept, err
		}
	}
	return dropped, kept, nil
}
