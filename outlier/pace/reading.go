package pace

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

// A reading is what one answer states about the limit. Missing numbers and a missing reset are negative,
// other missing times are 0.
type reading struct {
	answered  bool // usable
	refused   bool // for the rate limit
	limit     int
	remaining int
	current   int           // counted in the window, refused requests included
	window    time.Duration // of limit
	reset     time.Duration // from now until the window ends, or the bucket is full
	retry     time.Duration // from now until the service accepts another request
	spent     time.Duration // from now until another limit, which is used up, is reset
}

// farthest is how far in the future a time may be to be plausible.
const farthest = 24 * time.Hour

// read reads what an answer states about the limit. Of several limits it takes the one whose
// window is nearest to the given one.
func read(a *outlier.Answer, now time.Time, window time.Duration) reading {
	r := reading{answered: a.Err == nil, limit: -1, remaining: -1, current: -1, reset: -1}
	date := clock(a, now)
	if !r.readStructured(a.Header, window) {
		r.readFamilies(a.Header, date)
	}
	if wait, ok := until(a.Header.Get("Retry-After"), date); ok && a.Status >= 400 {
		r.retry = wait
	}
	if e, ok := errors.AsType[*outlier.Error](a.Err); ok && e.Kind == outlier.Limited {
		r.refused = true
		r.readBody(e.Rate, date)
	}
	return r
}

// readBody reads the body of a refusal (interface, Errors, rule 2), which takes precedence over
// the headers.
func (r *reading) readBody(rate *outlier.Rate, date time.Time) {
	if rate == nil {
		return
	}
	if rate.Limit > 0 && rate.Remaining <= rate.Limit {
		if rate.Limit != r.limit {
			r.window = 0
		}
		r.limit, r.remaining = rate.Limit, max(rate.Remaining, -1)
	}
	if rate.Current > 0 {
		r.current = rate.Current
	}
	if d, ok := sensible(rate.Reset.Sub(date)); ok && !rate.Reset.IsZero() {
		r.reset = d
	}
}

// clock returns the service's time of an answer, or the local time if the answer has none.
func clock(a *outlier.Answer, now time.Time) time.Time {
	if t := a.Date(); !t.IsZero() {
		return t
	}
	return now
}

// sensible returns d, and whether it is neither in the past nor too far in the future.
func sensible(d time.Duration) (time.Duration, bool) {
	if d < 0 || d > farthest {
		return 0, false
	}
	return d, true
}

// until parses a time in any notation and returns it as a duration after date: seconds, with or
// without a fraction; a duration with units (6m0s); an epoch in seconds, milliseconds,
// microseconds or nanoseconds, distinguished by size; a date.
func until(text string, date time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case !(n >= 0 && n < 1e19):
			return 0, false
		case n >= 1e17:
			return sensible(time.Unix(0, int64(min(n, 9e18))).Sub(date))
		case n >= 1e14:
			return sensible(time.UnixMicro(int64(n)).Sub(date))
		case n >= 1e11:
			return sensible(time.UnixMilli(int64(n)).Sub(date))
		case n >= 5e8:
			return sensible(time.Unix(0, int64(n*1e9)).Sub(date))
		}
		return sensible(time.Duration(min(n, 1e8) * float64(time.Second)))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return sensible(d)
	}
	for _, layout := range []string{time.RFC3339, time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(layout, text); err == nil {
			return sensible(t.Sub(date))
		}
	}
	return 0, false
}

// number parses a count, or the first one of a list: "10", "10, 10;w=60".
func number(text string) (int, bool) {
	text, _, _ = strings.Cut(text, ",")
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= 0 && n <= 1e9) {
		return 0, false
	}
	return int(n), true
}
