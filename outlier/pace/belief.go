package pace

import (
	"cmp"
	"slices"
	"time"
)

const (
	// proofs is how many answers must have counted requests before more is believed
	// than what is configured.
	proofs = 3
	// lessonLasts is how long something learned holds that nothing repeats.
	lessonLasts = 7 * 24 * time.Hour
)

// A belief is what the service says of its own limit.
type belief struct {
	Taught   Quota            // in place of what is configured; zero if nothing was taught
	Guess    bool             // its window: only the limit was told
	At       time.Time        // when
	Limit    int              // of the last answer
	Used     int              // of Limit, at the last answer
	Sent     time.Time        // when that answer's request was
	Proof    int              // how often Used rose, up to proofs
	Far      [2]time.Duration // the longest times to a reset
	Turn     time.Time        // the reset, as last told
	Seen     time.Time        // when the first request was sent whose answer told that reset
	Jump     time.Duration    // the shortest time from one reset to the next
	Fresh    int              // how often little was used after a reset, less how often much was
	Refills  int              // how well the times to the reset fit a bucket, up to 20
	Gain     [2]time.Duration // how long a bucket takes for one more request: at least and at most
	Depth    [2]int           // how much was used at least and at most in the answers that told it
	Distrust time.Time        // until when no more is believed than what is configured
}

func (b *belief) forget(now time.Time) {
	if now.Sub(b.At) > lessonLasts {
		b.Taught = Quota{}
	}
}

func (b *belief) notAfter(now time.Time) {
	b.At, b.Sent = earliest(b.At, now), earliest(b.Sent, now)
	b.Distrust = earliest(b.Distrust, now.Add(lessonLasts))
}

// isBucket reports whether the service's quota grows back bit by bit. Only then
// does the time until all is there again follow from how much is used.
func (b *belief) isBucket() bool { return b.Refills >= 4 }

// study takes from an answer what it says of the limit.
func (c *core) study(now, sent time.Time, r reading) {
	b := &c.Belief
	if r.limit > c.quota.Requests && now.Before(b.Distrust) {
		return
	}
	if r.limit != b.Limit {
		*b = belief{Taught: b.Taught, At: b.At, Distrust: b.Distrust, Limit: r.limit, Used: r.limit}
	}
	if r.remaining >= 0 {
		c.count(now, sent, r)
	}
	if !r.refused || r.window > 0 || r.limit != b.Taught.Requests {
		c.adopt(now, r) // else a refusal would forget the window that other answers told
	}
	if r.remaining >= 0 {
		c.notice(now, sent, r)
		b.Used, b.Sent = r.limit-r.remaining, sent
	}
}

// count gathers evidence from the number of used requests and the time until the
// reset.
func (c *core) count(now, sent time.Time, r reading) {
	b, used := &c.Belief, r.limit-r.remaining
	if used > b.Used {
		b.Proof = min(b.Proof+1, proofs)
	}
	if r.reset < 0 {
		return
	}
	if r.reset > b.Far[0] {
		b.Far = [2]time.Duration{r.reset, b.Far[0]}
	} else if r.reset > b.Far[1] {
		b.Far[1] = r.reset
	}
	b.gain(used, r.reset)
	b.turn(now.Add(r.reset), sent, used, r.reset > c.told().Window*3/4)
	q := c.told()
	switch off := r.reset - times(q.Window, float64(used), float64(q.Requests)); {
	case off > rounding || off < -q.spacing()-rounding*3/2:
		b.Refills = max(b.Refills-3, 0)
	case used <= q.Requests*4/5: // a whole window means nothing where all is used
		b.Refills = min(b.Refills+1, 20)
	}
}

// gain narrows down how long one more request takes, should the reset be when all is
// there again. Of a window no two answers agree on that for long: right after it began,
// little is used and the reset is far. Of a reset that is near the rounding says more.
func (b *belief) gain(used int, reset time.Duration) {
	if used < 1 || reset < 5*rounding {
		return
	}
	b.Depth = [2]int{min(cmp.Or(b.Depth[0], used), used), max(b.Depth[1], used)}
	b.Gain[0] = max(b.Gain[0], (reset-rounding)/time.Duration(used))
	if used > 1 {
		most := (reset + rounding*3/2) / time.Duration(used-1)
		b.Gain[1] = min(cmp.Or(b.Gain[1], most), most)
	}
}

