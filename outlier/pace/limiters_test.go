package pace

import (
	"time"

	"golang.org/x/time/rate"

	"outlierd/outlier"
)

// A client decides when calls are sent, and receives their answers.
type client interface {
	next(now time.Time) time.Time // when the next call may be sent
	left(now time.Time)           // a call was sent
	answered(now, sent time.Time, a *outlier.Answer)
	restart(now time.Time)
}

// ourLimiter is the limiter of this package, with its file in memory.
type ourLimiter struct {
	core
	kept bool // whether the file is written
	file []byte
}

func newLimiter(configured Quota, kept bool, share float64) *ourLimiter {
	return &ourLimiter{core: newCore(configured, share), kept: kept}
}

func (l *ourLimiter) next(now time.Time) time.Time {
	l.dropExpired(now)
	return l.nextSlot(now, 1)
}

func (l *ourLimiter) left(now time.Time) {
	l.recordGrant(now)
	l.save()
}

func (l *ourLimiter) save() {
	if l.kept {
		var err error
		if l.file, err = l.encodeFile(""); err != nil {
			panic(err)
		}
	}
}

func (l *ourLimiter) answered(now, sent time.Time, a *outlier.Answer) {
	blocked := l.Blocked
	l.learnFrom(now, sent, readAnswer(a, now, l.quota.Window))
	if l.Blocked != blocked {
		l.save()
	}
}

func (l *ourLimiter) restart(now time.Time) {
	n, ok := parseFile(l.file)
	if !ok {
		panic("the file that the limiter wrote cannot be parsed")
	}
	l.core = newCore(l.quota, l.share)
	l.resumeFrom(n, now)
}

// bucketLimiter is golang.org/x/time/rate in virtual time.
type bucketLimiter struct{ *rate.Limiter }

// newBucketLimiter returns a limiter for a share of the configured quota and of the burst.
func newBucketLimiter(configured Quota, burst int, share float64) *bucketLimiter {
	limit := rate.Every(configured.spacing()) * rate.Limit(share)
	return &bucketLimiter{rate.NewLimiter(limit, max(1, int(float64(burst)*share)))}
}

func (l *bucketLimiter) next(now time.Time) time.Time {
	r := l.ReserveN(now, 1)
	defer r.CancelAt(now)
	return now.Add(r.DelayFrom(now))
}

func (l *bucketLimiter) left(now time.Time)                             { l.ReserveN(now, 1) }
func (l *bucketLimiter) answered(time.Time, time.Time, *outlier.Answer) {}

func (l *bucketLimiter) restart(time.Time) { l.Limiter = rate.NewLimiter(l.Limit(), l.Burst()) }

// stopsAtZero sends at once until an answer says that no requests remain, and then waits for the reset.
type stopsAtZero struct {
	q     Quota
	until time.Time
}

func (l *stopsAtZero) next(now time.Time) time.Time { return latest(now, l.until) }
func (l *stopsAtZero) left(time.Time)               {}
func (l *stopsAtZero) restart(time.Time)            { l.until = time.Time{} }

func (l *stopsAtZero) answered(now, _ time.Time, a *outlier.Answer) {
	r := readAnswer(a, now, l.q.Window)
	switch {
	case r.refused:
		l.until = latest(l.until, now.Add(max(r.retry, r.reset, time.Second)))
	case r.remaining == 0:
		l.until = latest(l.until, now.Add(max(r.reset, 0)))
	}
}
