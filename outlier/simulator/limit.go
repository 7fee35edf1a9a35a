package simulator

import (
	"sync"
	"time"
)

// window is the rate limit of a key: a fixed window that begins with the first request after the
// last window ended. Refused requests count too. It uses the real (or synctest's) clock even if the
// service is frozen.
type window struct {
	limit  int
	length time.Duration

	mu   sync.Mutex
	ends time.Time
	used int
}

// countRequest counts a request, and reports whether it is within the limit. It returns the number
// of requests in the window and the time until the window ends (interface, Errors). With
// exhaust, another client has used the window up.
func (w *window) countRequest(now time.Time, exhaust bool) (current int, reset time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.ends) {
		w.ends, w.used = now.Add(w.length), 0
	}
	if exhaust {
		w.used = max(w.used, w.limit)
	}
	w.used++
	return w.used, w.ends.Sub(now), w.used <= w.limit
}
