package simulator

import (
	"sync"
	"time"
)

// window is the rate limit of a key: a fixed window that begins with the first
// request after the last one ended. Refused requests count too. It goes by the
// real (or synctest's) clock even when the library's stands still.
type window struct {
	limit  int
	length time.Duration

	mu    sync.Mutex
	ends  time.Time
	count int
}

// enter counts a request. If it is one too many, it is told what the rate limit
// shape tells (interface, Errors), reset being the time until the window ends.
// With exhaust, somebody else has used the window up.
func (w *window) enter(now time.Time, exhaust bool) (current int, reset time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.ends) {
		w.ends, w.count = now.Add(w.length), 0
	}
	if exhaust {
		w.count = max(w.count, w.limit)
	}
	w.count++
	return w.count, w.ends.Sub(now), w.count <= w.limit
}