// refill is the time in which a bucket of so many is full again, if the service's is
// one, whatever window it tells: that may go with the burst alone. What is configured
// counts as far as the answers allow.
func (b *belief) refill(limit int, configured Quota) (time.Duration, bool) {
	least, most := b.Gain[0], b.Gain[1]
	if b.Depth[1] < max(5, 2*b.Depth[0]) || most < least || most > least*3/2 {
		return 0, false
	}
	w := time.Duration(limit) * min(max(configured.spacing(), least), most)
	return w, w <= absurd
}

// rounding is by how much a time may be too long that was told in whole seconds, by a
// clock that was read in whole seconds.
const rounding = 2 * time.Second

// turn notes the moment of a reset. Where much was used before the last one, the
// next answer shows whether all was there again, if it came soon.
func (b *belief) turn(at, sent time.Time, used int, soon bool) {
	if at.Sub(b.Turn).Abs() <= rounding {
		return
	}
	if jump := at.Sub(b.Turn); jump > 0 && !b.Turn.IsZero() && (b.Jump == 0 || jump < b.Jump) {
		b.Jump = jump
	}
	switch known := !b.Turn.IsZero() && b.Used > b.Limit/2; {
	case known && used <= b.Used/2:
		b.Fresh = min(b.Fresh+1, 3)
	case known && soon && used > b.Used*2/3:
		b.Fresh = max(b.Fresh-1, -3)
	}
	b.Turn, b.Seen = at, sent
}

// isFixed reports whether the service's windows begin and end: the reset has stayed
// where it was although time went by, and after a reset all is there again.
func (b *belief) isFixed(sent time.Time) bool { return b.Fresh > 0 && sent.Sub(b.Seen) > 2*rounding }

// isEstimate reports whether the service's windows begin and end, but it goes on
// to count what came before: it estimates what a sliding window would hold.
func (b *belief) isEstimate(window time.Duration) bool {
	return b.Fresh < -1 && b.Jump > window*9/10
}

// adopt believes a limit: a lower one at once, one that allows more than what is
// configured when the answers have proved that they count what we send.
func (c *core) adopt(now time.Time, r reading) {
	q, guess := Quota{r.limit, r.window}, false
	if w, ok := c.Belief.refill(r.limit, c.quota); ok {
		q.Window = w
	} else if q.Window == 0 {
		q.Window, guess = c.window(r.limit)
	}
	if exceeds(q, c.quota) && (c.Belief.Proof < proofs || now.Before(c.Belief.Distrust)) {
		return
	}
	if exceeds(c.told(), q) { // this is why there were refusals, or more was used than expected
		c.Lesson, c.Crowd = lesson{}, crowd{}
		c.Log.dropOthers(now, c.Log.others())
	}
	if q == c.quota {
		q = Quota{}
	}
	c.Belief.Taught, c.Belief.Guess, c.Belief.At = q, guess, now
}

func exceeds(a, b Quota) bool {
	return a.Requests > b.Requests || float64(a.Requests)*float64(b.Window) > 1.001*float64(b.Requests)*float64(a.Window)
}

// window is that of a limit which comes without one. A limit below the configured
// one is taken for the same pace with a smaller burst, as long as no time to a reset shows
// that the window is longer. A time must have been seen twice to count. It may be
// less than the window; how far the reset then jumped is at least as long.
func (c *core) window(limit int) (w time.Duration, guess bool) {
	b := &c.Belief
	w = c.quota.Window
	if limit < c.quota.Requests {
		w = times(w, float64(limit), float64(c.quota.Requests))
	}
	far := b.Far[1]
	switch {
	case b.Proof < proofs || far <= w+rounding+rounding/2:
		return w, limit < c.quota.Requests
	case b.Jump >= far-rounding:
		return usual(b.Jump), false
	}
	return usual(far), false
}

// windows are the lengths that services like.
var windows = []time.Duration{
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	1 * time.Minute, 90 * time.Second, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// usual is the usual length of a window of which so much was seen to be left,
// where there is one that is little longer. Times of whole seconds may be two too long.
func usual(seen time.Duration) time.Duration {
	i, _ := slices.BinarySearch(windows, seen-rounding)
	if i < len(windows) && windows[i] <= seen+seen/10 {
		return windows[i]
	}
	return seen
}
