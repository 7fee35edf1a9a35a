package state

import (
	"time"

	"outlierd/sync/credit"
)

// clock tells the service's time, by which days and billing cycles turn: the last
// answer's date plus the time that has passed since, so that setting this
// machine's clock mints no fresh budget. Before the first answer it is this
// machine's time, but never earlier than the newest reservation.
type clock struct {
	date   time.Time // of the last answer that had one
	at     time.Time // when it was kept, with the monotonic reading
	newest time.Time // reservation of the ledger

	doubted   time.Time // a date far from what was believed
	doubtedAt time.Time // when it came
}

// leap is how far an answer's date may lie from what was believed and be believed at once.
// Beyond it a clock was set, this machine's or one on the way to the service; the next
// answer tells which, as far as anybody can.
const leap = 36 * time.Hour

func (c *clock) now() time.Time {
	if !c.at.IsZero() {
		return c.date.Add(time.Since(c.at))
	}
	if now := time.Now(); now.After(c.newest) {
		return now
	}
	return c.newest
}

func (c *clock) learn(date time.Time) {
	if date.IsZero() {
		return
	}
	now := time.Now()
	again := !c.doubted.IsZero() && date.Sub(c.doubted.Add(now.Sub(c.doubtedAt))).Abs() < time.Hour
	if !again && date.Sub(c.now()).Abs() > leap {
		c.doubted, c.doubtedAt = date, now
		return
	}
	c.date, c.at, c.doubted = date, now, time.Time{}
}

// setClock lets the clock begin no earlier than the newest reservation.
func (s *Store) setClock() error {
	var newest int64
	err := s.row(`SELECT coalesce(max(reserved_at), 0) FROM attempts WHERE price > 0`).Scan(&newest)
	s.clock.newest = instant(newest)
	return err
}

// ServiceTime is the time at the service, as far as its answers tell.
func (s *Store) ServiceTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.now()
}

// Turned reports whether this machine's clock shows another day or another billing
// cycle than the newest reservation that there was when the state was opened, and no answer
// has told the service's time yet: the period may have turned, or a clock was set, forward
// now or back since then.
func (s *Store) Turned() (day, cycle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clock.at.IsZero() || s.clock.newest.IsZero() {
		return false, false
	}
	now, then, zone := time.Now(), s.clock.newest, s.options.Location
	return credit.Day(now, zone) != credit.Day(then, zone),
		credit.Cycle(now, zone, s.options.Renews) != credit.Cycle(then, zone, s.options.Renews)
}

// Trust takes this machine's clock for the service's, unless an answer has told that. From
// then on time passes as this process counts it, whatever becomes of the machine's clock.
func (s *Store) Trust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.at.IsZero() {
		s.clock.date, s.clock.at = s.clock.now(), time.Now()
	}
}
