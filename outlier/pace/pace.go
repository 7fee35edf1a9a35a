// Package pace decides when the next request may leave.
//
// # The window
//
// The service allows so many requests per window and shows neither the number
// nor the kind of window (interface, Rate limits). The limiter believes a
// configured [Quota] and remembers when each of its requests completed. A slot is
// taken from the moment a request is let go until one window after its completion.
// As a request reaches the service before it completes, and the request that
// takes over its slot leaves a full window later, no stretch of one window ever
// holds more requests than the quota at the service, wherever its windows begin:
// fixed windows, sliding windows and token buckets are all content. Nothing is
// spread: after a pause the whole window may be used at once.
//
// # Restarts
//
// A window outlives the process. The log is written to a file before a request may
// leave, so that a process that was killed and started again knows what went out.
// One file per request is right for 10 a minute and absurd for 100,000: a save
// therefore pays for a hundredth of the quota in advance, and the requests that it
// covers need no save of their own. Of these a kill wastes at most that hundredth, for
// one window. The log itself is coarse to a thousandth of the window.
//
// # Refusals
//
// A 429 says that the belief is wrong or that others use the key. Nothing leaves
// until the later of its Retry-After and its resetTime, where they can be
// believed, else for the time that one request is worth, doubling with every further
// refusal to 5 minutes. For an hour the limiter then spaces requests evenly, which
// suits every kind of limit, and keeps to the limit of the body if that is lower.
// It never goes above what is configured. The hour bounds what a mistake can cost.
//
// Tokens and smoothing (golang.org/x/time/rate) are not used: a bucket that fills
// evenly lets up to twice the quota into one window of the service, and cannot be
// told what happened before it was made.
package pace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"outlierd/outlier"
)

const (
	guard   = 50 * time.Millisecond // between a slot's end and its next use, for clocks that tick apart
	recheck = 30 * time.Second      // how long one sleep may be: a machine may sleep through it
)

// Options say what a limiter remembers, and where.
type Options struct {
	Path  string // the file that remembers the window; "" keeps it in memory
	Owner string // whose window it is, such as a key's fingerprint; the file of another owner is not believed
}

// Limiter lets requests leave so that a quota is kept. It implements
// [outlier.Pacer] and serves any number of goroutines.
type Limiter struct {
	quota   Quota
	options Options

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a slot may have become free
	log     log
	out     int       // let go and not completed
	prepaid int       // how many more the file already counts as out
	last    time.Time // when the last request was let go
	blocked time.Time // nothing leaves before
	streak  int       // refusals without an answer between them
	lesson  lesson
	foreign int // requests of others in the window, by the last refusal
}

var _ outlier.Pacer = (*Limiter)(nil)

// Status is what a limiter believes at one moment.
type Status struct {
	Limit        int           // requests per Window
	Window       time.Duration // how long a slot stays taken after its request has completed
	Remaining    int           // requests that may leave now, but for BlockedUntil and even spacing
	Reset        time.Time     // when the next request may leave; the moment asked about if at once
	BlockedUntil time.Time     // until when a refusal forbids every request; zero if none does
	Foreign      int           // requests of others in the window, by the last refusal that told
}

// Open makes a limiter that begins with the window that the file of o remembers.
// A fresh one may be used at once.
func Open(q Quota, o Options) (*Limiter, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	l := &Limiter{quota: q, options: o, changed: make(chan struct{})}
	return l, l.load(wallClock())
}

// wallClock is the time without its monotonic reading, which stands still while the
// machine sleeps and means nothing in a file.
func wallClock() time.Time { return time.Now().Round(0) }

// Wait implements [outlier.Pacer]. Its error is the context's cause, or that the
// window cannot be remembered, without which nothing leaves.
func (l *Limiter) Wait(ctx context.Context, _ *outlier.Request) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		pause, changed, err := l.claim(wallClock())
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

// claim takes a slot, or says for how long there is none unless changed is closed.
func (l *Limiter) claim(now time.Time) (pause time.Duration, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notAfter(now)
	if free := l.free(now); free.After(now) {
		return free.Sub(now), l.changed, nil
	}
	if l.prepaid == 0 {
		l.prepaid = max(1, l.quota.Requests/100)
		if err := l.save(); err != nil {
			l.prepaid = 0
			return 0, nil, err
		}
	}
	l.prepaid--
	l.out++
	l.last = now
	return 0, nil, nil
}

// free is when the next request may leave, as far as can be known now.
func (l *Limiter) free(now time.Time) time.Time {
	q := l.believed(now)
	l.log.forget(now.Add(-q.Window - guard))
	free := l.blocked
	if l.lesson.holds(now) {
		free = latest(free, l.last.Add(q.spacing()+guard))
	}
	if over := l.log.count + l.out - q.Requests + 1; over > 0 {
		done, ok := l.log.nth(over)
		if !ok {
			return latest(free, now.Add(recheck)) // all are out; one that completes wakes us
		}
		free = latest(free, done.Add(q.Window+guard))
	}
	return latest(free, now)
}

// believed is the quota after what the service taught.
func (l *Limiter) believed(now time.Time) Quota {
	q := l.quota
	if l.lesson.holds(now) && l.lesson.Limit > 0 {
		q.Requests = min(q.Requests, l.lesson.Limit)
	}
	return q
}

// Unsent implements [outlier.Pacer].
func (l *Limiter) Unsent(*outlier.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out--
	l.wake()
}

// Observe implements [outlier.Pacer].
func (l *Limiter) Observe(a *outlier.Answer) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notAfter(now)
	l.out--
	l.log.add(now, 1, l.quota.Window)
	l.learn(a, now)
	l.wake()
}

func (l *Limiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// notAfter keeps every remembered time within what it could be at now, should the
// clock have been set back: that costs one window at most, not the difference.
func (l *Limiter) notAfter(now time.Time) {
	l.log.notAfter(now)
	l.last = earliest(l.last, now)
	l.blocked = earliest(l.blocked, now.Add(l.longestBlock()))
	l.lesson.Until = earliest(l.lesson.Until, now.Add(lessonLasts))
}

// Status tells what is believed now.
func (l *Limiter) Status() Status {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notAfter(now)
	q := l.believed(now)
	s := Status{Limit: q.Requests, Window: q.Window, Reset: l.free(now), Foreign: l.foreign}
	s.Remaining = max(0, q.Requests-l.log.count-l.out)
	if l.blocked.After(now) {
		s.BlockedUntil = l.blocked
	}
	return s
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

// limited reports whether a was refused for its pace, and what was said of it.
func limited(a *outlier.Answer) (*outlier.Rate, bool) {
	e, ok := errors.AsType[*outlier.Error](a.Err)
	if !ok || e.Kind != outlier.Limited {
		return nil, false
	}
	return e.Rate, true
}
