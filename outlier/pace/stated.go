package pace

import (
	"cmp"
	"time"
)

const (
	minProofs = 3               // answers that must have counted our requests before a limit above the configured one is believed
	rounding  = 2 * time.Second // the maximum error of a time in whole seconds from a clock that was read in whole seconds
)

// stated is what answers have stated about the limit.
type stated struct {
	Quota      Quota            // believed instead of the configured one; zero if none
	At         time.Time        // when Quota was set
	Limit      int              // of the last answer
	Used       int              // of Limit, at the last answer
	Proofs     int              // how often Used rose, up to minProofs
	FarResets  [2]time.Duration // the two longest times until a reset
	Reset      time.Time        // the last reset
	ResetSince time.Time        // when the first request whose answer stated Reset was sent
	Period     time.Duration    // the shortest time from one reset to the next
	Fresh      int              // how often little was used after a reset, minus how often much was
}

// studyAnswer learns what an answer states about the limit, its window and other clients.
func (c *core) studyAnswer(now, sent time.Time, r reading) {
	s, used := &c.Stated, r.limit-r.remaining
	if r.limit != s.Limit {
		*s = stated{Quota: s.Quota, At: s.At, Limit: r.limit, Used: r.limit}
	}
	if r.remaining < 0 {
		c.adoptLimit(now, sent, r)
		return
	}
	if used > s.Used {
		s.Proofs = min(s.Proofs+1, minProofs)
	}
	if r.reset >= 0 {
		s.noteReset(now.Add(r.reset), sent, used, r.reset, c.Log.countSince(sent.Add(-c.keyQuota().Window)))
	}
	s.Used = used
	c.adoptLimit(now, sent, r)
	c.compareCounts(now, sent, r)
}

// noteReset records the time of a reset. If many requests were used before the last one, an answer soon after it shows
// whether the count started afresh: own is how many requests we sent within a window, and after a pause any count is
// low.
func (s *stated) noteReset(at, sent time.Time, used int, reset time.Duration, own int) {
	if reset > s.FarResets[0] {
		s.FarResets = [2]time.Duration{reset, s.FarResets[0]}
	}
	s.FarResets[1] = max(s.FarResets[1], min(reset, s.FarResets[0]))
	jump := at.Sub(s.Reset)
	if jump.Abs() <= 2*rounding {
		return
	}
	if jump > 0 && !s.Reset.IsZero() {
		s.Period = min(cmp.Or(s.Period, jump), jump)
	}
	switch many := s.Used > s.Limit/2; {
	case many && used <= min(s.Used, own+1)/2:
		s.Fresh = min(s.Fresh+1, 3)
	case many && used > s.Used*2/3 && reset > s.FarResets[0]*3/4:
		s.Fresh = max(s.Fresh-1, -3)
	}
	s.Reset, s.ResetSince = at, sent
}

// The reset is stable if it stays where it is while time passes; that of a bucket moves with each request. The service
// has fixed windows if the count also starts afresh after a reset. It only estimates a sliding window if the count goes
// on.
func (s *stated) isStable(sent time.Time) bool         { return sent.Sub(s.ResetSince) > 2*rounding }
func (s *stated) isFixed(sent time.Time) bool          { return s.Fresh > 0 && s.isStable(sent) }
func (s *stated) isEstimate(window time.Duration) bool { return s.Fresh < -1 && s.Period > window*9/10 }

// adoptLimit believes a limit: a lower one at once, one above the configured quota once the answers have proved that
// they count our requests.
func (c *core) adoptLimit(now, sent time.Time, r reading) {
	q := Quota{r.limit, c.Stated.windowOf(sent, r, c.quota)}
	if allowsMore(q, c.quota) && c.Stated.Proofs < minProofs {
		return
	}
	if allowsMore(c.keyQuota(), q) { // the lower limit explains refusals and unexpected counts
		c.Pacing = pacing{}
		c.setEvery(now, 0)
	}
	if q == c.quota {
		q = Quota{}
	}
	c.Stated.Quota, c.Stated.At = q, now
}

// allowsMore reports whether a allows a larger burst or a faster pace than b.
func allowsMore(a, b Quota) bool {
	return a.Requests > b.Requests ||
		float64(a.Requests)*float64(b.Window) > 1.001*float64(b.Requests)*float64(a.Window)
}

// windowOf returns the window of a stated limit. If the answer states none, a limit below the configured one is assumed
// to have the same pace and a smaller burst. The window is too short if resets are further away, which counts once it
// was seen twice. The reset of a bucket shows in which time it fills.
func (s *stated) windowOf(sent time.Time, r reading, configured Quota) time.Duration {
	w := r.window
	if w == 0 {
		w = scaleDuration(configured.Window, min(1, float64(r.limit)/float64(configured.Requests)))
	}
	switch far := s.FarResets[1]; {
	case s.Proofs < minProofs || far <= w+3*rounding/2:
		return w
	case r.reset >= 0 && !s.isStable(sent) && s.Used > r.limit/2:
		return min(wholeWindow(scaleDuration(r.reset, float64(r.limit)/float64(s.Used))), maxAhead)
	default:
		return wholeWindow(far)
	}
}

// wholeWindow returns the window of which so much was seen: a multiple of ten seconds.
func wholeWindow(seen time.Duration) time.Duration {
	const unit = 10 * time.Second
	return (seen - 3*rounding/2 + unit - 1) / unit * unit
}

// compareCounts compares the service's count with the requests known here.
func (c *core) compareCounts(now, sent time.Time, r reading) {
	s, p, window, used := &c.Stated, &c.Pacing, max(c.keyQuota().Window, c.quota.Window), r.limit-r.remaining
	if s.isEstimate(window) { // its counts prove nothing about other clients
		p.OthersLast = time.Time{}
		return
	}
	since := sent.Add(-window)
	if s.isFixed(sent) {
		since = latest(since, s.Reset.Add(-window-2*rounding))
	}
	if more := used - c.Log.countSince(since) - c.inFlight; more > r.limit/50 {
		c.noticeOthers(now, more)
	}
	c.weighRemaining(now, sent, r)
}

// weighRemaining decides what the remaining requests mean for the pace.
func (c *core) weighRemaining(now, sent time.Time, r reading) {
	s, p, span := &c.Stated, &c.Pacing, c.ourQuota().asRule().span
	switch stable := s.isStable(sent); {
	case stable && r.remaining == 0 && (p.Every > 0 || isWhole(c.share) && p.othersSeen(now, span) > 0):
		c.blockFor(now, r.reset-rounding/2) // other clients have used the rest of the window
	case !stable && r.remaining <= 1 && p.Previous > 0 && p.isShared(now):
		c.slowDown(now) // the trial of a faster pace would end in a refusal
	}
	if now.Sub(p.Changed) < span {
		return // the service still counts requests from before the last change
	}
	left := r.remaining
	if s.isFixed(sent) {
		if r.reset >= p.Every {
			return // only our last request of a window shows what stays unused
		}
		left -= int(float64(p.othersSeen(now, span))*float64(r.reset)/float64(c.keyQuota().Window) + 0.6)
	}
	p.Unused = min(p.Unused, left)
}
