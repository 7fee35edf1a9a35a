package engine

import "time"

// # A schedule that is stuck
//
// The loop that keeps the schedule notes the time at each of its turns, and while its sinks
// catch up also at each batch; a call that waits for the rate limit looks twice a minute whether
// it may leave. A turn makes one call at most and never sleeps for more than a minute, so the
// longest of them gets a slow answer, or publishes a large file. Nothing beside the loop notes
// the time: where it is stuck, the time stands still.

// Beat is when the schedule last got on; zero before [Engine.Serve].
func (e *Engine) Beat() time.Time {
	at := e.Pace.Asked()
	if turned := e.beat.Load(); turned != nil && turned.After(at) {
		at = *turned
	}
	return at
}

func (e *Engine) beats() { e.beat.Store(new(time.Now())) }
