package pace

import (
	"math"
	"time"
)

// The stages of living with others on the key.
const (
	alone   = iota // none, or requests that were noticed once: they take slots for a window
	wary           // they came again: requests are spaced evenly, so that each of us sees the other
	sharing        // they stay: a number of slots is left to them
)

const (
	// forgetOthers is how long after their last sign others are reckoned with.
	forgetOthers = time.Hour
	// calmest is how often the patience is doubled at most.
	calmest = 5
)

// A crowd is what is known of others on the key.
type crowd struct {
	Stage   int
	First   time.Time // sign of them
	Last    time.Time // sign of them
	Changed time.Time // the last change of Stage or Keep, or the last look at Low
	Keep    int       // how many requests in a window are ours, while not alone
	Low     int       // the least that the service had left, since Changed
	Calm    int       // how often the patience is doubled before the next attempt
}

func (o *crowd) notAfter(now time.Time) {
	o.First, o.Last, o.Changed = earliest(o.First, now), earliest(o.Last, now), earliest(o.Changed, now)
}

// expected is how many requests the service should count if nobody else uses the
// key than those who have been noticed. Where it is in doubt, it is too high: only
// what is more than expected proves anything.
func (c *core) expected(sent time.Time) int {
	q := c.believed()
	if c.Belief.Guess { // it may count for longer
		return c.Log.since(sent.Add(-c.remembered()), true) + c.out
	}
	if c.Belief.isBucket() {
		return int(math.Ceil(c.Log.owed(sent, times(q.Window, 1, float64(q.Requests)), true)+0.3)) + c.out
	}
	since := sent.Add(-q.Window)
	if c.Belief.isFixed(sent) {
		since = latest(since, c.Belief.Turn.Add(-c.told().Window-2*rounding))
	}
	return c.Log.since(since, true) + c.out
}

// notice compares what the service counts with what we know of.
func (c *core) notice(now, sent time.Time, r reading) {
	odd := c.Lesson.Burst > 0 || c.Crowd.Stage != alone || c.Log.others() > 0
	if odd && c.Belief.isEstimate(c.told().Window) { // then its numbers prove nothing of others
		c.Crowd = crowd{}
		c.Log.dropOthers(now, c.Log.others())
		c.Lesson.estimated(now, r.limit)
		return
	}
	used := r.limit - r.remaining
	if more := used - c.expected(sent); more > r.limit/50 {
		c.meet(now, more)
	}
	if gone := c.Log.others() - max(used-1, 0); gone > 0 {
		c.Log.dropOthers(now, gone) // the service counts at least this request, so no more of theirs
	}
	if !r.refused { // else it is settled already
		c.settle(now, sent, r)
	}
}

// meet notes requests of others.
func (c *core) meet(now time.Time, n int) {
	c.Log.add(cell{At: now, Others: n}, c.grain())
	if c.Crowd.Stage == wary && c.Log.others() < 2 {
		return // so few need no more than their slots; and a service's estimate may be off
	}
	if now.Sub(c.Crowd.Last) > forgetOthers {
		c.Crowd.First = now
	}
	c.Crowd.Last = now
}

// settle decides how to live with others. Those who have their share are no reason to
// do anything as long as the service refuses nothing: they use what is theirs, and where
// its windows begin and end, two bursts of theirs may fall into one.
func (c *core) settle(now, sent time.Time, r reading) {
	if c.Crowd.Stage == alone && !c.all() && !r.refused {
		return
	}
	o, window := &c.Crowd, c.believed().Window
	limit := c.ours().Requests
	others := c.Log.others() - (c.told().Requests - limit) // beyond the part that is left to them
	many := others > limit/5
	if o.Stage == sharing {
		c.adjust(now, sent, r)
	}
	switch sign, since := o.Last.Equal(now), now.Sub(o.Changed); {
	case o.Stage != alone && now.Sub(o.Last) > forgetOthers:
		o.Stage = alone
	case o.Stage == alone && sign && (many && !r.refused || now.Sub(o.First) > window/2):
		o.Stage, o.Changed, o.Keep = wary, now, min(limit, max(limit/2, limit-others, 1))
	case o.Stage == wary && r.refused:
		// They want more than is seen of them: what was sent before a window began,
		// as far as that is known, hides some. Were only the other to yield, as its
		// request came last, it would have to yield everything.
		c.yield(now, limit/2)
	case o.Stage == wary && o.Keep < limit && since > 2*window:
		o.Keep, o.Changed = limit, now // they have not come again
	case o.Stage == wary && sign && (many && since > window/2 || since > 2*window):
		c.yield(now, limit-others)
	}
}

// yield leaves slots to others from now on.
func (c *core) yield(now time.Time, keep int) {
	o, limit := &c.Crowd, c.ours().Requests
	o.Stage, o.Changed, o.Low, o.Calm = sharing, now, limit, 0
	o.Keep = min(limit, max(1, keep))
	c.Lesson = lesson{} // this is why there were refusals
}

// adjust takes a slot less when the service refuses, and one more where it has had
// some left for a while. That while differs from time to time, so that two who
// follow the same rule do not both take the same slot, and it doubles with every
// refusal. A bucket that two drain together runs dry slowly: there it is enough to
// take less when hardly anything is left.
func (c *core) adjust(now, sent time.Time, r reading) {
	o, q := &c.Crowd, c.ours()
	if left, ok := c.left(sent, r); ok {
		o.Low = min(o.Low, left)
	}
	since := now.Sub(o.Changed)
	switch {
	case r.refused:
		if o.Keep == 1 { // it came last in a window that others fill, and would in the next
			c.block(now, max(r.reset, 0)+q.Window*3/2)
		}
		o.Keep, o.Calm = max(1, o.Keep-1), min(o.Calm+1, calmest)
	case c.Belief.isBucket() && r.remaining < 2 && since > q.Window:
		o.Keep = max(1, o.Keep-1)
	case since > patience(o.Changed)<<o.Calm:
		o.grow(q.Requests)
	default:
		return
	}
	o.Changed, o.Low = now, q.Requests
	if o.Keep >= q.Requests {
		o.Stage = wary
	}
}

// grow takes what nobody uses. Who has half of the limit leaves the first of it to
// whoever has less.
func (o *crowd) grow(limit int) {
	if o.Low >= limit {
		return // what is left was never seen
	}
	spare := 0
	if o.Keep >= limit/2 {
		spare = limit / 5
	}
	if o.Low > spare {
		o.Keep += max(1, o.Low/4)
	}
	if o.Low > limit/2 {
		o.Calm = 0 // they have gone
	}
}

// left is how many requests of the window will not be used by anybody. Of a fixed
// window only our last request in it tells, and what others are going to use after
// that must be guessed.
func (c *core) left(sent time.Time, r reading) (n int, ok bool) {
	if r.remaining < 0 || c.Belief.isBucket() {
		return r.remaining - 2, r.remaining >= 0
	}
	if !c.Belief.isFixed(sent) {
		return r.remaining, true
	}
	coming := float64(c.Log.others()) * float64(r.reset) / float64(c.believed().Window)
	return r.remaining - int(coming+0.6), r.reset < c.rule().gap
}

// patience is ten to thirty minutes, by chance.
func patience(at time.Time) time.Duration {
	return 10*time.Minute + time.Duration(uint64(at.UnixNano())*0x9e3779b97f4a7c15%uint64(20*time.Minute))
}
