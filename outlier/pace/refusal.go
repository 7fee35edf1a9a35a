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
	// slowHeals is how long it takes for a pace to be tried again that was refused, or one
	// near it.
	slowHeals = 12 * time.Hour
	// trialAfter is how long after a refusal a faster pace is tried that never was refused;
	// half as long after one that was not. It takes trialWork answers at least.
	trialAfter = time.Hour
	trialWork  = 20
	// near is how near two paces are that need no other tried between them.
	near = 1.2
	// memories is how many windows the log goes back, and leastMemory how far at least. A
	// refusal may tell that the service's window is longer than is believed: only what
	// exceeds all these proves that others use the key.
	memories    = 3
	leastMemory = 3 * time.Minute
	// steepest is the most that one lesson makes the pace slower.
	steepest = 16
	// rarest is how far apart refusals without a reason set two requests at most.
	rarest = 15 * time.Minute
)

// A lesson is what refusals taught beyond what they said.
type lesson struct {
	Burst int       // how many may come at once, the pace being the same; 0 = a window's
	Again int       // how often it had healed and was learned again within a week
	At    time.Time // the last refusal without a reason

	Slow  float64       // how much longer the windows seem to be than they should; 0 = 1
	Fast  float64       // a Slow that was refused; 0 if none is known
	Held  float64       // the Slow from before the trial of a faster pace; 0 while none is tried
	Row   int           // refusals without a reason, each soon after the last
	Heals time.Time     // when a faster pace is tried
	Got   int           // answers since the last refusal or trial
	Took  time.Duration // for these, without the time in which nothing was asked
}

func (s *lesson) slow() float64 { return math.Max(1, s.Slow) }

func (s *lesson) forget(now time.Time) {
	if s.Burst > 0 && now.Sub(s.At) > burstHeals<<s.Again {
		s.Burst = 0
	}
	if s.Slow > 1 && now.After(s.Heals) && (s.Got >= trialWork || now.Sub(s.At) > lessonLasts) {
		s.faster(now)
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

// refused takes back a trial of a faster pace. Else it stretches the windows of q: a little
// at first, and then until the pace is what the service let through since the refusal
// before. From one to the other it gave all that it gives, whatever kind of limit it has.
// After few answers that is known roughly, so that the pace may as well have been right.
func (s *lesson) refused(now time.Time, q Quota) {
	was, many := s.slow(), s.Got >= trialWork
	if many {
		s.Row = 0
	}
	s.Row++
	switch {
	case s.Held > 0:
		s.Slow, s.Fast = s.Held, was
	case many || s.Row > 1 && s.Got > 0:
		pace := float64(s.Took) / (float64(s.Got) + 0.5) / float64(q.spacing())
		s.Slow, s.Fast = max(was*1.09, min(pace, was*steepest)), 0
	default:
		s.Slow, s.Fast = was*1.09, 0
	}
	if many {
		s.Fast = was
	}
	s.Slow, s.Held = min(s.Slow, slowest(q)), 0
	s.wait(now, trialAfter)
}

// slowest bounds what refusals teach: a service that refuses everything is asked four
// times an hour, and no window lasts longer than can be counted.
func slowest(q Quota) float64 {
	return min(max(2, float64(rarest)/float64(q.spacing())), float64(math.MaxInt64/16)/float64(q.Window))
}

// faster begins the trial of a faster pace: halfway to the one that was refused; or where
// that is close, and long ago, by half of the slowness, but a fifth at most.
func (s *lesson) faster(now time.Time) {
	s.Held = s.Slow
	if s.Fast > 0 && s.Slow > s.Fast*near {
		s.Slow = math.Sqrt(s.Slow * s.Fast)
	} else {
		s.Slow, s.Fast = max((1+s.Slow)/2, s.Slow*4/5), 0
	}
	if s.Slow < 1.02 {
		s.Slow, s.Held = 1, 0
	}
	s.wait(now, trialAfter/2)
}

// wait puts the next trial off: for long where the pace is near one that was refused, or
// the one that was told.
func (s *lesson) wait(now time.Time, wait time.Duration) {
	s.Heals = now.Add(wait)
	if s.Slow <= max(1, s.Fast)*near {
		s.Heals = now.Add(slowHeals)
	}
	s.Got, s.Took = 0, 0
}

// scale keeps the pace that was learned where what it is a multiple of has changed.
func (s *lesson) scale(by float64) {
	s.Slow, s.Fast, s.Held = s.slow()*by, s.Fast*by, s.Held*by
	if s.Slow <= 1 {
		s.Slow, s.Fast, s.Held = 0, 0, 0
	}
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
	wait := c.believed().spacing()
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
	others := r.current - c.Log.since(sent.Add(-c.remembered()), true) - c.out
	if c.lied() && others <= 0 {
		c.Belief.Taught, c.Belief.Distrust = Quota{}, now.Add(lessonLasts)
		return
	}
	if others > 0 {
		c.meet(now, min(others, q.Requests))
	}
	c.settle(now, sent, r)
	if others > 0 || c.Crowd.Stage == sharing || c.Log.since(now.Add(-c.remembered()), false) <= 1 {
		return // it was others, or nothing that we did
	}
	burst := int(math.Ceil(c.Log.owed(sent, q.spacing(), false))) - 1
	if c.Lesson.Burst > 0 && now.Sub(c.Lesson.At) < time.Hour {
		burst = 0 // what was learned last does not explain it
	}
	switch unexplained := burst < 1 && c.Log.others() < 2; {
	case c.Streak > 1: // which tells only how long the first one lasts
	case unexplained:
		c.Lesson.refused(now, c.told())
	default:
		c.Lesson.Got, c.Lesson.Took = 0, 0
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
