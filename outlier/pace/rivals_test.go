package pace

import (
	"time"

	"golang.org/x/time/rate"

	"outlierd/outlier"
)

// A client decides when calls leave, and is told what comes of them.
type client interface {
	next(now time.Time) time.Time // when one may leave
	left(now time.Time)
	answered(now, sent time.Time, a *outlier.Answer)
	restart(now time.Time)
}

// limiter is this package's, with its file in memory.
type limiter struct {
	core
	kept bool
	file []byte
}

func newLimiter(belief Quota, kept bool, share float64) *limiter {
	return &limiter{core: core{quota: belief, share: share}, kept: kept}
}

func (l *limiter) next(now time.Time) time.Time {
	l.forget(now)
	return l.slot(now, 1)
}

func (l *limiter) left(now time.Time) {
	l.elapse(now)
	l.prepaid, l.Last = 1, now
	l.save()
	l.grant(now)
}

func (l *limiter) save() {
	if l.kept {
		var err error
		if l.file, err = l.text(""); err != nil {
			panic(err)
		}
	}
}

func (l *limiter) answered(now, sent time.Time, a *outlier.Answer) {
	blocked := l.Blocked
	l.observe(now, sent, read(a, now, l.quota.Window))
	if l.Blocked != blocked {
		l.save()
	}
}

func (l *limiter) restart(now time.Time) {
	n, ok := understand(l.file)
	if !ok {
		panic("the limiter wrote what it does not understand")
	}
	l.core = core{quota: l.quota, share: l.share}
	l.resume(n, now)
}

// tokens is golang.org/x/time/rate, told the time.
type tokens struct{ *rate.Limiter }

// newTokens has a share of what is believed, and of the burst.
func newTokens(belief Quota, burst int, share float64) *tokens {
	limit := rate.Every(belief.spacing()) * rate.Limit(share)
	return &tokens{rate.NewLimiter(limit, max(1, int(float64(burst)*share)))}
}

func (l *tokens) next(now time.Time) time.Time {
	r := l.ReserveN(now, 1)
	defer r.CancelAt(now)
	return now.Add(r.DelayFrom(now))
}

func (l *tokens) left(now time.Time)                             { l.ReserveN(now, 1) }
func (l *tokens) answered(time.Time, time.Time, *outlier.Answer) {}
func (l *tokens) restart(time.Time)                              { l.Limiter = rate.NewLimiter(l.Limit(), l.Burst()) }

// obedient stops where an answer says that nothing remains, until the reset, and
// otherwise sends at once.
type obedient struct {
	q     Quota
	until time.Time
}

func (l *obedient) next(now time.Time) time.Time { return latest(now, l.until) }
func (l *obedient) left(time.Time)               {}
func (l *obedient) restart(time.Time)            { l.until = time.Time{} }

func (l *obedient) answered(now, _ time.Time, a *outlier.Answer) {
	r := read(a, now, l.q.Window)
	switch {
	case r.refused:
		l.until = latest(l.until, now.Add(max(r.retry, r.reset, time.Second)))
	case r.remaining == 0:
		l.until = latest(l.until, now.Add(max(r.reset, 0)))
	}
}
