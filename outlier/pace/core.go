package pace

import "time"

const (
	// clockSlack is added to the end of a block, for clocks that do not run at the same speed.
	clockSlack = 50 * time.Millisecond
	// longestFlight is the maximum time for which a request may have been in transit before it reached
	// the service, if the process ended before its answer came.
	longestFlight = 10 * time.Second
	// pollEvery limits the share of scan polls: one in 20 requests of the quota.
	pollEvery = 20
)

// core is the limiter without lock, file and clock: every method takes the time. [Limiter] runs it in
// production, and the table of docs/pace.md runs it in virtual time.
type core struct {
	quota Quota
	share float64 // of the quota that is ours
	saved
	inFlight    int       // granted and not completed
	prepaid     int       // how many more the file already counts as in flight
	lastRefused time.Time // when the last refusal came
	ownedSince  time.Time // requests sent earlier belonged to another owner; zero if there was none
}

// saved is the state that is kept across restarts. Tags preserve the field names in files of older
// versions.
type saved struct {
	Quota    Quota // as configured
	Log      requestLog
	Last     time.Time // when the last request was granted
	LastPoll time.Time `json:"Polled"` // when the last scan poll was granted
	Blocked  time.Time // no request may be sent before
	Streak   int       // refusals without an answer between them
	Belief   belief
	Refusals refusals     `json:"Lesson"`
	Others   otherClients `json:"Crowd"`
}

// A rule is what the service is assumed to enforce: at most n requests in any period of length span,
// which includes the margin, and at least gap between any two.
type rule struct {
	n      int
	span   time.Duration
	gap    time.Duration
	others bool // requests of other clients count as well
}

// margin returns the time added to a window, because two requests may take unequal times to reach the
// service.
func margin(window time.Duration) time.Duration { return min(250*time.Millisecond, window/40) }

// scaled returns d·a/b, computed in floating point because d·a may overflow an integer.
func scaled(d time.Duration, a, b float64) time.Duration { return time.Duration(float64(d) * a / b) }

// keyQuota returns the quota of the whole key: the learned one, otherwise the configured one.
func (c *core) keyQuota() Quota {
	if c.Belief.Learned.Requests > 0 {
		return c.Belief.Learned
	}
	return c.quota
}

// believed returns keyQuota with its window stretched by what was learned from refusals.
func (c *core) believed() Quota {
	q := c.keyQuota()
	q.Window = scaled(q.Window, c.Refusals.stretch(), 1)
	return q
}

// ours returns the part of the believed quota that this limiter may use.
func (c *core) ours() Quota { return c.believed().part(c.share) }

// part returns the given share of q; 0 means all of it. A share of less than one request gets one
// request in a longer window.
func (q Quota) part(share float64) Quota {
	n := float64(q.Requests) * share
	switch {
	case share <= 0:
		return q
	case n < 1:
		return Quota{1, scaled(q.Window, 1, n)}
	}
	return Quota{int(n), q.Window}
}

// ownsKey reports whether the whole quota of the key is ours. Otherwise other clients have their
// own part, and what they use of it does not reduce ours.
func (c *core) ownsKey() bool { return c.share <= 0 || c.share >= 1 }

// rule combines the believed quota with what refusals and other clients require.
func (c *core) rule() rule {
	q := c.ours()
	r := rule{n: q.Requests, span: q.Window, others: c.ownsKey()}
	switch {
	case c.Others.Stage != alone && c.Others.Own < r.n:
		r.n, r.others = c.Others.Own, false
	case c.Refusals.Burst > 0 && c.Refusals.Burst < r.n:
		r.n = c.Refusals.Burst
		r.span = scaled(q.Window, float64(r.n), float64(q.Requests))
	}
	if c.Others.Stage != alone {
		r.gap = (r.span + margin(r.span)) / time.Duration(r.n)
	}
	r.span += margin(r.span)
	return r
}

// configuredRule returns the configured quota as a second rule, unless the service has proved that
// it allows more. A smaller burst at the same pace does not imply it: three requests every 18 s
// can be twelve in a minute.
func (c *core) configuredRule() (r rule, ok bool) {
	if exceeds(c.keyQuota(), c.quota) {
		return rule{}, false
	}
	q := c.quota.part(c.share)
	others := c.ownsKey() && c.Others.Stage != sharing
	return rule{n: q.Requests, span: q.Window + margin(q.Window), others: others}, true
}

// longestSpan returns how long a slot may stay taken.
func (c *core) longestSpan() time.Duration {
	configured, _ := c.configuredRule()
	return max(c.rule().span, configured.span)
}

