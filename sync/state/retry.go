package state

import (
	"fmt"
	"time"
)

// NextRetry is the first instant after now at which a task may be tried that may not
// be tried yet; zero if there is none. Until then [Store.NextTask] has nothing new.
func (s *Store) NextRetry(now time.Time, f Filter) (time.Time, error) {
	var at int64
	err := s.view(func() error {
		return s.row(`SELECT coalesce(min(not_before), 0) FROM queue WHERE`+inFilter+`AND not_before > ?4`,
			f.Run, f.Job, micros(now.Add(-keepQueued)), micros(now)).Scan(&at)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the next retry: %w", err)
	}
	return instant(at), nil
}
