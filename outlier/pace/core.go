package pace

import (
	"time"
)

const (
	// guard comes after the end of a block, for clocks that tick apart.
	guard = 50 * time.Millisecond
	// stray is how long a request whose end no file tells is taken to have been under
	// way, before it reached the service.
	stray = 10 * time.Second
	// pollEvery is what scan polls leave of the quota: they take one of so many.
	pollEvery = 20
)

// core is the limiter without lock, file and clock: every method is told the time.
// [Limiter] drives it in earnest, the table of docs/pace.md in virtual time.
type core struct {
	quota Quota
	share float64 // of the quota that is ours
	memory
	out     int       // let go and not completed
	prepaid int       // how many more the file already counts as out
	refused time.Time // when the last refusal came
	begun   time.Time // what was sent before was another owner's; zero if nothing was
}

// memory is what must be known after a restart.
type memory struct {
	Quota   Quota // that was configured
	Log     log
	Last    time.Time // when the last request was let go
	Polled  time.Time // when the last scan poll was
	Blocked time.Time // nothing leaves before
	Streak  int       // refusals without an answer between them
	Belief  belief
	Lesson  lesson
	Crowd   crowd
}

// A rule is what the service is taken to enforce: no more than n requests in any
// stretch of span, the margin included, and gap between any two.
type rule struct {
	n      int
	span   time.Duration
	gap    time.Duration
	others bool // the requests of others count among the n
}

// margin is what is added to a window, as two requests need not take equally long
// to the service.
func margin(window time.Duration) time.Duration { return min(250*time.Millisecond, window/40) }

// times is d·a/b, which may be too much for integers on the way.
func times(d time.Duration, a, b float64) time.Duration { return time.Duration(float64(d) * a / b) }

// told is the quota of the whole key: what the service said, or else what is configured.
func (c *core) told() Quota {
	if c.Belief.Taught.Requests > 0 {
		return c.Belief.Taught
	}
	return c.quota
}

// believed is the quota that was told with its window stretched by what refusals taught.
func (c *core) believed() Quota {
	q := c.told()
	q.Window = times(q.Window, c.Lesson.slow(), 1)
	return q
}

// ours is the part of the believed quota that this limiter may use.
func (c *core) ours() Quota { return c.believed().part(c.share) }

// part is the share of q, 0 being all of it.
func (q Quota) part(share float64) Quota {
	n := float64(q.Requests) * share
	switch {
	case share <= 0:
		return q
	case n < 1:
		return Quota{1, times(q.Window, 1, n)}
	}
	return Quota{int(n), q.Window}
}

// all reports whether the whole key is ours. Else others have their part, and what
// they use of it takes nothing from ours.
func (c *core) all() bool { return c.share <= 0 || c.share >= 1 }

// rule is what the belief and the lessons come to.
func (c *core) rule() rule {
	q := c.ours()
	r := rule{n: q.Requests, span: q.Window, others: c.all()}
	switch {
	case c.Crowd.Stage != alone && c.Crowd.Keep < r.n:
		r.n, r.others = c.Crowd.Keep, false
	case c.Lesson.Burst > 0 && c.Lesson.Burst < r.n:
		r.n = c.Lesson.Burst
		r.span = times(q.Window, float64(r.n), float64(q.Requests))
	}
	if c.Crowd.Stage != alone {
		r.gap = (r.span + margin(r.span)) / time.Duration(r.n)
	}
	r.span += margin(r.span)
	return r
}

// whole is the configured quota as a rule of its own, unless the service has proved
// that it allows more. A smaller burst at the same pace does not imply it: three
// requests every 18 s can be twelve in a minute.
func (c *core) whole() (r rule, ok bool) {
	if exceeds(c.told(), c.quota) {
		return rule{}, false
	}
	q := c.quota.part(c.share)
	return rule{n: q.Requests, span: q.Window + margin(q.Window), others: c.all() && c.Crowd.Stage != sharing}, true
}

