package pace

import (
	"slices"
	"time"
)

const (
	// proofs is how many answers in a row must have counted our requests before more
	// is believed than what is configured.
	proofs = 3
	// lessonLasts is how long something learned holds that nothing repeats.
	lessonLasts = 7 * 24 * time.Hour
)

// A belief is what the service says of its own limit.
type belief struct {
	Taught   Quota     // in place of what is configured; zero if nothing was taught
	At       time.Time // when
	Limit    int       // of the last answer
	Used     int       // of Limit, at the last answer
	Sent     time.Time // when that answer's request was
	Proof    int       // how often Used rose, up to proofs
	Far      [2]time.Duration
	Refills  int       // how well the times to the reset fit a bucket, up to 20
	Distrust time.Time // until when no more is believed than what is configured
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
func (b *belief) isBucket() bool { return b.Refills >= 10 }

// study takes from an answer what it says of the limit.
func (c *core) study(now, sent time.Time, r reading) {
	b := &c.Belief
	if r.limit > c.quota.Requests && now.Before(b.Distrust) {
		return
	}
	if r.limit != b.Limit {
		b.Limit, b.Used, b.Proof, b.Far, b.Refills = r.limit, r.limit, 0, [2]time.Duration{}, 0
	}
	if r.remaining >= 0 {
		c.count(r.limit-r.remaining, r)
	}
	c.adopt(now, r)
	if r.remaining >= 0 {
		c.notice(now, sent, r)
		b.Used, b.Sent = r.limit-r.remaining, sent
	}
}

// count gathers evidence from a number of used requests and the time that they
// are said to be remembered.
func (c *core) count(used int, r reading) {
	b := &c.Belief
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
	q := c.believed()
	if off := r.reset - times(q.Window, float64(used), float64(q.Requests)); off.Abs() <= 2*time.Second {
		b.Refills = min(b.Refills+1, 20)
	} else {
		b.Refills = max(b.Refills-3, 0)
	}
}

// adopt believes a limit: a lower one at once, one that allows more than what is
// configured when the answers have proved that they count what we send.
func (c *core) adopt(now time.Time, r reading) {
	q := Quota{r.limit, r.window}
	if q.Window == 0 {
		q.Window = c.window(r.limit)
	}
	if exceeds(q, c.quota) && c.Belief.Proof < proofs {
		return
	}
	if q == c.quota {
		q = Quota{}
	}
	c.Belief.Taught, c.Belief.At = q, now
}

func exceeds(a, b Quota) bool {
	return a.Requests > b.Requests || float64(a.Requests)*float64(b.Window) > 1.001*float64(b.Requests)*float64(a.Window)
}

// window is that of a limit which comes without one. A limit below the configured
// one is taken for the same pace with a smaller burst, as long as no time to a reset shows
// that the window is longer. A time must have been seen twice to count.
func (c *core) window(limit int) time.Duration {
	b := &c.Belief
	w := c.quota.Window
	switch {
	case b.Taught.Requests == limit:
		w = b.Taught.Window
	case limit < c.quota.Requests:
		w = times(w, float64(limit), float64(c.quota.Requests))
	}
	if far := b.Far[1]; b.Proof == proofs && far > w+w/20+2*time.Second {
		return usual(far)
	}
	return w
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
	i, _ := slices.BinarySearch(windows, seen-2*time.Second)
	if i < len(windows) && windows[i] <= seen+seen/10 {
		return windows[i]
	}
	return seen
}
