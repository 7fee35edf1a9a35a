package pace

import (
	"cmp"
	"slices"
	"time"
)

const (
	// proofs is the number of answers that must have counted our requests before the limiter believes a
	// limit above the configured one.
	proofs = 3
	// learnedLasts is how long something learned is used if nothing confirms it.
	learnedLasts = 7 * 24 * time.Hour
)

// A belief is what the service's answers have shown about its limit. Tags preserve the field names in
// files of older versions.
type belief struct {
	Learned       Quota     `json:"Taught"` // replaces the configured one; zero if nothing was learned
	WindowGuessed bool      `json:"Guess"`  // of Learned: the answers gave only the limit
	At            time.Time // when Learned was set
	Limit         int       // of the last answer
	Used          int       // of Limit, at the last answer
	Sent          time.Time // when that answer's request was sent
	Proofs        int       `json:"Proof"` // how often Used rose, up to proofs
	Distrust      time.Time // until then, no limit above the configured one is believed

	// Resets: the two longest times until a reset, the last reset stated, when the first request whose
	// answer stated it was sent, and the shortest time from one reset to the next.
	FarResets  [2]time.Duration `json:"Far"`
	Reset      time.Time        `json:"Turn"`
	ResetSince time.Time        `json:"Seen"`
	Period     time.Duration    `json:"Jump"`

	// FreshStarts is how often little was used after a reset, minus how often much was.
	// BucketFits is how well the times to the reset fit a bucket, 0 to 20.
	FreshStarts int `json:"Fresh"`
	BucketFits  int `json:"Refills"`

	// GainTime has bounds of the time in which a bucket gains one request. GainUsed has the lowest and
	// the highest number of used requests in the answers that gave these bounds.
	GainTime [2]time.Duration `json:"Gain"`
	GainUsed [2]int           `json:"Depth"`
}

func (b *belief) forget(now time.Time) {
	if now.Sub(b.At) > learnedLasts {
		b.Learned = Quota{}
	}
}

func (b *belief) notAfter(now time.Time) {
	b.At, b.Sent = earliest(b.At, now), earliest(b.Sent, now)
	b.Distrust = earliest(b.Distrust, now.Add(learnedLasts))
}

// isBucket reports whether the service's quota recovers one request at a time. Only then is the time to
// the reset proportional to the number of used requests.
func (b *belief) isBucket() bool { return b.BucketFits >= 4 }

// study learns what an answer says about the limit.
func (c *core) study(now, sent time.Time, r reading) {
	b := &c.Belief
	if r.limit > c.quota.Requests && now.Before(b.Distrust) {
		return
	}
	if r.limit != b.Limit {
		*b = belief{Learned: b.Learned, At: b.At, Distrust: b.Distrust, Limit: r.limit, Used: r.limit}
	}
	if r.remaining >= 0 {
		c.count(now, sent, r)
	}
	if !r.refused || r.window > 0 || r.limit != b.Learned.Requests {
		c.adopt(now, r) // otherwise a refusal would drop the window that other answers gave
	}
	if r.remaining >= 0 {
		c.compare(now, sent, r)
		b.Used, b.Sent = r.limit-r.remaining, sent
	}
}

// count gathers evidence from the number of used requests and the time to the reset.
func (c *core) count(now, sent time.Time, r reading) {
	b, used := &c.Belief, r.limit-r.remaining
	if used > b.Used {
		b.Proofs = min(b.Proofs+1, proofs)
	}
	if r.reset < 0 {
		return
	}
	if r.reset > b.FarResets[0] {
		b.FarResets = [2]time.Duration{r.reset, b.FarResets[0]}
	} else if r.reset > b.FarResets[1] {
		b.FarResets[1] = r.reset
	}
	b.noteGain(used, r.reset)
	b.noteReset(now.Add(r.reset), sent, used, r.reset > c.keyQuota().Window*3/4)
	q := c.keyQuota()
	switch off := r.reset - scaled(q.Window, float64(used), float64(q.Requests)); {
	case off > rounding || off < -q.spacing()-rounding*3/2:
		b.BucketFits = max(b.BucketFits-3, 0)
	case used <= q.Requests*4/5: // at a full window every kind of limit fits
		b.BucketFits = min(b.BucketFits+1, 20)
	}
}

// noteGain narrows the time in which a bucket gains one request, assuming that its reset is when it is
// full again. Answers about a window soon contradict each other: right after it began, few requests are
// used and the reset is far away. A near reset is mostly rounding and is ignored.
func (b *belief) noteGain(used int, reset time.Duration) {
	if used < 1 || reset < 5*rounding {
		return
	}
	b.GainUsed = [2]int{min(cmp.Or(b.GainUsed[0], used), used), max(b.GainUsed[1], used)}
	b.GainTime[0] = max(b.GainTime[0], (reset-rounding)/time.Duration(used))
	if used > 1 {
		most := (reset + rounding*3/2) / time.Duration(used-1)
		b.GainTime[1] = min(cmp.Or(b.GainTime[1], most), most)
	}
}

