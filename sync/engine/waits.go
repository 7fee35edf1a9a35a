package engine

import (
	"sync"
	"time"
)

// What holds calls back.
const (
	waitPace  = "pace"  // the learned limit
	waitLimit = "limit" // the service's refusal for the limit, for as long as it lets nothing leave
	waitRetry = "retry" // a call or all calls failed, and are made again after a pause
)

// waits is for how long calls were held back, by what did that.
type waits struct {
	mu    sync.Mutex
	times map[string]time.Duration
}

func (w *waits) add(reason string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.times == nil {
		w.times = map[string]time.Duration{}
	}
	w.times[reason] += max(0, d)
}

// Waited is for how long calls were held back since the process started, by the reason: "pace",
// "limit" or "retry". It may be asked for at any time.
func (e *Engine) Waited() map[string]time.Duration {
	e.waits.mu.Lock()
	defer e.waits.mu.Unlock()
	all := map[string]time.Duration{waitPace: 0, waitLimit: 0, waitRetry: 0}
	for reason, d := range e.waits.times {
		all[reason] = d
	}
	return all
}

// held counts the wait for a slot that ends now.
func (e *Engine) held(t tries, now time.Time) {
	all := now.Sub(t.since)
	limited := time.Duration(0)
	if !t.refusedFrom.IsZero() {
		end := t.refusedUntil
		if now.Before(end) {
			end = now
		}
		limited = min(max(0, end.Sub(t.refusedFrom)), all)
	}
	e.waits.add(waitLimit, limited)
	e.waits.add(waitPace, all-limited)
}
