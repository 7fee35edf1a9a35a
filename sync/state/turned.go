package state

import "outlierd/sync/credit"

// Turned reports whether the day or the billing cycle has turned since the newest
// reservation by this machine's clock alone: no answer has told the service's time
// yet, and a clock that was set forward looks the same.
func (s *Store) Turned() (day, cycle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clock.at.IsZero() || s.clock.newest.IsZero() {
		return false, false
	}
	now, then, zone := s.clock.now(), s.clock.newest, s.options.Location
	return credit.Day(now, zone) != credit.Day(then, zone),
		credit.Cycle(now, zone, s.options.Renews) != credit.Cycle(then, zone, s.options.Renews)
}
