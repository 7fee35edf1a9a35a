package pace

// Own says that the key was changed, and whose window it is from now on. What was
// learned with the last one, a block too, is no longer believed: the limiter begins as
// [Open] does with the file of another owner. The same owner changes nothing.
//
// Requests under way keep their slots until they come back, as those that have not been
// sent may leave with the new key. Answers to those that have are the last owner's, and
// teach nothing.
func (l *Limiter) Own(owner string) {
	now := wallClock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner == l.options.Owner {
		return
	}
	l.options.Owner = owner
	l.core = core{quota: l.core.quota, share: l.core.share, out: l.core.out, begun: now}
	// Should this fail, the file stays the last owner's, and the next request has to
	// save, and reports.
	_ = l.save()
	l.wake()
}
