package pace

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

const (
	trialAfter     = time.Hour        // from a refusal to the trial of a faster pace; half as long after a trial that succeeded
	trialWork      = 20               // answers before a trial
	nearPace       = 1.2              // the ratio to a refused pace below which no other pace is worth an early trial
	nearTrialAfter = 12 * time.Hour   // from a refusal to the trial of such a pace
	maxEvery       = 15 * time.Minute // between two requests after refusals without a stated reason
	othersLast     = time.Hour        // how long other clients are assumed after their last request was noticed
)

// pacing is the even pace that is kept after a refusal, and while other clients use the key.
type pacing struct {
	Every     time.Duration // between two requests; 0 = at once, as the window allows
	Previous  time.Duration // Every before the trial of a faster pace; 0 = no trial
	Refused   time.Duration // a shorter one that was refused; 0 = none
	Changed   time.Time     // when Every was set
	NextTrial time.Time
	Answers   int           // since Changed
	Elapsed   time.Duration // since Changed, without the time in which no call waited
	Unused    int           // minimum that the service had left since Changed

	Others                  int       // requests of other clients that were noticed last
	OthersFirst, OthersLast time.Time // when
}

// setEvery changes the even pace.
func (c *core) setEvery(now time.Time, every time.Duration) {
	p := &c.Pacing
	p.Every, p.Changed, p.Answers, p.Elapsed, p.Unused = every, now, 0, 0, math.MaxInt
	c.even.SetLimitAt(now, rate.Every(every))
}

// evenSpacing returns the time between n evenly spaced requests of a window.
func (r rule) evenSpacing(n int) time.Duration { return r.span / time.Duration(max(1, n)) }

// requestsAt returns how many requests an even pace makes in a window.
func (r rule) requestsAt(every time.Duration) int {
	return int(min(math.Round(float64(r.span)/float64(every)), float64(r.n+1)))
}

// noticeOthers records n requests of other clients. If more come later, our requests are spaced evenly, so that each
// client sees all requests of the others, and leave half of the window to them.
func (c *core) noticeOthers(now time.Time, n int) {
	if n <= 0 {
		return
	}
	p, r := &c.Pacing, c.ourQuota().asRule()
	if now.Sub(p.OthersLast) > othersLast {
		p.OthersFirst = now
	}
	p.OthersLast, p.Others = now, n
	if p.Every == 0 && isWhole(c.share) && now.Sub(p.OthersFirst) > r.span {
		c.setEvery(now, r.evenSpacing(r.n/2))
		c.planTrial(now, trialAfter)
	}
}

// othersSeen returns how many requests of other clients were noticed within a window.
func (p *pacing) othersSeen(now time.Time, window time.Duration) int {
	if now.Sub(p.OthersLast) < window {
		return p.Others
	}
	return 0
}

// isShared reports whether other clients use the key. An even pace may hide them for hours.
func (p *pacing) isShared(now time.Time) bool {
	ago := now.Sub(p.OthersLast)
	return ago < othersLast || p.Every > 0 && ago < 6*othersLast
}

// slowDown chooses a slower pace after a refusal. The trial of a faster one ends. Otherwise a client that shares the
// key leaves half of the window to others, and then one slot more with each refusal. A client that is alone slows down
// to the pace that was admitted since the last refusal: that is as much as the service ever admits, whatever its limit
// is.
func (c *core) slowDown(now time.Time) {
	p, r := &c.Pacing, c.ourQuota().asRule()
	was, many := p.Every, p.Answers >= trialWork
	every := max(r.evenSpacing(r.requestsAt(was)-1), scaleDuration(was, 1.09)) // one slot less
	switch shared := p.isShared(now); {
	case p.Previous > 0:
		every = p.Previous
	case shared && was == 0:
		every = r.evenSpacing(r.n / 2)
	case shared && now.Sub(p.Changed) < 2*r.span:
		return // the service still counts requests from before the last change
	case !shared && p.Answers > 0:
		every = max(every, scaleDuration(p.Elapsed, 1/(float64(p.Answers)+0.5)))
	}
	if p.Refused = 0; many || p.Previous > 0 {
		p.Refused = was
	}
	p.Previous = 0
	c.setEvery(now, min(every, max(maxEvery, 2*r.evenSpacing(r.n))))
	c.planTrial(now, trialAfter)
}

// tryFaster begins the trial of a faster pace when its time has come: no pace at all instead of an even one, the slots
// that other clients leave unused, or a pace between this one and the last that was refused.
func (c *core) tryFaster(now time.Time) {
	p, r, shared := &c.Pacing, c.ourQuota().asRule(), c.Pacing.isShared(now)
	if p.Every == 0 || now.Before(p.NextTrial) || !shared && p.Answers < trialWork && now.Sub(p.Changed) < learnedFor {
		return
	}
	every := time.Duration(0)
	switch full := r.evenSpacing(r.n); {
	case p.Every <= full && !shared:
	case p.Unused <= c.leftToOthers(shared):
		every = p.Every
	case shared && p.Unused <= r.n:
		every = r.evenSpacing(r.requestsAt(p.Every) + max(1, p.Unused/4))
	case p.Refused > 0 && float64(p.Every) > float64(p.Refused)*nearPace:
		every = time.Duration(math.Sqrt(float64(p.Every) * float64(p.Refused)))
	default:
		every, p.Refused = max(full, scaleDuration(p.Every, 0.8)), 0
	}
	if p.Previous > 0 && shared { // the last trial succeeded
		p.Refused = 0
	}
	if p.Previous = 0; every != p.Every {
		p.Previous = p.Every
	}
	c.setEvery(now, every)
	c.planTrial(now, trialAfter/2)
}

// leftToOthers returns how many unused requests a client leaves to others. A client with half of the limit leaves some
// to clients that have less. What a bucket has left it may have saved, unless it is nearly full.
func (c *core) leftToOthers(shared bool) int {
	r := c.ourQuota().asRule()
	switch {
	case !shared || r.requestsAt(c.Pacing.Every) < r.n/2:
		return 0
	case c.Stated.isStable(c.Last):
		return r.n / 10
	}
	return r.n * 4 / 5
}

// planTrial sets the time of the next trial: later if the pace is near one that was refused. Clients that share a key
// wait for a time that varies, so that two of them do not take the same slot.
func (c *core) planTrial(now time.Time, wait time.Duration) {
	p, r := &c.Pacing, c.ourQuota().asRule()
	near := max(p.Refused, r.evenSpacing(r.n))
	switch {
	case p.isShared(now): // ten to thirty minutes, pseudo-random in now
		wait = 10*time.Minute + time.Duration(uint64(now.UnixNano())*0x9e3779b97f4a7c15%uint64(20*time.Minute))
		if p.Refused > 0 {
			wait *= 16
		}
	case float64(p.Every) <= float64(near)*nearPace:
		wait = nearTrialAfter
	}
	p.NextTrial = now.Add(wait)
}
