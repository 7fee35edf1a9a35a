package engine

import (
	"sync"
	"time"
)

// What delays calls.
const (
	waitPace  = "pace"  // the learned rate limit
	waitLimit = "limit" // a refusal for the rate limit, while it blocks all calls
	waitRetry = "retry" // the pause before a failed call is repeated, or after which a paused queue continues
)

// waits holds how long calls were delayed, by reason.
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

// Waited returns how long calls were delayed since the process started, by reason: "pace", "limit" or
// "retry". It is safe for concurrent use.
func (e *Engine) Waited() map[string]time.Duration {
	e.waits.mu.Lock()
	defer e.waits.mu.Unlock()
	all := map[string]time.Duration{waitPace: 0, waitLimit: 0, waitRetry: 0}
	for reason, d := range e.waits.times {
		all[reason] = d
	}
	return all
}
