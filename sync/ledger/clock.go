package ledger

import (
	"sync"
	"time"

	"outlierd/sync/store"
)

// Clock estimates the service's time, which decides when days and billing cycles begin and windows
// end.
//
// It starts with the local clock and then measures time itself, so that setting the local clock
// does not give a fresh budget. The dates of the service's answers correct it: a date within
// [Skew] of the estimate at once, a date farther away, ahead or behind, only if the next one
// agrees. So a single wrong date, for example from one of several servers, changes nothing. A
// wrong date that comes twice is accepted, and so is the right one after it; package engine buys nothing in
// a period that such a date alone opens. What was booked in the future counts as now (see [Ledger.periodKey]),
// and counts in its own period when that comes.
//
// The clock is agreed on once the date of an answer was accepted, or a person has confirmed the
// local clock. It no longer is if the local clock jumps or the machine has slept, because the time
// measured by this process may then be wrong.
type Clock struct {
	mu     sync.Mutex // guards what follows
	date   time.Time  // the time at the instant at
	at     time.Time  // when date was set, with the monotonic reading
	wall   time.Time  // the same instant without it
	agreed bool

	doubted   time.Time // a date far from the estimate
	doubtedAt time.Time // when it came
}

// Skew is the largest difference at which two clocks count as equal. A date farther in the future
// than this comes from a wrong clock.
const Skew = 10 * time.Minute

func isNear(a, b time.Time) bool { return a.Sub(b).Abs() <= Skew }

func (c *Clock) now() time.Time {
	if c.at.IsZero() {
		return time.Now()
	}
	return c.date.Add(time.Since(c.at))
}

func (c *Clock) set(date time.Time, agreed bool) {
	now := time.Now()
	c.date, c.at, c.wall, c.agreed = date, now, now.Round(0), agreed
	c.doubted, c.doubtedAt = time.Time{}, time.Time{}
}

// learnDate updates the time from the date of an answer.
func (c *Clock) learnDate(date time.Time) {
	if date.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	again := !c.doubted.IsZero() && isNear(date, c.doubted.Add(time.Since(c.doubtedAt)))
	if !again && !isNear(date, c.now()) {
		c.doubted, c.doubtedAt = date, time.Now()
		return
	}
	c.set(date, true)
}

// isSteady reports whether the local clock agrees with the time that has passed in this process.
func (c *Clock) isSteady() bool {
	now := time.Now()
	return isNear(now.Round(0), c.wall.Add(now.Sub(c.at)))
}

// Now returns the service's time, as far as known.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// Agreed reports whether the service's time is confirmed, and not only assumed.
func (c *Clock) Agreed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agreed && c.isSteady()
}

// CertainTime returns the time by which the age of records is measured: a wrong local clock does not age them.
// If no time was agreed on with the service, it is the time of the last purchase, for which one was. Known is
// false if there was none.
func (l *Ledger) CertainTime() (at time.Time, known bool, err error) {
	at = earlierOf(time.Now(), l.clock.Now())
	if l.clock.Agreed() {
		return at, true, nil
	}
	last, err := l.LastPurchase()
	return earlierOf(at, last), !last.IsZero(), err
}

func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Newest returns the latest time that spending counts for; the zero time if nothing was spent.
func (l *Ledger) Newest() (time.Time, error) { return newestCounted(l.db) }

// newestCounted is [Ledger.Newest]. Credits bought in addition are excluded: if the clock was ahead when they were
// booked, they must not count now and again when their date comes.
func newestCounted(in store.Reader) (time.Time, error) {
	return store.ValueTime(in, `SELECT max(
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE price > 0),
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE adjustment IS NOT NULL AND adjustment > 0))`)
}

// Confirm sets the service's time to the local clock, as a person has confirmed it.
func (c *Clock) Confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(time.Now(), true)
}
