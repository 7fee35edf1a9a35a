package pace

import (
	"math"
	"time"
)

const (
	// longBlock limits any block: it is better to try again after a quarter of an hour than to trust one
	// answer for longer. For a quota with a longer window, the limit is that window.
	longBlock = 15 * time.Minute
	// longBackoff limits the doubling after refusals that state no time.
	longBackoff = 5 * time.Minute
	// burstLasts is how long a smaller burst is used if no refusal confirms it. Then a whole window is
	// tried again. If that is refused, the burst is used twice as long.
	burstLasts = 6 * time.Hour
	// mostRelearned is the maximum number of these doublings, which is four days.
	mostRelearned = 4
	// nearTrialAfter is how long after a refusal a pace is tried again that was refused, or is near one
	// that was.
	nearTrialAfter = 12 * time.Hour
	// trialAfter is how long after a refusal a faster pace is tried that was never refused. After a
	// successful trial it is half as long. A trial needs trialWork answers before it.
	trialAfter = time.Hour
	trialWork  = 20
	// nearPace is the ratio of two paces between which no other pace is worth a trial.
	nearPace = 1.2
	// windowsKept is the number of windows that the log goes back, and leastKept the minimum time. The
	// service's window may be longer than believed, so only a count above all these requests proves that
	// other clients use the key.
	windowsKept = 3
	leastKept   = 3 * time.Minute
	// mostStretch is the maximum factor by which one refusal makes the pace slower.
	mostStretch = 16
	// longestSpacing is the maximum time between two requests after refusals without a stated reason.
	longestSpacing = 15 * time.Minute
)

// refusals is what was learned from refusals beyond what they state: a smaller burst, and a factor for
// the length of windows. Tags preserve the field names in files of older versions.
type refusals struct {
	Burst     int       // maximum to send at once at the same pace; 0 = as many as in a window
	Relearned int       `json:"Again"` // how often Burst had expired and was learned again within a week
	At        time.Time // the last refusal without a stated reason

	// Stretch is the factor of the windows' lengths, Refused a factor that was refused, and Previous the
	// one from before the trial of a faster pace. 0 means 1, no known one, and no trial.
	Stretch  float64 `json:"Slow"`
	Refused  float64 `json:"Fast"`
	Previous float64 `json:"Held"`

	Row       int           // consecutive refusals without a stated reason, each soon after the last
	NextTrial time.Time     `json:"Heals"` // when a faster pace is tried
	Answers   int           `json:"Got"`   // since the last refusal or trial
	Elapsed   time.Duration `json:"Took"`  // for Answers, without the time in which no call waited
}

func (s *refusals) stretch() float64 { return math.Max(1, s.Stretch) }

func (s *refusals) forget(now time.Time) {
	if s.Burst > 0 && now.Sub(s.At) > burstLasts<<s.Relearned {
		s.Burst = 0
	}
	if s.Stretch > 1 && now.After(s.NextTrial) && (s.Answers >= trialWork || now.Sub(s.At) > learnedLasts) {
		s.tryFaster(now)
	}
}

func (s *refusals) notAfter(now time.Time) {
	s.At, s.NextTrial = earliest(s.At, now), earliest(s.NextTrial, now.Add(nearTrialAfter))
}

// limitBurst records that at most n requests may be sent at once.
func (s *refusals) limitBurst(now time.Time, n int) {
	switch recent := now.Sub(s.At) < learnedLasts; {
	case s.Burst == 0 && recent: // it had expired, and was right
		s.Relearned = min(s.Relearned+1, mostRelearned)
	case s.Burst == 0:
		s.Relearned = 0
	}
	s.Burst, s.At = n, now
}

// limitToEstimate sets the pace for a service that estimates the count of a sliding window: with even
// spacing, it admits all but one of its limit in every window.
func (s *refusals) limitToEstimate(now time.Time, limit int) {
	s.Burst, s.At = 1, now
	if least := float64(limit) / float64(max(1, limit-1)); s.stretch() <= least {
		s.Stretch, s.NextTrial = least, now.Add(nearTrialAfter)
	}
}

// refused ends the trial of a faster pace and restores the previous one. Without a trial it stretches the
// windows of q: by a little at first, and then until the pace is what the service admitted since the
// previous refusal. Between two refusals the service admitted as much as it ever does, whatever kind of
// limit it has. After few answers that is only roughly known, so the refused pace may have been right.
func (s *refusals) refused(now time.Time, q Quota) {
	was, many := s.stretch(), s.Answers >= trialWork
	if many {
		s.Row = 0
	}
	s.Row++
	switch {
	case s.Previous > 0:
		s.Stretch, s.Refused = s.Previous, was
	case many || s.Row > 1 && s.Answers > 0:
		pace := float64(s.Elapsed) / (float64(s.Answers) + 0.5) / float64(q.spacing())
		s.Stretch, s.Refused = max(was*1.09, min(pace, was*mostStretch)), 0
	default:
		s.Stretch, s.Refused = was*1.09, 0
	}
	if many {
		s.Refused = was
	}
	s.Stretch, s.Previous = min(s.Stretch, mostStretchOf(q)), 0
	s.planTrial(now, trialAfter)
}

