package pace

import "time"

// Poll returns when the next scan poll may be sent, considering only the polls' share of the quota. A
// caller that waits until then before it requests a poll does not delay other calls.
func (l *Limiter) Poll() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.nextPoll(1)
}
