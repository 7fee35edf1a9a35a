package state

import (
	"time"

	"outlierd/sync/credit"
)

// Turned reports whether this machine's clock shows another day or another billing
// cycle than the newest reservation, and no answer has told the service's time yet: the
// period may have turned, or a clock was set, forward now or back since then.
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
