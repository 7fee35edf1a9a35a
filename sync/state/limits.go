package state

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Limit is what the limiter believes of the service's pace. A negative number and a
// zero duration or time are unknown.
type Limit struct {
	At        time.Time // when it was learned; zero means now
	Limit     int64     // requests per window
	Window    time.Duration
	Remaining int64 // in the window
	Reset     time.Time
	Foreign   int64 // requests in the window that were not ours
}

// LearnLimit keeps l if the limit, its window or the use by others differs from
// what was kept last. It joins the open group: losing it costs nothing.
func (s *Store) LearnLimit(l Limit) error {
	err := s.unit(false, func(tx *Tx) error {
		same, err := tx.sameLimit(l)
		if err != nil || same {
			return err
		}
		if l.At.IsZero() {
			l.At = tx.now
		}
		_, err = tx.exec(`INSERT INTO limits (observed_at, max_requests, window, remaining, reset_at, foreign_requests) VALUES (?, ?, ?, ?, ?, ?)`,
			micros(l.At), known(l.Limit), orNull(l.Window.Microseconds()), known(l.Remaining), orNull(micros(l.Reset)), known(l.Foreign))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the learned limit: %w", err)
	}
	return nil
}

func (t *Tx) sameLimit(l Limit) (same bool, err error) {
	err = t.row(`SELECT max_requests IS ?1 AND window IS ?2 AND foreign_requests IS ?3 FROM limits ORDER BY id DESC LIMIT 1`,
		known(l.Limit), orNull(l.Window.Microseconds()), known(l.Foreign)).Scan(&same)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return same, err
}
