package pace

import (
	"math"
	"time"
)

// The stages of sharing the key with other clients.
const (
	alone   = iota // no other client, or requests that were noticed once: these take slots for one window
	spaced         // more came: requests are spaced evenly, so that each client sees the other's
	sharing        // they stay: a number of slots is left to them
)

const (
	// forgetOthers is how long other clients are assumed after their last request was noticed.
	forgetOthers = time.Hour
	// mostDoubled is the maximum number of doublings of the patience.
	mostDoubled = 5
)

// otherClients is what is known about other clients on the key. Tags preserve the field names in files of
// older versions.
type otherClients struct {
	Stage   int
	First   time.Time // when a request of theirs was noticed first
	Last    time.Time // when a request of theirs was noticed last
	Changed time.Time // when Stage or Own changed last, or Unused was evaluated
	Own     int       `json:"Keep"` // our requests in a window, unless alone
	Unused  int       `json:"Low"`  // the minimum that the service had left since Changed
	Doubled int       `json:"Calm"` // how often the patience before the next attempt is doubled
}

func (o *otherClients) notAfter(now time.Time) {
	o.First, o.Last, o.Changed = earliest(o.First, now), earliest(o.Last, now), earliest(o.Changed, now)
}

// expected returns how many requests the service should count if only the clients noticed so far use the
// key. In doubt it is too high, because only a higher count proves another client.
func (c *core) expected(sent time.Time) int {
	q := c.believed()
	if c.Belief.WindowGuessed { // the service may count for longer
		return c.Log.since(sent.Add(-c.logSpan()), true) + c.inFlight
	}
	if c.Belief.isBucket() {
		each := scaled(q.Window, 1, float64(q.Requests))
		return int(math.Ceil(c.Log.deficit(sent, each, true)+0.3)) + c.inFlight
	}
	since := sent.Add(-q.Window)
	if c.Belief.isFixed(sent) {
		since = latest(since, c.Belief.Reset.Add(-c.keyQuota().Window-2*rounding))
	}
	return c.Log.since(since, true) + c.inFlight
}

// compare compares the service's count with the requests known here.
func (c *core) compare(now, sent time.Time, r reading) {
	odd := c.Refusals.Burst > 0 || c.Others.Stage != alone || c.Log.others() > 0
	if odd && c.Belief.isEstimate(c.keyQuota().Window) { // its counts prove nothing about other clients
		c.Others = otherClients{}
		c.Log.dropOthers(now, c.Log.others())
		c.Refusals.limitToEstimate(now, r.limit)
		return
	}
	used := r.limit - r.remaining
	if more := used - c.expected(sent); more > r.limit/50 {
		c.addOthers(now, more)
	}
	if gone := c.Log.others() - max(used-1, 0); gone > 0 {
		c.Log.dropOthers(now, gone) // the service counts this request too
	}
	if !r.refused { // else learn has called adapt already
		c.adapt(now, sent, r)
	}
}

// addOthers records n requests of other clients.
func (c *core) addOthers(now time.Time, n int) {
	c.Log.add(cell{At: now, Others: n}, c.grain())
	if c.Others.Stage == spaced && c.Log.others() < 2 {
		return // the slots of so few are enough, and a service's estimate may be off by one
	}
	if now.Sub(c.Others.Last) > forgetOthers {
		c.Others.First = now
	}
	c.Others.Last = now
}

