package state

import "time"

// clock tells the service's time, by which days and billing cycles turn: the last
// answer's date plus the time that has passed since, so that setting this
// machine's clock mints no fresh budget. Before the first answer it is this
// machine's time, but never earlier than the newest reservation.
type clock struct {
	date   time.Time // of the last answer that had one
	at     time.Time // when it was kept, with the monotonic reading
	newest time.Time // reservation of the ledger
}

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
	if !date.IsZero() {
		c.date, c.at = date, time.Now()
	}
}

// ServiceTime is the time at the service, as far as its answers tell.
func (s *Store) ServiceTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.now()
}