// slot returns when the nth request from now may be sent, as far as is known now. Even spacing needs only
// the time of the last request and the gap: see the package comment on [rate.Limiter].
//
// [rate.Limiter]: https://pkg.go.dev/golang.org/x/time/rate#Limiter
func (c *core) slot(now time.Time, nth int) time.Time {
	r := c.rule()
	t := c.slotUnder(r, now, nth)
	if r.gap > 0 {
		t = latest(t, c.Last.Add(time.Duration(nth)*r.gap))
	}
	if r, ok := c.configuredRule(); ok {
		t = latest(t, c.slotUnder(r, now, nth))
	}
	return t
}

// slotUnder returns when the nth request from now may be sent under one rule.
func (c *core) slotUnder(r rule, now time.Time, nth int) time.Time {
	if c.Blocked.After(c.Last) {
		r.others = false // the first request after a block shows what is left
	}
	windows, rest := (nth-1)/r.n, (nth-1)%r.n
	t := latest(now, c.Blocked)
	if free := r.n - c.inFlight - rest; free <= 0 {
		// One in flight must complete first, which wakes the waiting callers.
		t = latest(t, latest(c.Last.Add(r.span), now.Add(time.Second)))
	} else if taken, ok := c.Log.newest(free, r.others); ok {
		t = latest(t, taken.Add(r.span))
	}
	return t.Add(time.Duration(windows) * r.span)
}

// nextPoll returns when the nth scan poll from now may be sent, considering only the polls' share.
func (c *core) nextPoll(nth int) time.Time {
	q := c.ours()
	return c.LastPoll.Add(scaled(q.Window, float64(nth*pollEvery), float64(q.Requests)))
}

// forget drops what has expired.
func (c *core) forget(now time.Time) {
	c.Log.forget(now.Add(-c.logSpan()))
	c.Log.dropOthers(now.Add(-c.believed().Window-margin(c.believed().Window)), c.Log.others())
	c.Belief.forget(now)
	c.Refusals.forget(now)
}

// logSpan returns how far back the log goes.
func (c *core) logSpan() time.Duration {
	return max(leastKept, windowsKept*max(c.believed().Window, c.quota.Window, c.rule().span))
}

// countTime adds the time since the last request to the time for which the pace was tested, without the
// time in which no call was waiting. It is called before each grant.
func (c *core) countTime(now time.Time) {
	if !c.Last.IsZero() {
		due := c.slot(c.Last, 1).Add(longestFlight)
		c.Refusals.Elapsed += max(0, earliest(now, due).Sub(c.Last))
	}
}

// grant records that a request may be sent.
func (c *core) grant(now time.Time) {
	c.prepaid--
	c.inFlight++
	c.Last = now
}

// unsent releases the slot of a request that was not sent.
func (c *core) unsent() { c.inFlight-- }

// observe learns from the answer to a request that was sent at the given time.
func (c *core) observe(now, sent time.Time, r reading) {
	c.inFlight--
	if sent.Before(c.ownedSince) {
		return
	}
	c.forget(now)
	c.Log.add(cell{At: sent, Own: 1}, c.grain())
	if r.refused {
		c.refuse(now, sent, r)
	} else {
		c.block(now, max(r.retry, r.spent))
	}
	if r.answered {
		c.Streak = 0
		c.Refusals.Answers++
	}
	if r.limit > 0 && r.remaining <= r.limit {
		c.study(now, sent, r)
	}
}

// grain returns the resolution of the log.
func (c *core) grain() time.Duration { return c.believed().Window / 1000 }

// block forbids all requests for the given time, limited to longestBlock.
func (c *core) block(now time.Time, wait time.Duration) {
	if wait > 0 {
		c.Blocked = latest(c.Blocked, now.Add(min(wait+clockSlack, c.longestBlock())))
	}
}

func (c *core) longestBlock() time.Duration { return max(longBlock, c.believed().Window) + clockSlack }

// notAfter changes saved times in the future to now, in case the clock was set back. That costs at most
// one window, instead of the difference.
func (c *core) notAfter(now time.Time) {
	c.Log.notAfter(now)
	c.Last, c.LastPoll = earliest(c.Last, now), earliest(c.LastPoll, now)
	c.ownedSince = earliest(c.ownedSince, now)
	c.Blocked = earliest(c.Blocked, now.Add(c.longestBlock()))
	c.Belief.notAfter(now)
	c.Refusals.notAfter(now)
	c.Others.notAfter(now)
}