// adapt decides on the stage of sharing. With a configured share, requests of other clients change
// nothing until the service refuses one: they use their own part, and two bursts of theirs may fall into
// one of our windows if it contains a boundary of the service's windows.
func (c *core) adapt(now, sent time.Time, r reading) {
	if c.Others.Stage == alone && !c.ownsKey() && !r.refused {
		return
	}
	o, window := &c.Others, c.believed().Window
	limit := c.ours().Requests
	theirs := c.keyQuota().Requests - limit // the part that a configured share leaves to them
	others := c.Log.others() - theirs
	many := others > limit/5
	if o.Stage == sharing {
		c.adaptShare(now, sent, r)
	}
	switch sign, since := o.Last.Equal(now), now.Sub(o.Changed); {
	case o.Stage != alone && now.Sub(o.Last) > forgetOthers:
		o.Stage = alone
	case o.Stage == alone && sign && (many && !r.refused || now.Sub(o.First) > window/2):
		o.Stage, o.Changed, o.Own = spaced, now, min(limit, max(limit/2, limit-others, 1))
	case o.Stage == spaced && r.refused:
		// They need more than was noticed: requests sent before a window began hide some of theirs. If
		// only the client yielded whose request came last, it would have to yield everything.
		c.leaveSlots(now, limit/2)
	case o.Stage == spaced && o.Own < limit && since > 2*window:
		o.Own, o.Changed = limit, now // no more were noticed
	case o.Stage == spaced && sign && (many && since > window/2 || since > 2*window):
		c.leaveSlots(now, limit-others)
	}
}

// leaveSlots limits us to own slots of a window, and leaves the rest to other clients.
func (c *core) leaveSlots(now time.Time, own int) {
	o, limit := &c.Others, c.ours().Requests
	o.Stage, o.Changed, o.Unused, o.Doubled = sharing, now, limit, 0
	o.Own = min(limit, max(1, own))
	c.Refusals = refusals{} // other clients explain the refusals
}

// adaptShare takes one slot less when the service refuses, and more when it has had some left for a
// while. That time varies, so that two limiters do not both take the same slot, and doubles with every
// refusal. A bucket that two clients share empties slowly, so there it is enough to take one less when it
// is nearly empty.
func (c *core) adaptShare(now, sent time.Time, r reading) {
	o, q := &c.Others, c.ours()
	if left, ok := c.unused(sent, r); ok {
		o.Unused = min(o.Unused, left)
	}
	since := now.Sub(o.Changed)
	switch {
	case r.refused:
		if o.Own == 1 { // other clients fill the window, and would fill the next
			c.block(now, max(r.reset, 0)+q.Window*3/2)
		}
		o.Own, o.Doubled = max(1, o.Own-1), min(o.Doubled+1, mostDoubled)
	case c.Belief.isBucket() && r.remaining < 2 && since > q.Window:
		o.Own = max(1, o.Own-1)
	case since > patience(o.Changed)<<o.Doubled:
		o.takeMore(q.Requests)
	default:
		return
	}
	o.Changed, o.Unused = now, q.Requests
	if o.Own >= q.Requests {
		o.Stage = spaced
	}
}

// takeMore takes slots that were left unused. A client with half of the limit leaves a
// fifth of it to clients that have less.
func (o *otherClients) takeMore(limit int) {
	if o.Unused >= limit {
		return // no answer has shown what is left
	}
	spare := 0
	if o.Own >= limit/2 {
		spare = limit / 5
	}
	if o.Unused > spare {
		o.Own += max(1, o.Unused/4)
	}
	if o.Unused > limit/2 {
		o.Doubled = 0 // the other clients have gone
	}
}

// unused estimates how many requests of the window no client will use. In a fixed window only our last
// request shows it, and the later use of other clients is extrapolated.
func (c *core) unused(sent time.Time, r reading) (n int, ok bool) {
	if r.remaining < 0 || c.Belief.isBucket() {
		return r.remaining - 2, r.remaining >= 0
	}
	if !c.Belief.isFixed(sent) {
		return r.remaining, true
	}
	coming := float64(c.Log.others()) * float64(r.reset) / float64(c.believed().Window)
	return r.remaining - int(coming+0.6), r.reset < c.rule().gap
}

// patience returns a duration of ten to thirty minutes, pseudo-random in at.
func patience(at time.Time) time.Duration {
	return 10*time.Minute + time.Duration(uint64(at.UnixNano())*0x9e3779b97f4a7c15%uint64(20*time.Minute))
}
