package ledger

import (
	"sync"
	"time"

	"outlierd/sync/store"
)

// clock estimates the service's time, which decides when days and billing cycles begin and windows
// end.
//
// It begins as this machine's clock and from then on counts the time itself, so that
// setting the machine's clock gives no fresh budget. The dates of the service's own answers
// correct it: one that is within [Skew] of what is believed at once, one that lies
// farther off, ahead or behind, if the next one agrees. A single wrong date, as of one
// server of several, changes nothing. A wrong date that comes twice is followed, and
// so is the right one after it; that gives no fresh budget either: what was booked in
// between is then dated in the future, and counts as now (see [Ledger.period]), and
// when its own period comes, it counts there.
//
// The clock is agreed on once an answer has been believed, or a person has confirmed
// this machine's. That lapses when the machine's clock jumps, or has slept, as
// the time that this process counted may then be wrong.
type clock struct {
	mu     sync.Mutex // guards what follows
	date   time.Time  // the time at the instant at
	at     time.Time  // with the monotonic reading
	wall   time.Time  // at the same instant, without it
	agreed bool
	dated  bool // nothing that was written down lies in its future, see [Ledger.DatesCorrected]

	doubted   time.Time // a date far from what was believed
	doubtedAt time.Time // when it came
}

// Skew is how far two clocks may lie apart and still tell the same time. What is dated
// farther in the future than this was dated by a clock that was wrong.
const Skew = 10 * time.Minute

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= Skew }

func (c *clock) now() time.Time {
	if c.at.IsZero() {
		return time.Now()
	}
	return c.date.Add(time.Since(c.at))
}

// set sets the time.
func (c *clock) set(date time.Time, agreed bool) {
	now := time.Now()
	c.dated = c.dated && near(date, c.now()) && c.steady()
	c.date, c.at, c.wall, c.agreed = date, now, now.Round(0), agreed
	c.doubted, c.doubtedAt = time.Time{}, time.Time{}
}

// learn updates the time from the date of an answer.
func (l *Ledger) learn(date time.Time) {
	if date.IsZero() {
		return
	}
	c := &l.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	again := !c.doubted.IsZero() && near(date, c.doubted.Add(time.Since(c.doubtedAt)))
	if !again && !near(date, c.now()) {
		c.doubted, c.doubtedAt = date, time.Now()
		return
	}
	c.set(date, true)
}

// steady reports whether the local clock agrees with the time that has passed in this process.
func (c *clock) steady() bool {
	now := time.Now()
	return near(now.Round(0), c.wall.Add(now.Sub(c.at)))
}

// ServiceTime returns the service's time, as far as known.
func (l *Ledger) ServiceTime() time.Time {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.now()
}

// LearnedTime returns [Ledger.ServiceTime] and whether an answer or a person has confirmed it.
func (l *Ledger) LearnedTime() (service time.Time, agreed bool) {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.now(), l.clock.agreed
}

// ClockAgreed reports whether the service's time is confirmed, and not only assumed.
func (l *Ledger) ClockAgreed() bool {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.agreed && l.clock.steady()
}

// DatesCorrected reports whether [Ledger.SetDatesCorrected] was called since the time
// became known: what other packages wrote down then lies in the past.
func (l *Ledger) DatesCorrected() bool {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.dated
}

// SetDatesCorrected records that nothing that was written down lies in the future of
// the service's clock.
func (l *Ledger) SetDatesCorrected() {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.clock.dated = true
}

// Turned reports whether this machine's clock shows a later day or a later billing cycle
// than the newest reservation: the period may have turned, or the clock was set forward.
func (l *Ledger) Turned() (day, cycle bool, err error) {
	var newest int64
	err = l.db.View(func(tx *store.Tx) error {
		newest, err = newestCounted(tx)
		return err
	})
	if err != nil || newest == 0 {
		return false, false, err
	}
	now, then, zone := time.Now(), store.Instant(newest), l.location
	return Day(now, zone) > Day(then, zone),
		Cycle(now, zone, l.renews) > Cycle(then, zone, l.renews), nil
}

// newestCounted is the latest time for which anything in the ledger counts that was spent; 0 if
// nothing does. What was bought on top is left out: a clock that was ahead when it was
// booked must not let it count now and once more when its date comes.
func newestCounted(tx *store.Tx) (at int64, err error) {
	err = tx.Row(`SELECT max(
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE price > 0),
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE adjustment IS NOT NULL
		AND adjustment > 0))`).Scan(&at)
	return at, err
}

// ConfirmClock takes the local clock as the service's, for a service whose answers have no date.
func (l *Ledger) ConfirmClock() {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.clock.set(time.Now(), true)
}
