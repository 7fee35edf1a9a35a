package pace

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

const (
	// absurd is how far away a reset may be and still be believed at all.
	absurd = 24 * time.Hour
	// longBlock caps any block: it is better to ask again after a quarter of an
	// hour than to trust one answer for longer. A quota with a longer window may be
	// blocked for that window.
	longBlock = 15 * time.Minute
	// longBackoff caps the doubling of refusals that give no time.
	longBackoff = 5 * time.Minute
	// lessonLasts is how long a refusal is remembered in the pace itself.
	lessonLasts = time.Hour
)

// A lesson is what a refusal taught: to space requests evenly for a while, and not
// to exceed Limit if it gave one below our own.
type lesson struct {
	Limit int       `json:"limit,omitempty"`
	Until time.Time `json:"until"`
}

func (s lesson) holds(now time.Time) bool { return now.Before(s.Until) }

func (l *Limiter) longestBlock() time.Duration { return max(longBlock, l.quota.Window) + guard }

// learn takes from an answer what it says of the pace.
func (l *Limiter) learn(a *outlier.Answer, now time.Time) {
	rate, refused := limited(a)
	switch {
	case refused:
		l.refuse(a, rate, now)
	case a.Status >= 400:
		l.block(now, retryAfter(a, now))
	case a.Err == nil:
		l.streak = 0
	}
}

// refuse reacts to a 429.
func (l *Limiter) refuse(a *outlier.Answer, rate *outlier.Rate, now time.Time) {
	l.streak++
	wait := max(retryAfter(a, now), resetIn(a, rate, now))
	if wait == 0 || l.streak > 1 {
		wait = max(wait, l.backoff(now))
	}
	l.lesson = lesson{Limit: l.lowerLimit(rate, now), Until: now.Add(lessonLasts)}
	if rate != nil && rate.Current >= 0 {
		l.foreign = max(0, rate.Current-l.log.count)
	}
	l.block(now, wait)
}

// backoff is the time that one request is worth, doubled for each further refusal.
func (l *Limiter) backoff(now time.Time) time.Duration {
	wait := l.believed(now).spacing()
	for range l.streak - 1 {
		wait = min(2*wait, longBackoff)
	}
	return min(wait, longBackoff)
}

// lowerLimit is the limit that a refusal names, if it makes sense and is below
// ours; else what was learned before, if that still holds.
func (l *Limiter) lowerLimit(rate *outlier.Rate, now time.Time) int {
	if rate != nil && rate.Limit > 0 && rate.Limit < l.quota.Requests && rate.Remaining <= rate.Limit {
		return rate.Limit
	}
	if l.lesson.holds(now) {
		return l.lesson.Limit
	}
	return 0
}

// block lets nothing leave for a while. It is saved at once. Should that fail,
// nothing is prepaid any more, so that the next request has to save, and reports.
func (l *Limiter) block(now time.Time, wait time.Duration) {
	if wait <= 0 {
		return
	}
	l.blocked = latest(l.blocked, now.Add(min(wait+guard, l.longestBlock())))
	l.prepaid = 0
	_ = l.save()
}

// resetIn is how long the window of a refusal still lasts, by the clock that wrote
// both ends: the Date of the same answer, or ours if it has none. What lies in the
// past or absurdly far ahead is 0.
func resetIn(a *outlier.Answer, rate *outlier.Rate, now time.Time) time.Duration {
	if rate == nil || rate.Reset.IsZero() {
		return 0
	}
	return sensible(rate.Reset.Sub(clock(a, now)))
}

// retryAfter reads the header of that name, seconds or a date; 0 if there is none
// to be believed.
func retryAfter(a *outlier.Answer, now time.Time) time.Duration {
	text := strings.TrimSpace(a.Header.Get("Retry-After"))
	if n, err := strconv.Atoi(text); err == nil {
		return sensible(time.Duration(min(max(n, 0), 1e6)) * time.Second)
	}
	if t, err := http.ParseTime(text); err == nil {
		return sensible(t.Sub(clock(a, now)))
	}
	return 0
}

// clock is the service's time of an answer.
func clock(a *outlier.Answer, now time.Time) time.Time {
	if t := a.Date(); !t.IsZero() {
		return t
	}
	return now
}

func sensible(d time.Duration) time.Duration {
	if d < 0 || d > absurd {
		return 0
	}
	return d
}
