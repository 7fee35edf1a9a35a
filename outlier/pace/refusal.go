package pace

import (
	"math"
	"time"
)

const (
	// longBlock caps any block: it is better to ask again after a quarter of an
	// hour than to trust one answer for longer. A quota with a longer window may be
	// blocked for that window.
	longBlock = 15 * time.Minute
	// longBackoff caps the doubling of refusals that give no time.
	longBackoff = 5 * time.Minute
	// burstHeals is how long a burst holds that nothing repeats. Then a whole window
	// is tried again; it holds twice as long whenever that is refused.
	burstHeals = 6 * time.Hour
	// mostAgain is how often that is doubled at most, to half a week and more.
	mostAgain = 4
	// slowHeals is how long it takes for a half of a slowness to be tried without.
	slowHeals = 12 * time.Hour
	// memories is how many windows the log goes back. A refusal may tell that the
	// service's window is longer than is believed: only what exceeds all these proves
	// that others use the key.
	memories = 3
	// slowest is the most that refusals without a reason make the pace slower.
	slowest = 2.1
)

// A lesson is what refusals taught beyond what they said.
type lesson struct {
	Burst int       // how many may come at once, the pace being the same; 0 = a window's
	Again int       // how often it had healed and was learned again within a week
	Slow  float64   // how much longer the windows seem to be than they should; 0 = 1
	Row   int       // refusals without a reason, each soon after the last
	At    time.Time // the last of them
	Heals time.Time // when Slow lessens
}

func (s *lesson) slow() float64 { return math.Max(1, s.Slow) }

func (s *lesson) forget(now time.Time) {
	if s.Burst > 0 && now.Sub(s.At) > burstHeals<<s.Again {
		s.Burst = 0
	}
	if s.Slow > 1 && now.After(s.Heals) {
		s.Slow, s.Heals = 1+(s.Slow-1)/2, now.Add(slowHeals)
		if s.Slow < 1.02 {
			s.Slow = 1
		}
	}
}

func (s *lesson) notAfter(now time.Time) {
	s.At, s.Heals = earliest(s.At, now), earliest(s.Heals, now.Add(slowHeals))
}

// burst is the lesson that so many may come at once.
func (s *lesson) burst(now time.Time, n int) {
	switch recent := now.Sub(s.At) < lessonLasts; {
	case s.Burst == 0 && recent: // it had healed, and was right
		s.Again = min(s.Again+1, mostAgain)
	case s.Burst == 0:
		s.Again = 0
	}
	s.Burst, s.At = n, now
}

// estimated is the lesson of a service that estimates what a sliding window holds:
// evenly spaced, all but one of its limit can be had in every window.
func (s *lesson) estimated(now time.Time, limit int) {
	s.Burst, s.At = 1, now
	if least := float64(limit) / float64(max(1, limit-1)); s.slow() <= least {
		s.Slow, s.Heals = least, now.Add(slowHeals)
	}
}

// slower stretches the windows, more if stretching them has not helped.
func (s *lesson) slower(now time.Time, window time.Duration) {
	if now.Sub(s.At) > 10*window {
		s.Row = 0
	}
	s.Row++
	more := 0.09 * float64(int(1)<<min(max(s.Row-2, 0), 4))
	s.Slow, s.Heals = math.Min(s.slow()*(1+more), slowest), now.Add(slowHeals)
}

// refuse reacts to a refusal.
func (c *core) refuse(now, sent time.Time, r reading) {
	c.Streak++
	wait := max(r.retry, r.reset)
	if wait <= 0 || c.Streak > 1 {
		wait = max(wait, c.backoff())
	}
	if sent.After(c.refused) { // else it left before the last refusal could teach
		c.learn(now, sent, r)
	}
	c.refused = now
	c.block(now, wait)
}

// backoff is the time that one request is worth, doubled for each further refusal.
func (c *core) backoff() time.Duration {
	wait := c.told().spacing()
	for range min(c.Streak-1, 30) {
		wait = min(2*wait, longBackoff)
	}
	return min(wait, longBackoff)
}

// learn draws the lesson of a refusal.
//
// A service that gives one more request in each of so much time, and no more
// than a burst of them at once, refuses because the burst was exceeded: the requests
// show how large it can be at most. If even a burst of one would have been kept,
// then either the pace is wrong, or others have used the key.
func (c *core) learn(now, sent time.Time, r reading) {
	q := c.believed()
	others := r.current - c.Log.since(sent.Add(-memories*q.Window), true) - c.out
	if c.lied() && others <= 0 {
		c.Belief.Taught, c.Belief.Distrust = Quota{}, now.Add(lessonLasts)
		return
	}
	if others > 0 {
		c.meet(now, min(others, q.Requests))
	}
	c.settle(now, sent, r)
	if others > 0 || c.Crowd.Stage == sharing || c.Log.since(now.Add(-q.Window), false) <= 1 {
		return // it was others, or nothing that we did
	}
	burst := int(math.Ceil(c.Log.owed(sent, q.spacing(), false))) - 1
	if c.Lesson.Burst > 0 && now.Sub(c.Lesson.At) < time.Hour {
		burst = 0 // what was learned last does not explain it
	}
	if burst < 1 && c.Log.others() < 2 {
		c.Lesson.slower(now, q.Window)
	}
	c.Lesson.burst(now, max(1, burst))
}

// lied reports whether the service had allowed more than what is configured, and the
// last answer before the refusal had left at least two requests to go.
func (c *core) lied() bool {
	b := &c.Belief
	since := c.Log.since(b.Sent, false) + c.out // with the one that was refused
	return b.Taught != Quota{} && exceeds(b.Taught, c.quota) && b.Limit-b.Used-since >= 1
}
