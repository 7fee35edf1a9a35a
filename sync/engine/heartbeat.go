package engine

import "time"

// # Heartbeat
//
// The scheduler's loop records the time in each turn, and while its sinks catch up also for each batch. A
// call that waits for the rate limit checks twice a minute whether it may leave. A turn makes at most
// one call and sleeps for at most a minute, so the longest turns are those that wait for a slow answer or
// publish a large file. Only the loop records the time, so a stuck loop shows.

// Beat returns when the scheduler last made progress; zero before [Engine.Serve].
func (e *Engine) Beat() time.Time {
	at := e.Pace.Asked()
	if turned := e.beat.Load(); turned != nil && turned.After(at) {
		at = *turned
	}
	return at
}

func (e *Engine) noteBeat() { e.beat.Store(new(time.Now())) }