// mostStretchOf returns the maximum stretch of q: a service that refuses everything gets four requests an
// hour, and no window exceeds a time.Duration.
func mostStretchOf(q Quota) float64 {
	slowest := max(2, float64(longestSpacing)/float64(q.spacing()))
	return min(slowest, float64(math.MaxInt64/16)/float64(q.Window))
}

// tryFaster begins the trial of a faster pace: halfway to the one that was refused. If that is near, the
// trial removes half of the stretch, but at most a fifth.
func (s *refusals) tryFaster(now time.Time) {
	s.Previous = s.Stretch
	if s.Refused > 0 && s.Stretch > s.Refused*nearPace {
		s.Stretch = math.Sqrt(s.Stretch * s.Refused)
	} else {
		s.Stretch, s.Refused = max((1+s.Stretch)/2, s.Stretch*4/5), 0
	}
	if s.Stretch < 1.02 {
		s.Stretch, s.Previous = 1, 0
	}
	s.planTrial(now, trialAfter/2)
}

// planTrial sets the time of the next trial: later if the pace is near one that was refused, or near the
// one that the service states.
func (s *refusals) planTrial(now time.Time, wait time.Duration) {
	s.NextTrial = now.Add(wait)
	if s.Stretch <= max(1, s.Refused)*nearPace {
		s.NextTrial = now.Add(nearTrialAfter)
	}
	s.Answers, s.Elapsed = 0, 0
}

// rescale keeps the learned pace when the quota that the stretch applies to has changed.
func (s *refusals) rescale(by float64) {
	s.Stretch, s.Refused, s.Previous = s.stretch()*by, s.Refused*by, s.Previous*by
	if s.Stretch <= 1 {
		s.Stretch, s.Refused, s.Previous = 0, 0, 0
	}
}

// refuse reacts to a refusal.
func (c *core) refuse(now, sent time.Time, r reading) {
	c.Streak++
	wait := max(r.retry, r.reset)
	if wait <= 0 || c.Streak > 1 {
		wait = max(wait, c.backoff())
	}
	if sent.After(c.lastRefused) { // otherwise it was sent before the last refusal was known
		c.learn(now, sent, r)
	}
	c.lastRefused = now
	c.block(now, wait)
}

// backoff returns the time that one request takes at this pace, doubled for each further refusal.
func (c *core) backoff() time.Duration {
	wait := c.believed().spacing()
	for range min(c.Streak-1, 30) {
		wait = min(2*wait, longBackoff)
	}
	return min(wait, longBackoff)
}

// learn draws conclusions from a refusal.
//
// A service that gains one request in each interval, and admits no more than a burst at once, refuses
// because the burst was exceeded: the times of our requests give its maximum size. If even a burst of one
// was not exceeded, then either the pace is too fast, or other clients have used the key.
func (c *core) learn(now, sent time.Time, r reading) {
	q := c.believed()
	others := r.current - c.Log.since(sent.Add(-c.logSpan()), true) - c.inFlight
	if c.promisedMore() && others <= 0 {
		c.Belief.Learned, c.Belief.Distrust = Quota{}, now.Add(learnedLasts)
		return
	}
	if others > 0 {
		c.addOthers(now, min(others, q.Requests))
	}
	c.adapt(now, sent, r)
	if others > 0 || c.Others.Stage == sharing || c.Log.since(now.Add(-c.logSpan()), false) <= 1 {
		return // other clients caused it, or at least none of our requests did
	}
	burst := int(math.Ceil(c.Log.deficit(sent, q.spacing(), false))) - 1
	if c.Refusals.Burst > 0 && now.Sub(c.Refusals.At) < time.Hour {
		burst = 0 // the burst learned last does not explain it
	}
	switch unexplained := burst < 1 && c.Log.others() < 2; {
	case c.Streak > 1: // it shows only how long the first refusal lasts
	case unexplained:
		c.Refusals.refused(now, c.keyQuota())
	default:
		c.Refusals.Answers, c.Refusals.Elapsed = 0, 0
	}
	c.Refusals.limitBurst(now, max(1, burst))
}

// promisedMore reports whether the service had allowed more than the configured quota, and
// the last answer before the refusal had left at least two requests.
func (c *core) promisedMore() bool {
	b := &c.Belief
	since := c.Log.since(b.Sent, false) + c.inFlight // including the one that was refused
	return b.Learned != Quota{} && exceeds(b.Learned, c.quota) && b.Limit-b.Used-since >= 1
}
