package state

import (
	"fmt"
	"time"
)

// LastSearched is the service time at which a job last asked for page one of what a
// watermark's key names, whatever became of the search; zero if it never did.
func (s *Store) LastSearched(job, key string) (time.Time, error) {
	var began int64
	err := s.view(func() error {
		return s.row(`SELECT coalesce(max(steps.began), 0) FROM steps JOIN runs USING (run)
			WHERE runs.job = ? AND steps.watermark = ? AND steps.pages > 0`, job, key).Scan(&began)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("when did job %s last search for %s: %w", job, key, err)
	}
	return instant(began), nil
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

// Jobs are the names under which anything is on record: runs, watermarks, queued calls.
func (s *Store) Jobs() (names []string, err error) {
	err = s.view(func() error {
		names, err = list(s, func(name *string) []any { return []any{name} },
			`SELECT job FROM runs WHERE job <> '' UNION SELECT job FROM watermarks UNION SELECT job FROM queue ORDER BY job`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs on record: %w", err)
	}
	return names, nil
}
