package pace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"outlierd/outlier"
)

// usualWait is the default of [Options.MaxWait].
const usualWait = 10 * time.Minute

// recheck limits one sleep: the timer stops while the machine sleeps.
const recheck = 30 * time.Second

// Options configure a limiter.
type Options struct {
	Path string // the file that keeps the window; "" keeps it in memory

	// Owner identifies the key, for example by its fingerprint. The file of another owner is not
	// read.
	Owner string

	// Share is our part of the key's quota, above 0 and up to 1. The rest is left to other clients on the
	// key. 0 means all of it.
	Share float64

	// MaxWait is the longest time a call may wait. A call that would have to wait longer fails at once
	// with a [LongWaitError]. 0 means ten minutes, or one window if that is longer: a client that has
	// used an hour's quota waits for that hour.
	MaxWait time.Duration
}

// Limiter delays requests so that a quota is kept. It implements [outlier.Pacer], and may be used
// by any number of goroutines at once.
type Limiter struct {
	options Options

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a slot may have become free
	waiting queue
	asked   time.Time // see [Limiter.Asked]
	core    core
}

var _ outlier.Pacer = (*Limiter)(nil)

// Status is what a limiter knows at one moment.
type Status struct {
	Limit        int           // requests per Window that are ours
	Window       time.Duration // how long a slot stays taken after its request was sent
	Remaining    int           // requests that may be sent now, apart from BlockedUntil and even spacing
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
	return q.rate() + ", learned"
}

// LongWaitError is the error of a call that would have to wait longer than [Options.MaxWait]. The
// call has taken no slot.
type LongWaitError struct {
	Until time.Time // when it could be sent, as far as is known now
}

// Error returns the time until which the call would have to wait.
func (e *LongWaitError) Error() string {
	return "the rate limit allows no request before " + e.Until.UTC().Format("2006-01-02 15:04 UTC")
}

// Open returns a limiter that continues the window in the file of o. Without a file the whole window may
// be used at once.
func Open(q Quota, o Options) (*Limiter, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if o.Share < 0 || o.Share > 1 {
		return nil, fmt.Errorf("share must be in (0, 1], got %v", o.Share)
	}
	l := &Limiter{options: o, changed: make(chan struct{}), core: core{quota: q, share: o.Share}}
	return l, l.load(wallClock())
}

// wallClock returns the time without its monotonic reading, which stops while the machine sleeps and has
// no meaning in a file.
func wallClock() time.Time { return time.Now().Round(0) }

// Wait implements [outlier.Pacer]. Waiting calls are sent in the order of their class: those of a person
// ([Urgent]), paid ones, scan polls, all others; within a class in the order in which they came. Scan
// polls, including a person's, take at most a twentieth of the quota.
//
// It returns the context's cause, a [LongWaitError], or an error if the file cannot be written, in which
// case no request may be sent.
func (l *Limiter) Wait(ctx context.Context, r *outlier.Request) error {
	w := &waiter{classOf(ctx, r.Op(), r.Paid())}
	l.join(w)
	defer l.leave(w)
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		pause, changed, err := l.claim(wallClock(), w)
		if err != nil || pause == 0 {
			return err
		}
		timer := time.NewTimer(min(pause, recheck))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (l *Limiter) join(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.join(w)
}

// leave removes w from the queue, whether or not it was granted, and wakes the waiters.
func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.leave(w)
	l.wake()
}

// claim takes a slot, or returns how long to wait for one, or until changed is closed.
func (l *Limiter) claim(now time.Time, w *waiter) (
	pause time.Duration, changed <-chan struct{}, err error,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Now()
	l.core.notAfter(now)
	l.core.forget(now)
	if turn := l.waiting.turn(&l.core, now, w); turn.After(now) {
		return turn.Sub(now), l.changed, l.tooLong(now, turn)
	}
	if w.class == polls {
		l.core.LastPoll = now // before saving, or a restart would let another poll through
	}
	l.core.countTime(now)
	if l.core.prepaid == 0 {
		l.core.prepaid, l.core.Last = l.core.advance(), now
		if err := l.save(); err != nil {
			l.core.prepaid = 0
			return 0, nil, err
		}
	}
	l.core.grant(now)
	l.waiting.leave(w) // at once: its slot must not be counted twice
	return 0, nil, nil
}

// Asked returns when a waiting call last checked whether it may be sent, which it does twice a minute;
// zero if there was none.
func (l *Limiter) Asked() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// tooLong returns the error of a call that would have to wait until the given time, if that is
// longer than a call may wait.
func (l *Limiter) tooLong(now, until time.Time) error {
	most := l.options.MaxWait
	if most == 0 {
		most = max(usualWait, l.core.longestSpan())
	}
	if until.Sub(now) > most {
		return &LongWaitError{Until: until}
	}
	return nil
}

// Slot returns when a call of op could be sent if it were requested now with ctx, after all waiting calls
// that precede it. A time not after now means at once. It reserves nothing. Its error is the
// [LongWaitError] that Wait would return.
func (l *Limiter) Slot(ctx context.Context, op outlier.Operation) (time.Time, error) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.notAfter(now)
	l.core.forget(now)
	w := &waiter{classOf(ctx, op, op.Price() > 0)}
	waiting := slices.Clone(l.waiting)
	waiting.join(w)
	turn := waiting.turn(&l.core, now, w)
	return turn, l.tooLong(now, turn)
}

// Unsent implements [outlier.Pacer].
func (l *Limiter) Unsent(*outlier.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.unsent()
	l.wake()
}

// Observe implements [outlier.Pacer].
func (l *Limiter) Observe(a *outlier.Answer) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.notAfter(now)
	blocked := l.core.Blocked
	sent := now
	if t := a.SentAt.Round(0); !a.SentAt.IsZero() && t.Before(now) {
		sent = t
	}
	l.core.observe(now, sent, read(a, now, l.core.quota.Window))
	if !l.core.Blocked.Equal(blocked) {
		// If this fails, nothing is prepaid any more, so the next request must save as well, and reports
		// the error.
		l.core.prepaid = 0
		_ = l.save()
	}
	l.wake()
}

func (l *Limiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Status returns the present state of the limiter.
func (l *Limiter) Status() Status {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.notAfter(now)
	l.core.forget(now)
	q, r := l.core.ours(), l.core.rule()
	believed, configured := l.core.believed(), l.core.quota
	s := Status{
		Limit: q.Requests, Window: q.Window, Reset: l.core.slot(now, 1),
		Foreign: l.core.Log.others(),
		Learned: believed != configured && believed.rate() != configured.rate(),
	}
	s.Remaining = max(0, r.n-l.core.Log.since(now.Add(-r.span), r.others)-l.core.inFlight)
	if l.core.Blocked.After(now) {
		s.BlockedUntil = l.core.Blocked
	}
	return s
}

// ETA returns how long it takes until the given number of calls of the last class are sent, including
// those that already wait. It assumes the learned pace and the present window, and counts the more urgent
// calls that wait.
func (l *Limiter) ETA(calls int) time.Duration {
	if calls <= 0 {
		return 0
	}
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.notAfter(now)
	l.core.forget(now)
	return l.core.slot(now, l.waiting.ahead()+calls).Sub(now)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
