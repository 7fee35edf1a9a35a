package pace

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	clockSlack = 50 * time.Millisecond // added to the end of a block, for clocks that do not run at the same speed
	minBackoff = 2 * time.Second       // after a refusal that states no time
	maxBackoff = 5 * time.Minute
	maxBlock   = 15 * time.Minute   // or one window: it is better to try again than to trust one answer for longer
	maxTransit = 10 * time.Second   // until a request reaches the service, if the process ended before its answer came
	learnedFor = 7 * 24 * time.Hour // how long something learned is used if nothing confirms it
	pollEvery  = 20                 // of so many requests one may be a scan poll
)

// core is the limiter without lock, file and clock: every method takes the time. [Limiter] runs it in production, and
// the table of testdata/limiters.md runs it in virtual time.
type core struct {
	quota Quota   // as configured
	share float64 // of the quota that is ours; 0 = all of it
	saved
	even        *rate.Limiter // grants one request each Pacing.Every
	inFlight    int           // granted and not completed
	prepaid     int           // how many more the file already counts as in flight
	lastRefused time.Time     // when the last refusal came
	ownedSince  time.Time     // requests sent earlier belonged to another owner; zero if there was none
}

// saved is the state that is kept across restarts.
type saved struct {
	Quota    Quota // as configured
	Log      requestLog
	Last     time.Time // when the last request was granted
	LastPoll time.Time // when the last scan poll was granted
	Blocked  time.Time // no request may be sent before
	Streak   int       // refusals without an answer between them
	Stated   stated
	Pacing   pacing
}

func newCore(q Quota, share float64) core {
	return core{quota: q, share: share, even: rate.NewLimiter(rate.Inf, 1)}
}

// A rule is what the service is assumed to enforce: at most n requests in any period of length span.
type rule struct {
	n    int
	span time.Duration
}

func (q Quota) asRule() rule { return rule{q.Requests, q.Window + margin(q.Window)} }

// margin is added to a window, because two requests may take unequal times to reach the service.
func margin(window time.Duration) time.Duration { return min(250*time.Millisecond, window/40) }

// keyQuota returns the quota of the whole key: the stated one, otherwise the configured one.
func (c *core) keyQuota() Quota {
	if c.Stated.Quota.Requests > 0 {
		return c.Stated.Quota
	}
	return c.quota
}

// ourQuota returns the part of the key's quota that this limiter may use.
func (c *core) ourQuota() Quota { return c.keyQuota().shareOf(c.share) }

// isWhole reports whether a share is the whole quota. If not, other clients have a part whose use does not reduce ours.
func isWhole(share float64) bool { return share <= 0 || share >= 1 }

// rules returns what the window must satisfy. The configured quota is a rule of its own unless the service has proved
// that it allows more: a smaller burst at the same pace does not imply it, as three requests every 18 s can be twelve
// in a minute.
func (c *core) rules() []rule {
	all := []rule{c.ourQuota().asRule()}
	if !allowsMore(c.keyQuota(), c.quota) {
		all = append(all, c.quota.shareOf(c.share).asRule())
	}
	return all
}

// maxSpan returns how long a slot may stay taken.
func (c *core) maxSpan() time.Duration {
	span := c.Pacing.Every
	for _, r := range c.rules() {
		span = max(span, r.span)
	}
	return span
}

// logSpan returns how far back the log goes. The service's window may be longer than believed, so only a count above
// all these requests proves that other clients use the key.
func (c *core) logSpan() time.Duration { return 3 * max(time.Minute, c.maxSpan()) }

// nextSlot returns when the nth request from now may be sent, as far as is known now.
func (c *core) nextSlot(now time.Time, nth int) time.Time {
	t := latest(now, c.Blocked)
	if every := c.Pacing.Every; every > 0 {
		t = latest(t, now.Add(scaleDuration(every, float64(nth)-c.even.TokensAt(now)).Round(time.Microsecond)))
	}
	for _, r := range c.rules() {
		windows, rest := (nth-1)/r.n, (nth-1)%r.n
		free := latest(now, c.Blocked)
		if n := r.n - c.inFlight - rest; n <= 0 {
			free = latest(free, latest(c.Last.Add(r.span), now.Add(time.Second))) // unless one in flight completes
		} else if taken, ok := c.Log.nthNewest(n); ok {
			free = latest(free, taken.Add(r.span))
		}
		t = latest(t, free.Add(time.Duration(windows)*r.span))
	}
	return t
}

