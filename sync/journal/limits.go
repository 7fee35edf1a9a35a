package journal

import (
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

// AddLimit stores l if the limit or its window has changed, or if others use more of it than was stored
// last: their use rises and falls with every call.
func (k *Learned) AddLimit(l Limit) error {
	return k.db.Update(func(tx *store.Tx) error {
		columns := l.columns()
		same, err := store.Value[bool](tx, `SELECT max_requests IS ? AND window IS ? AND
			coalesce(foreign_requests, 0) >= coalesce(?, 0) FROM limits ORDER BY id DESC LIMIT 1`,
			columns["max_requests"], columns["window"], columns["foreign_requests"])
		if err != nil || same {
			return err
		}
		if l.At.IsZero() {
			l.At = tx.Now()
		}
		return store.Insert(tx, "limits", columns, "")
	})
}

// columns are those of an insertion: what is unknown is NULL.
func (l *Limit) columns() store.Columns {
	window, reset := l.Window.Microseconds(), store.Micros(l.Reset)
	return store.Columns{
		"observed_at": store.Time(&l.At), "max_requests": store.Known(l.Limit), "window": store.Optional(&window),
		"remaining": store.Known(l.Remaining), "reset_at": store.Optional(&reset), "foreign_requests": store.Known(l.Foreign),
	}
}