// longestSpan is how long a slot may stay taken.
func (c *core) longestSpan() time.Duration {
	whole, _ := c.whole()
	return max(c.rule().span, whole.span)
}

// slot is when the nth request from now may leave, as far as can be known.
func (c *core) slot(now time.Time, nth int) time.Time {
	r := c.rule()
	t := c.under(r, now, nth)
	if r.gap > 0 {
		t = latest(t, c.Last.Add(time.Duration(nth)*r.gap))
	}
	if r, ok := c.whole(); ok {
		t = latest(t, c.under(r, now, nth))
	}
	return t
}

// under is when the nth request from now may leave under one rule.
func (c *core) under(r rule, now time.Time, nth int) time.Time {
	if c.Blocked.After(c.Last) {
		r.others = false // the first one after a block finds out what is left
	}
	whole, rest := (nth-1)/r.n, (nth-1)%r.n
	t := latest(now, c.Blocked)
	if free := r.n - c.out - rest; free <= 0 {
		// One that is under way must come back first; its end wakes whoever waits.
		t = latest(t, latest(c.Last.Add(r.span), now.Add(time.Second)))
	} else if taken, ok := c.Log.newest(free, r.others); ok {
		t = latest(t, taken.Add(r.span))
	}
	return t.Add(time.Duration(whole) * r.span)
}

// poll is when the nth scan poll from now may leave.
func (c *core) poll(nth int) time.Time {
	q := c.ours()
	return c.Polled.Add(times(q.Window, float64(nth*pollEvery), float64(q.Requests)))
}

// forget drops what no longer matters.
func (c *core) forget(now time.Time) {
	c.Log.forget(now.Add(-c.remembered()))
	c.Log.dropOthers(now.Add(-c.believed().Window-margin(c.believed().Window)), c.Log.others())
	c.Belief.forget(now)
	c.Lesson.forget(now)
}

// remembered is how far the log goes back.
func (c *core) remembered() time.Duration {
	return max(leastMemory, memories*max(c.believed().Window, c.quota.Window, c.rule().span))
}

// elapse counts the time since the last request as time in which requests were let go,
// but for what passed because nothing wanted to leave. It comes before each grant.
func (c *core) elapse(now time.Time) {
	if !c.Last.IsZero() {
		due := c.slot(c.Last, 1).Add(stray)
		c.Lesson.Took += max(0, earliest(now, due).Sub(c.Last))
	}
}

// grant lets a request go.
func (c *core) grant(now time.Time) {
	c.prepaid--
	c.out++
	c.Last = now
}

// unsent takes a grant back.
func (c *core) unsent() { c.out-- }

// observe learns from the answer to a request that was sent at the given time.
func (c *core) observe(now, sent time.Time, r reading) {
	c.out--
	if sent.Before(c.begun) {
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
		c.Lesson.Got++
	}
	if r.limit > 0 && r.remaining <= r.limit {
		c.study(now, sent, r)
	}
}

// grain is how closely the log tells requests apart.
func (c *core) grain() time.Duration { return c.believed().Window / 1000 }

// block lets nothing leave for a while.
func (c *core) block(now time.Time, wait time.Duration) {
	if wait > 0 {
		c.Blocked = latest(c.Blocked, now.Add(min(wait+guard, c.longestBlock())))
	}
}

func (c *core) longestBlock() time.Duration { return max(longBlock, c.believed().Window) + guard }

// notAfter keeps every remembered time within what it could be at now, should the
// clock have been set back: that costs one window at most, not the difference.
func (c *core) notAfter(now time.Time) {
	c.Log.notAfter(now)
	c.Last, c.Polled = earliest(c.Last, now), earliest(c.Polled, now)
	c.begun = earliest(c.begun, now)
	c.Blocked = earliest(c.Blocked, now.Add(c.longestBlock()))
	c.Belief.notAfter(now)
	c.Lesson.notAfter(now)
	c.Crowd.notAfter(now)
}