// refillTime returns the time in which an empty bucket of the given size fills, and whether the
// service has a bucket. The window that the service states may describe only the burst, and is not
// used. The configured pace counts within the bounds that the answers allow.
func (b *belief) refillTime(limit int, configured Quota) (time.Duration, bool) {
	least, most := b.GainTime[0], b.GainTime[1]
	if b.GainUsed[1] < max(5, 2*b.GainUsed[0]) || most < least || most > least*3/2 {
		return 0, false
	}
	w := time.Duration(limit) * min(max(configured.spacing(), least), most)
	return w, w <= farthest
}

// rounding is the maximum error of a time in whole seconds from a clock that was read in whole seconds.
// The time is never too short.
const rounding = 2 * time.Second

// noteReset records the time of a reset. If many requests were used before the last one, an answer soon
// after it shows whether the count started afresh.
func (b *belief) noteReset(at, sent time.Time, used int, soon bool) {
	if at.Sub(b.Reset).Abs() <= rounding {
		return
	}
	if jump := at.Sub(b.Reset); jump > 0 && !b.Reset.IsZero() && (b.Period == 0 || jump < b.Period) {
		b.Period = jump
	}
	switch known := !b.Reset.IsZero() && b.Used > b.Limit/2; {
	case known && used <= b.Used/2:
		b.FreshStarts = min(b.FreshStarts+1, 3)
	case known && soon && used > b.Used*2/3:
		b.FreshStarts = max(b.FreshStarts-1, -3)
	}
	b.Reset, b.ResetSince = at, sent
}

// isFixed reports whether the service has fixed windows: the reset stays where it is while
// time passes, and the count starts afresh after it.
func (b *belief) isFixed(sent time.Time) bool {
	return b.FreshStarts > 0 && sent.Sub(b.ResetSince) > 2*rounding
}

// isEstimate reports whether the service has fixed windows but continues to count requests from before
// the reset: it estimates the count of a sliding window.
func (b *belief) isEstimate(window time.Duration) bool {
	return b.FreshStarts < -1 && b.Period > window*9/10
}

// adopt believes a limit: a lower one at once, one above the configured quota once the answers have
// proved that they count our requests.
func (c *core) adopt(now time.Time, r reading) {
	q, guess := Quota{r.limit, r.window}, false
	if w, ok := c.Belief.refillTime(r.limit, c.quota); ok {
		q.Window = w
	} else if q.Window == 0 {
		q.Window, guess = c.guessWindow(r.limit)
	}
	if exceeds(q, c.quota) && (c.Belief.Proofs < proofs || now.Before(c.Belief.Distrust)) {
		return
	}
	if exceeds(c.keyQuota(), q) { // the lower limit explains refusals and unexpected counts
		c.Refusals, c.Others = refusals{}, otherClients{}
		c.Log.dropOthers(now, c.Log.others())
	}
	if q == c.quota {
		q = Quota{}
	}
	c.Belief.Learned, c.Belief.WindowGuessed, c.Belief.At = q, guess, now
}

// exceeds reports whether a allows a larger burst or a faster pace than b.
func exceeds(a, b Quota) bool {
	return a.Requests > b.Requests ||
		float64(a.Requests)*float64(b.Window) > 1.001*float64(b.Requests)*float64(a.Window)
}

// guessWindow returns the window of a limit that the service states without one, and whether it is a
// guess. A limit below the configured one is assumed to have the same pace and a smaller burst, unless
// times to a reset show that the window is longer. A time is used once it was seen twice. It may be
// shorter than the window, but then the reset moved by at least the window.
func (c *core) guessWindow(limit int) (w time.Duration, guess bool) {
	b := &c.Belief
	w = c.quota.Window
	if limit < c.quota.Requests {
		w = scaled(w, float64(limit), float64(c.quota.Requests))
	}
	far := b.FarResets[1]
	switch {
	case b.Proofs < proofs || far <= w+rounding+rounding/2:
		return w, limit < c.quota.Requests
	case b.Period >= far-rounding:
		return commonWindow(b.Period), false
	}
	return commonWindow(far), false
}

// commonWindows has the lengths that services usually have, in order.
var commonWindows = []time.Duration{
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second,
	1 * time.Minute, 90 * time.Second, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// commonWindow returns the common length for the longest time to a reset that was seen: the shortest
// length that is not shorter and at most a tenth longer; without one, seen itself.
func commonWindow(seen time.Duration) time.Duration {
	i, _ := slices.BinarySearch(commonWindows, seen-rounding)
	if i < len(commonWindows) && commonWindows[i] <= seen+seen/10 {
		return commonWindows[i]
	}
	return seen
}
