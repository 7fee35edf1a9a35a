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

// forgetOthers is how long after their last sign others are reckoned with.
const forgetOthers = time.Hour

// A crowd is what is known of others on the key.
type crowd struct {
	Stage   int
	First   time.Time // sign of them
	Last    time.Time // sign of them
	Changed time.Time // the last change of Stage or Keep, or the last look at Low
	Keep    int       // while sharing: how many requests in a window are ours
	Low     int       // the least that the service had left, since Changed
}

func (o *crowd) notAfter(now time.Time) {
	o.First, o.Last, o.Changed = earliest(o.First, now), earliest(o.Last, now), earliest(o.Changed, now)
}

// expected is how many requests the service should count if nobody else uses the
// key than those who have been noticed. Where it is in doubt, it is too high: only
// what is more than expected proves anything.
func (c *core) expected(sent time.Time) int {
	q := c.believed()
	if c.Belief.isBucket() {
		return int(math.Ceil(c.Log.owed(sent, times(q.Window, 1, float64(q.Requests)), true)+0.3)) + c.out
	}
	return c.Log.since(sent.Add(-q.Window), true) + c.out
}

// notice compares what the service counts with what we know of.
func (c *core) notice(now, sent time.Time, r reading) {
	used := r.limit - r.remaining
	if more := used - c.expected(sent); more > r.limit/50 {
		c.meet(now, more)
	}
	if gone := c.Log.others() - max(used-1, 0); gone > 0 {
		c.Log.dropOthers(gone) // the service counts at least this request, so no more of theirs
	}
	c.settle(now, r)
}

// meet notes requests of others.
func (c *core) meet(now time.Time, n int) {
	c.Log.add(cell{At: now, Others: n}, c.grain())
	if now.Sub(c.Crowd.Last) > forgetOthers {
		c.Crowd.First = now
	}
	c.Crowd.Last = now
}

// settle decides how to live with others.
func (c *core) settle(now time.Time, r reading) {
	o, window := &c.Crowd, c.believed().Window
	switch sign := o.Last.Equal(now); {
	case o.Stage != alone && now.Sub(o.Last) > forgetOthers:
		o.Stage = alone
	case o.Stage == alone && sign && now.Sub(o.First) > window/2:
		o.Stage, o.Changed = wary, now
	case o.Stage == wary && sign && now.Sub(o.Changed) > window && c.Log.others() > 1:
		limit := c.ours().Requests
		o.Stage, o.Changed = sharing, now
		o.Keep, o.Low = max(1, limit-c.Log.others()), limit
	case o.Stage == sharing:
		c.adjust(now, r)
	}
}

// adjust takes a slot less where the service has nothing left, and more where it has
// had some left for a while. That while differs from time to time, so that two who
// follow the same rule do not both take the same slot.
func (c *core) adjust(now time.Time, r reading) {
	o, q := &c.Crowd, c.ours()
	o.Low = min(o.Low, r.remaining)
	since := now.Sub(o.Changed)
	switch {
	case r.refused, r.remaining == 0 && since > q.Window:
		o.Keep = max(1, o.Keep-1)
	case since > patience(o.Changed):
		if o.Low > 1 {
			o.Keep += max(1, (o.Low-1)/2)
		}
	default:
		return
	}
	o.Changed, o.Low = now, q.Requests
	if o.Keep >= q.Requests {
		o.Stage = wary
	}
}

// patience is five to fifteen minutes, by chance.
func patience(at time.Time) time.Duration {
	return 5*time.Minute + time.Duration(uint64(at.UnixNano())*0x9e3779b97f4a7c15%uint64(10*time.Minute))
}
