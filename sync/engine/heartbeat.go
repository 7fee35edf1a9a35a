package engine

import (
	"sync/atomic"
	"time"
)

// # Heartbeat
//
// The scheduler's loop records the time in each turn, and while its sinks catch up also for each batch. A turn makes at
// most one call, does not wait for the rate limit and sleeps for at most a minute, so the longest turns are those that
// wait for a slow answer or publish a large file. Only the loop records the time, so a stuck loop shows.

// heartbeat has when the scheduler last made progress.
type heartbeat struct{ at atomic.Pointer[time.Time] }

func (h *heartbeat) note() { h.at.Store(new(time.Now())) }

// Beat returns when the scheduler last made progress; zero before [Engine.Serve].
func (e *Engine) Beat() (at time.Time) {
	if noted := e.beat.at.Load(); noted != nil {
		at = *noted
	}
	return at
}
