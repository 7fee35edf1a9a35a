// Package pace decides when the next request may be sent, so that the whole quota of the key is used and the service
// refuses nothing.
//
// The service documents neither how many requests it allows nor in which kind of window (interface, Rate limits). Three
// parts decide:
//
//   - The window (core.go): at most n requests in any period of length w, which satisfies windows aligned to the
//     clock, windows from the first hit, sliding windows and token buckets. Requests are not spread: after a pause the
//     whole window may be used at once. A request holds a slot from the moment it is granted until one window after it
//     was sent, plus a margin for unequal latencies.
//   - What answers state (reading.go, header.go, stated.go): n, w, when to continue, and whether the service has
//     counted requests of other clients.
//   - An even pace (pacing.go), a [rate.Limiter] of one request each, in addition to the window. It begins with a refusal,
//     whatever its reason, or when other clients keep using the key, and adapts until refusals are rare.
//
// The state is written to a file before a request may be sent (file.go). docs/design/pace.md explains what is learned,
// and testdata/limiters.md has the measurements.
package pace

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"outlierd/outlier"
)

const (
	usualWait = 10 * time.Minute // the default of [Options.MaxWait]
	recheck   = 30 * time.Second // limits one sleep: the timer stops while the machine sleeps
)

// Options configure a limiter.
type Options struct {
	Path  string  // the file that keeps the window; "" keeps it in memory
	Owner string  // the key, for example its fingerprint; the file of another owner is not read
	Share float64 // our part of the key's quota, above 0 and up to 1; 0 means all of it

	// MaxWait is the longest time a call may wait. A call that would have to wait longer fails at once with a
	// [LongWaitError]. 0 means ten minutes, or one window if that is longer.
	MaxWait time.Duration
}

// Limiter delays requests so that a quota is kept. It implements [outlier.Pacer], and may be used by any number of
// goroutines at once.
type Limiter struct {
	options Options

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a slot may have become free
	core    core
}

// Status is what a limiter knows at one moment.
type Status struct {
	Limit        int           // requests per Window that are ours
	Window       time.Duration // how long a slot stays taken after its request was sent
	Remaining    int           // requests that may be sent now, apart from BlockedUntil
	Reset        time.Time     // when the next request may be sent; the time of the Status if at once
	BlockedUntil time.Time     // when the block of a refusal ends; zero if there is none
	Foreign      int           // requests of other clients noticed in the window
	Learned      bool          // the believed pace differs from the configured one
}

// Pace returns the believed pace for people: as configured, or as a learned rate.
func (s Status) Pace() string {
	q := Quota{s.Limit, s.Window}
	if !s.Learned {
		return q.String()
	}
	return q.withoutBurst() + ", learned"
}

// LongWaitError is the error of a call that would have to wait longer than [Options.MaxWait]. The call has taken no
// slot.
type LongWaitError struct {
	Until time.Time // when it could be sent, as far as is known now
}

// Error returns the time until which the call would have to wait.
func (e *LongWaitError) Error() string {
	return "the rate limit allows no request before " + e.Until.UTC().Format("2006-01-02 15:04 UTC")
}

// Open returns a limiter that continues the window in the file of o. Without a file the whole window may be used at
// once.
func Open(q Quota, o Options) (*Limiter, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if o.Share < 0 || o.Share > 1 {
		return nil, fmt.Errorf("share must be in (0, 1], got %v", o.Share)
	}
	l := &Limiter{options: o, changed: make(chan struct{}), core: newCore(q, o.Share)}
	return l, l.loadFile(wallClock())
}

// wallClock returns the time without its monotonic reading, which stops while the machine sleeps.
func wallClock() time.Time { return time.Now().Round(0) }

// lockUpdated locks l, brings its state up to date, and returns the time.
func (l *Limiter) lockUpdated() time.Time {
	l.mu.Lock()
	now := wallClock()
	l.core.dropExpired(now)
	return now
}

// Wait implements [outlier.Pacer]. Scan polls take at most a twentieth of the quota. Calls that wait at the same time
// are sent in any order. Its error is the context's cause, a [LongWaitError], or that the file cannot be written.
func (l *Limiter) Wait(ctx context.Context, r *outlier.Request) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		pause, changed, err := l.claimSlot(r.Op())
		if err != nil || pause == 0 {
			return err
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(min(pause, recheck)):
		}
	}
}

// claimSlot takes a slot, or returns how long to wait for one, or until changed is closed.
func (l *Limiter) claimSlot(op outlier.Operation) (pause time.Duration, changed <-chan struct{}, err error) {
	now := l.lockUpdated()
	defer l.mu.Unlock()
	if at, err := l.slotFor(now, op); err != nil || at.After(now) {
		return at.Sub(now), l.changed, err
	}
	c := &l.core
	if op == outlier.OpScan {
		c.LastPoll = now // before saving, or a restart would let another poll through
	}
	c.recordGrant(now)
	if c.prepaid--; c.prepaid < 0 {
		c.prepaid = c.quota.grantsPerWrite() - 1
		if err := l.saveFile(); err != nil {
			c.inFlight, c.prepaid = c.inFlight-1, 0
			return 0, nil, err
		}
	}
	return 0, nil, nil
}

