package pace

import "time"

// Poll is when the next scan poll may leave, as far as the polls' share of the quota goes. A
// caller that waits until then before it asks for a poll holds up no other call.
func (l *Limiter) Poll() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.nextPoll(1)
}
