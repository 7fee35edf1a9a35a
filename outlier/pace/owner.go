package pace

// Own sets the owner of the window after a change of the key. It drops everything learned with the old
// key, including a block: the limiter starts like [Open] with the file of another owner. If the owner is
// the same, nothing changes.
//
// Requests in flight keep their slots until they complete, because those that are not sent yet may be
// sent with the new key. Nothing is learned from answers to requests of the old key.
func (l *Limiter) Own(owner string) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner == l.options.Owner {
		return
	}
	l.options.Owner = owner
	l.core = core{quota: l.core.quota, share: l.core.share, inFlight: l.core.inFlight, ownedSince: now}
	// If this fails, the file still belongs to the last owner. The next request must save as well, and
	// reports the error.
	_ = l.save()
	l.wake()
}
