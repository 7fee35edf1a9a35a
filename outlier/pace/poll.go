package pace

import "time"

// Poll is when the next scan poll may leave, as far as the polls' share of the quota
// goes. Who does not ask for one before keeps no other call waiting behind it.
func (l *Limiter) Poll() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.poll(1)
}
