package pace

// Own sets the owner of the window after a change of the key. Everything learned with the old key
// is dropped, including a block: the limiter starts as [Open] does with the file of another owner.
// The same owner changes nothing.
//
// Requests in flight keep their slots until they complete, as those that were not sent yet
// may leave with the new key. Answers to requests of the old key teach nothing.
func (l *Limiter) Own(owner string) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner == l.options.Owner {
		return
	}
	l.options.Owner = owner
	l.core = core{quota: l.core.quota, share: l.core.share, inFlight: l.core.inFlight, ownedSince: now}
	// If this fails, the file still belongs to the last owner, and the next request has to save
	// and reports the error.
	_ = l.save()
	l.wake()
}