// nextPoll returns when the next scan poll may be sent after the last one, considering only the polls' share.
func (q Quota) nextPoll(last time.Time) time.Time {
	return last.Add(scaleDuration(q.Window, pollEvery/float64(q.Requests)))
}

// dropExpired drops what has expired, and limits saved times in the future, in case the clock was set back. That costs
// at most one window, instead of the difference.
func (c *core) dropExpired(now time.Time) {
	s, p := &c.Stated, &c.Pacing
	for _, t := range []*time.Time{&c.Last, &c.LastPoll, &c.ownedSince, &s.At, &p.Changed, &p.OthersLast} {
		*t = earliest(*t, now)
	}
	c.Blocked = earliest(c.Blocked, now.Add(c.longestBlock()))
	p.NextTrial = earliest(p.NextTrial, now.Add(nearTrialAfter))
	c.Log.dropBefore(now.Add(-c.logSpan()), now)
	if now.Sub(s.At) > learnedFor {
		s.Quota = Quota{}
	}
	c.tryFaster(now)
}

// recordGrant records that a request may be sent. The pace is being tested for the time since the last one, without the
// time in which no call was waiting.
func (c *core) recordGrant(now time.Time) {
	if !c.Last.IsZero() {
		due := c.nextSlot(c.Last, 1).Add(maxTransit)
		c.Pacing.Elapsed += max(0, earliest(now, due).Sub(c.Last))
	}
	c.inFlight++
	c.Last = now
	c.even.ReserveN(now, 1)
}

// learnFrom learns from the answer to a request that was sent at the given time.
func (c *core) learnFrom(now, sent time.Time, r reading) {
	c.inFlight--
	if sent.Before(c.ownedSince) {
		return
	}
	c.dropExpired(now)
	c.Log.add(sent, 1)
	if r.refused {
		c.reactToRefusal(now, sent, r)
	} else {
		c.blockFor(now, max(r.retry, r.spent))
	}
	if r.answered {
		c.Streak = 0
		c.Pacing.Answers++
	}
	if r.limit > 0 && r.remaining <= r.limit {
		c.studyAnswer(now, sent, r)
	}
}

// reactToRefusal reacts to a refusal: nothing is sent until the time that it states. The pace slows down, unless the
// request was sent before the last refusal was known, or the refusal only shows how long the last one lasts.
func (c *core) reactToRefusal(now, sent time.Time, r reading) {
	c.Streak++
	wait := max(r.retry, r.reset)
	if wait <= 0 || c.Streak > 1 {
		wait = max(wait, c.backoff())
	}
	known := c.Log.countSince(sent.Add(-c.logSpan())) + c.inFlight
	c.noticeOthers(now, min(r.current-known, c.keyQuota().Requests))
	if c.Streak == 1 && sent.After(c.lastRefused) {
		c.slowDown(now)
	}
	c.lastRefused = now
	c.blockFor(now, wait)
}

// backoff returns the time that one request takes at this pace, doubled for each further refusal.
func (c *core) backoff() time.Duration {
	wait := max(c.keyQuota().spacing(), c.Pacing.Every, minBackoff)
	for range min(c.Streak-1, 30) {
		wait = min(2*wait, maxBackoff)
	}
	return min(wait, maxBackoff)
}

// blockFor forbids all requests for the given time.
func (c *core) blockFor(now time.Time, wait time.Duration) {
	if wait > 0 {
		c.Blocked = latest(c.Blocked, now.Add(min(wait+clockSlack, c.longestBlock())))
	}
}

func (c *core) longestBlock() time.Duration { return max(maxBlock, c.maxSpan()) + clockSlack }
