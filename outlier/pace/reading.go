package pace

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"outlierd/outlier"
)

// A policy is one limit and its state. Missing numbers and a missing reset are negative, a missing window
// is 0.
type policy struct {
	name      string
	limit     int
	remaining int
	window    time.Duration // of limit
	reset     time.Duration // from now until the window ends, or the bucket is full
}

var noPolicy = policy{limit: -1, remaining: -1, reset: -1}

// A reading is what one answer states about the limit. Missing times are 0.
type reading struct {
	policy
	answered bool          // usable
	refused  bool          // for the rate limit
	current  int           // counted in the window, refused requests included; negative if missing
	retry    time.Duration // from now until the service accepts another request
	spent    time.Duration // from now until another limit, which is used up, is reset
}

// maxAhead is how far in the future a time may be to be plausible.
const maxAhead = 24 * time.Hour

// readAnswer reads what an answer states about the limit. Of several limits it takes the one whose window is
// nearest to the given one.
func readAnswer(a *outlier.Answer, now time.Time, window time.Duration) reading {
	r := reading{policy: noPolicy, answered: a.Err == nil, current: -1}
	date := a.Date() // absolute times are relative to it, so that no clock has to be right
	if date.IsZero() {
		date = now
	}
	if !r.readStructured(a.Header, window) {
		r.readFamilies(a.Header, date)
	}
	if a.Status >= 400 {
		r.retry = max(0, parseUntil(a.Header.Get("Retry-After"), date))
	}
	if e, ok := errors.AsType[*outlier.Error](a.Err); ok && e.Kind == outlier.Limited {
		r.refused = true
		r.readBody(e.Rate, date)
	}
	return r
}

// readBody reads the body of a refusal (interface, Errors, rule 2), which takes precedence over the headers.
func (r *reading) readBody(body *outlier.Rate, date time.Time) {
	if body == nil {
		return
	}
	if body.Limit > 0 && body.Remaining <= body.Limit {
		if body.Limit != r.limit {
			r.window = 0
		}
		r.limit, r.remaining = body.Limit, max(body.Remaining, -1)
	}
	if body.Current > 0 {
		r.current = body.Current
	}
	if reset := plausibleWait(body.Reset.Sub(date)); reset >= 0 && !body.Reset.IsZero() {
		r.reset = reset
	}
}

// plausibleWait returns d, or -1 if it is in the past or too far in the future.
func plausibleWait(d time.Duration) time.Duration {
	if d < 0 || d > maxAhead {
		return -1
	}
	return d
}

// parseUntil parses a time in any notation and returns it as a duration after date: seconds, with or without a
// fraction; a duration with units (6m0s); an epoch in seconds or milliseconds, distinguished by size; a date. It
// returns -1 if the time is missing or not plausible.
func parseUntil(text string, date time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case !(n >= 0 && n < 1e15):
			return -1
		case n >= 1e11:
			return plausibleWait(time.UnixMilli(int64(n)).Sub(date))
		case n >= 5e8:
			return plausibleWait(time.Unix(0, int64(n*1e9)).Sub(date))
		}
		return plausibleWait(time.Duration(n * float64(time.Second)))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return plausibleWait(d)
	}
	t, err := http.ParseTime(text)
	if err != nil {
		t, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return -1
	}
	return plausibleWait(t.Sub(date))
}

// parseCount parses a count, or the first one of a list: "10", "10, 10;w=60". It returns -1 if there is none.
func parseCount(text string) int {
	text, _, _ = strings.Cut(text, ",")
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= 0 && n <= 1e9) {
		return -1
	}
	return int(n)
}
