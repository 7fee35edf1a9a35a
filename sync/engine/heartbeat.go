package engine

import "time"

// # Heartbeat
//
// The scheduler's loop records the time in each turn, and while its sinks catch up also for each batch. A
// turn makes at most one call, does not wait for the rate limit and sleeps for at most a minute, so the longest
// turns are those that wait for a slow answer or publish a large file. Only the loop records the time, so a stuck loop shows.

// Beat returns when the scheduler last made progress; zero before [Engine.Serve].
func (e *Engine) Beat() time.Time {
	if turned := e.beat.Load(); turned != nil {
		return *turned
	}
	return time.Time{}
}

func (e *Engine) noteBeat() { e.beat.Store(new(time.Now())) }
