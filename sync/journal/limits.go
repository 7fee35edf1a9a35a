package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"outlierd/sync/store"
)

// Limit is the rate limit as the limiter assumes it. A negative number and a zero duration or time
// are unknown.
type Limit struct {
	At        time.Time // when it was learned; zero means now
	Limit     int64     // requests per window
	Window    time.Duration
	Remaining int64 // in the window
	Reset     time.Time
	Foreign   int64 // requests of other clients in the window
}

// LearnLimit stores l if the limit or its window has changed, or if others use more of it than was stored
// last: their use rises and falls with every call.
func (j *Journal) LearnLimit(l Limit) error {
	err := j.db.Update(func(tx *store.Tx) error {
		same, err := sameLimit(tx, l)
		if err != nil || same {
			return err
		}
		if l.At.IsZero() {
			l.At = tx.Now()
		}
		_, err = tx.Exec(`INSERT INTO limits (observed_at, max_requests, window, remaining, reset_at,
			foreign_requests) VALUES (?, ?, ?, ?, ?, ?)`,
			store.Micros(l.At), store.Known(l.Limit), store.OrNull(l.Window.Microseconds()),
			store.Known(l.Remaining), store.OrNull(store.Micros(l.Reset)), store.Known(l.Foreign))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the learned limit: %w", err)
	}
	return nil
}

func sameLimit(tx *store.Tx, l Limit) (same bool, err error) {
	err = tx.Row(`SELECT max_requests IS ?1 AND window IS ?2 AND coalesce(foreign_requests, 0) >= coalesce(?3, 0) FROM limits
		ORDER BY id DESC LIMIT 1`,
		store.Known(l.Limit), store.OrNull(l.Window.Microseconds()), store.Known(l.Foreign)).Scan(&same)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return same, err
}
