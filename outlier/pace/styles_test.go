package pace

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"outlierd/outlier"
)

// A style is how a service states its limit in the headers of each answer. All styles but [silent] also state
// it in the body of a refusal.
type style struct {
	name string
	say  func(h http.Header, v verdict, clock time.Time)
}

var styles = []style{
	{"body only", func(http.Header, verdict, time.Time) {}},
	{"X epoch s", func(h http.Header, v verdict, clock time.Time) {
		x(h, v, number64(v.resets(clock).Add(time.Second-1).Unix()))
	}},
	{"X epoch ms", func(h http.Header, v verdict, clock time.Time) {
		x(h, v, number64(v.resets(clock).UnixMilli()))
	}},
	{"X delta", func(h http.Header, v verdict, clock time.Time) { x(h, v, number64(v.toReset(clock))) }},
	{"draft 6", func(h http.Header, v verdict, clock time.Time) {
		h["Ratelimit-Limit"] = []string{strconv.Itoa(v.limit)}
		h["Ratelimit-Remaining"] = []string{strconv.Itoa(v.remaining)}
		h["Ratelimit-Reset"] = []string{number64(v.toReset(clock))}
		h["Ratelimit-Policy"] = []string{strconv.Itoa(v.limit) + ";w=" + number64(ceilSeconds(v.window))}
		retryAfter(h, v)
	}},
	{"draft 7", func(h http.Header, v verdict, clock time.Time) {
		h["Ratelimit"] = []string{fmt.Sprintf("limit=%d, remaining=%d, reset=%d", v.limit, v.remaining, v.toReset(clock))}
		h["Ratelimit-Policy"] = []string{strconv.Itoa(v.limit) + ";w=" + number64(ceilSeconds(v.window))}
		retryAfter(h, v)
	}},
	{"draft 10", func(h http.Header, v verdict, clock time.Time) {
		h["Ratelimit"] = []string{`"key";r=` + strconv.Itoa(v.remaining) + ";t=" + number64(v.toReset(clock))}
		h["Ratelimit-Policy"] = []string{`"key";q=` + strconv.Itoa(v.limit) + ";w=" + number64(ceilSeconds(v.window))}
		retryAfter(h, v)
	}},
}

// silent states nothing, neither in headers nor in the body of a refusal.
var silent = style{name: "nothing"}

func x(h http.Header, v verdict, reset string) {
	h["X-Ratelimit-Limit"] = []string{strconv.Itoa(v.limit)}
	h["X-Ratelimit-Remaining"] = []string{strconv.Itoa(v.remaining)}
	h["X-Ratelimit-Reset"] = []string{reset}
}

func retryAfter(h http.Header, v verdict) {
	switch {
	case v.ok:
	case v.never:
		h["Retry-After"] = []string{endOfTime.Format(http.TimeFormat)}
	default:
		h["Retry-After"] = []string{number64(ceilSeconds(v.retry))}
	}
}

func number64(n int64) string { return strconv.FormatInt(n, 10) }

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// answer returns the answer that the client receives. counted and answered are the times at which the service
// counted the request and wrote the headers of its answer, by the service's clock.
func answer(s style, v verdict, counted, answered time.Time) *outlier.Answer {
	h := http.Header{"Date": {answered.UTC().Format(http.TimeFormat)}}
	if s.say != nil {
		s.say(h, v, counted)
	}
	switch {
	case v.ok:
		return &outlier.Answer{Status: 200, Header: h}
	case s.say == nil:
		return &outlier.Answer{Status: 429, Header: h, Err: &outlier.Error{Kind: outlier.Limited, Status: 429}}
	}
	rate := &outlier.Rate{
		Limit: v.limit, Current: v.current, Remaining: min(v.remaining, v.limit), Reset: v.resets(counted),
	}
	return refusal(rate, h)
}
