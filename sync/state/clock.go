package state

import (
	"fmt"
	"time"

	"outlierd/sync/credit"
)

// clock tells the service's time, by which days and billing cycles turn and windows end.
//
// It begins as this machine's clock and from then on counts the time itself, so that
// setting the machine's clock mints no budget. The dates of the service's own answers
// correct it: one that is within [Skew] of what is believed at once, one that lies
// farther off, ahead or behind, if the next one agrees. A single wrong date, as of one
// server of several, changes nothing. A wrong date that is told twice is followed, and
// so is the right one after it; that mints nothing either: what was booked in
// between is then dated in the future, and counts as now (see [Store.period]), and
// when its own period comes, it counts there.
//
// The clock is agreed on once an answer has been believed, or a person has said that
// this machine's is right. That lapses when the machine's clock jumps, or has slept, as
// the time that this process counted may then be wrong.
type clock struct {
	date   time.Time // the time at the instant at
	at     time.Time // with the monotonic reading
	wall   time.Time // at the same instant, without it
	agreed bool
	dated  bool // nothing that was written down lies in its future, see [Store.CorrectDates]

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

// set takes a time for right from now on.
func (c *clock) set(date time.Time, agreed bool) {
	now := time.Now()
	dated := c.dated && near(date, c.now()) && c.steady()
	*c = clock{date: date, at: now, wall: now.Round(0), agreed: agreed, dated: dated}
}

// learn takes notice of the date of an answer.
func (c *clock) learn(date time.Time) {
	if date.IsZero() {
		return
	}
	again := !c.doubted.IsZero() && near(date, c.doubted.Add(time.Since(c.doubtedAt)))
	if !again && !near(date, c.now()) {
		c.doubted, c.doubtedAt = date, time.Now()
		return
	}
	c.set(date, true)
}

// steady reports whether this machine's clock has gone on as time has passed here.
func (c *clock) steady() bool {
	now := time.Now()
	return near(now.Round(0), c.wall.Add(now.Sub(c.at)))
}

// ServiceTime is the time at the service, as far as is known.
func (s *Store) ServiceTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.now()
}

// ServiceTime is [Store.ServiceTime].
func (t *Tx) ServiceTime() time.Time { return t.s.clock.now() }

// ClockAgreed reports whether the service's time is known, and not only believed.
func (s *Store) ClockAgreed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.agreed && s.clock.steady()
}

// Turned reports whether this machine's clock shows a later day or a later billing cycle
// than the newest reservation: the period may have turned, or the clock was set forward.
func (s *Store) Turned() (day, cycle bool, err error) {
	var newest int64
	if err := s.view(func() error { newest, err = s.newest(); return err }); err != nil || newest == 0 {
		return false, false, err
	}
	now, then, zone := time.Now(), instant(newest), s.options.Location
	return credit.Day(now, zone) > credit.Day(then, zone),
		credit.Cycle(now, zone, s.options.Renews) > credit.Cycle(then, zone, s.options.Renews), nil
}

// newest is the latest time for which anything in the ledger counts that was spent; 0 if
// nothing does. What was bought on top is left out: a clock that was ahead when it was
// booked must not let it count now and once more when its date comes.
func (s *Store) newest() (at int64, err error) {
	err = s.row(`SELECT max(
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE price > 0),
		(SELECT coalesce(max(counts_at), 0) FROM attempts WHERE adjustment IS NOT NULL AND adjustment > 0))`).Scan(&at)
	return at, err
}

// CorrectDates takes back what searches have covered according to a clock that turned out
// to be ahead, now that the time is agreed on: it puts cursors back to when they were
// written, and lets calls that such a date keeps waiting be made. A search looks for nothing
// before its cursor, so one in the future would lose what is published until its date comes,
// and after that nothing would tell that it was wrong.
func (s *Store) CorrectDates() error {
	s.mu.Lock()
	now, done := s.clock.now(), s.clock.dated
	s.mu.Unlock()
	if done {
		return nil
	}
	err := s.Update(func(tx *Tx) error {
		if err := tx.correctQueue(); err != nil {
			return err
		}
		rows, err := list(s, (*watermarkRow).columns, `SELECT job, key, at, run, set_at FROM watermarks WHERE at > ?`, micros(now.Add(Skew)))
		for i := 0; err == nil && i < len(rows); i++ {
			err = tx.takeBack(rows[i], micros(now))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("correct what lies in the future: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.dated = true
	return nil
}

// takeBack puts a mark in the place of one that lies in the future.
func (t *Tx) takeBack(mark watermarkRow, now int64) error {
	if _, err := t.exec(`DELETE FROM watermarks WHERE job = ? AND key = ?`, mark.Job, mark.Key); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO watermarks (job, key, at, run, set_at) VALUES (?, ?, ?, ?, ?)`,
		mark.Job, mark.Key, min(mark.set, now), mark.Run, mark.set)
	return err
}

// Trust takes this machine's clock for the service's, which tells no time.
func (s *Store) Trust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.set(time.Now(), true)
}