// slotFor returns when a call of op may be sent, and a [LongWaitError] if that is too late.
func (l *Limiter) slotFor(now time.Time, op outlier.Operation) (at time.Time, err error) {
	at = l.core.nextSlot(now, 1)
	if op == outlier.OpScan {
		at = latest(at, l.core.ourQuota().nextPoll(l.core.LastPoll))
	}
	longest := l.options.MaxWait
	if longest == 0 {
		longest = max(usualWait, l.core.maxSpan())
	}
	if at.Sub(now) > longest {
		err = &LongWaitError{Until: at}
	}
	return at, err
}

// Slot returns when a call of op could be sent. A time not after now means at once. It reserves nothing. Its error is
// the [LongWaitError] that Wait would return.
func (l *Limiter) Slot(op outlier.Operation) (time.Time, error) {
	now := l.lockUpdated()
	defer l.mu.Unlock()
	return l.slotFor(now, op)
}

// Poll returns when the next scan poll may be sent, considering only the polls' share of the quota. A caller that waits
// until then before it requests a poll does not delay other calls.
func (l *Limiter) Poll() time.Time {
	l.lockUpdated()
	defer l.mu.Unlock()
	return l.core.ourQuota().nextPoll(l.core.LastPoll)
}

// Unsent implements [outlier.Pacer].
func (l *Limiter) Unsent(*outlier.Request) {
	l.lockUpdated()
	defer l.mu.Unlock()
	l.core.inFlight--
	l.wakeWaiting()
}

// Observe implements [outlier.Pacer].
func (l *Limiter) Observe(a *outlier.Answer) {
	now := l.lockUpdated()
	defer l.mu.Unlock()
	sent, blocked := now, l.core.Blocked
	if !a.SentAt.IsZero() {
		sent = earliest(now, a.SentAt.Round(0))
	}
	l.core.learnFrom(now, sent, readAnswer(a, now, l.core.quota.Window))
	if !l.core.Blocked.Equal(blocked) {
		// If this fails, nothing is prepaid any more, so the next request must save as well, and reports the error.
		l.core.prepaid = 0
		_ = l.saveFile()
	}
	l.wakeWaiting()
}

// wakeWaiting lets all waiting calls check again whether they may be sent.
func (l *Limiter) wakeWaiting() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Own sets the owner of the window after a change of the key. The limiter starts again as with the file of another
// owner, if the owner has changed. Requests in flight keep their slots until they complete, because they may be sent
// with the new key. Nothing is learned from answers to requests of the old key.
func (l *Limiter) Own(owner string) {
	now := l.lockUpdated()
	defer l.mu.Unlock()
	if owner == l.options.Owner {
		return
	}
	l.options.Owner = owner
	c := newCore(l.core.quota, l.core.share)
	c.inFlight, c.ownedSince = l.core.inFlight, now
	l.core = c
	// If this fails, the file still belongs to the last owner. The next request must save as well, and reports the error.
	_ = l.saveFile()
	l.wakeWaiting()
}

// Status returns the present state of the limiter.
func (l *Limiter) Status() Status {
	now, c := l.lockUpdated(), &l.core
	defer l.mu.Unlock()
	q, r, configured := c.ourQuota(), c.ourQuota().asRule(), c.quota.shareOf(c.share)
	free := r.n - c.Log.countSince(now.Add(-r.span)) - c.inFlight
	if c.Pacing.Every > 0 {
		free = min(free, int(c.even.TokensAt(now)))
		q.Window = max(q.Window, c.Pacing.Every*time.Duration(q.Requests))
	}
	s := Status{
		Limit: q.Requests, Window: q.Window, Remaining: max(0, free), Reset: c.nextSlot(now, 1),
		Foreign: c.Pacing.othersSeen(now, r.span), Learned: q != configured && q.withoutBurst() != configured.withoutBurst(),
	}
	if c.Blocked.After(now) {
		s.BlockedUntil = c.Blocked
	}
	return s
}

// ETA returns how long it takes until the given number of calls are sent, at the present pace and with the present
// window.
func (l *Limiter) ETA(calls int) time.Duration {
	if calls <= 0 {
		return 0
	}
	now := l.lockUpdated()
	defer l.mu.Unlock()
	return l.core.nextSlot(now, calls).Sub(now)
}

// A requestLog has the times at which the requests of the last windows were sent, oldest first.
type requestLog []time.Time

// add inserts n requests in the order of time: one that was sent later may be answered earlier.
func (g *requestLog) add(t time.Time, n int) {
	i := len(*g)
	for i > 0 && (*g)[i-1].After(t) {
		i--
	}
	*g = slices.Insert(*g, i, slices.Repeat([]time.Time{t}, n)...)
}

// dropBefore drops the requests that are not after since, and changes times after now to now, in case the clock was set
// back.
func (g *requestLog) dropBefore(since, now time.Time) {
	*g = (*g)[len(*g)-g.countSince(since):]
	for i := len(*g) - 1; i >= 0 && (*g)[i].After(now); i-- {
		(*g)[i] = now
	}
}

// nthNewest returns when the nth-newest request was sent; false if there are fewer than n.
func (g requestLog) nthNewest(n int) (time.Time, bool) {
	if n > len(g) {
		return time.Time{}, false
	}
	return g[len(g)-n], true
}

// countSince counts the requests after t.
func (g requestLog) countSince(t time.Time) int {
	return len(g) - sort.Search(len(g), func(i int) bool { return g[i].After(t) })
}
