package pace

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// noLimit is the reading of an answer that states nothing about the limit.
var noLimit = reading{policy: noPolicy, answered: true, current: -1}

func TestReadHeaders(t *testing.T) {
	// The service's clock is two minutes ahead of ours.
	now := time.Date(2026, 3, 29, 0, 59, 30, 0, time.UTC)
	date := now.Add(2 * time.Minute)
	epoch := date.Add(42 * time.Second)
	for name, tt := range map[string]struct {
		header map[string]string
		want   reading
	}{
		"nothing": {nil, noLimit},
		"draft 10": {
			map[string]string{"RateLimit": `"key";r=9;t=51`, "RateLimit-Policy": `"key";q=10;w=60`},
			reported(10, 9, 51, 60),
		},
		"draft 10 without policy": {map[string]string{"RateLimit": `"key";r=9;t=51`}, reported(-1, 9, 51, 0)},
		"draft 10, odd spaces": {
			map[string]string{
				"RateLimit":        ` "a b" ; r=9 ;t=51`,
				"RateLimit-Policy": `"a b";q=10; w=60;pk=:cHNzdA==:`,
			},
			reported(10, 9, 51, 60),
		},
		"the nearest of two policies": {
			map[string]string{
				"RateLimit":        `"day";r=900;t=500, "min";r=3;t=20`,
				"RateLimit-Policy": `"day";q=1000;w=86400, "min";q=10;w=60`,
			},
			reported(10, 3, 20, 60),
		},
		"another policy is used up": {
			map[string]string{
				"RateLimit":        `"hour";r=0;t=500, "min";r=3;t=20`,
				"RateLimit-Policy": `"hour";q=100;w=3600, "min";q=10;w=60`,
			},
			spent(reported(10, 3, 20, 60), 500),
		},
		"a policy of bytes": {
			map[string]string{
				"RateLimit":        `"min";r=3;t=20`,
				"RateLimit-Policy": `"bytes";q=5;w=60;qu="content-bytes", "min";q=10;w=60;qu="requests"`,
			},
			reported(10, 3, 20, 60),
		},
		"draft 7": {
			map[string]string{
				"RateLimit":        "limit=10, remaining=9, reset=51",
				"RateLimit-Policy": "10;w=60",
			},
			reported(10, 9, 51, 60),
		},
		"draft 6": {
			map[string]string{
				"RateLimit-Limit":     "10",
				"RateLimit-Remaining": "9",
				"RateLimit-Reset":     "51",
				"RateLimit-Policy":    "10;w=60",
			},
			reported(10, 9, 51, 60),
		},
		"draft 3": {
			map[string]string{
				"RateLimit-Limit":     "10, 10;w=60, 1000;w=3600",
				"RateLimit-Remaining": "9",
				"RateLimit-Reset":     "51",
			},
			reported(10, 9, 51, 60),
		},
		"X, epoch seconds":         {x3("X-RateLimit", text(epoch.Unix())), reported(10, 9, 42, 0)},
		"X, epoch with a fraction": {x3("X-RateLimit", text(epoch.Unix())+".000"), reported(10, 9, 42, 0)},
		"X, epoch milliseconds":    {x3("X-RateLimit", text(epoch.UnixMilli())), reported(10, 9, 42, 0)},
		"X, delta":                 {x3("X-RateLimit", "42"), reported(10, 9, 42, 0)},
		"X, length with units":     {x3("X-RateLimit", "1m12s"), reported(10, 9, 72, 0)},
		"X, date":                  {x3("X-RateLimit", epoch.Format(http.TimeFormat)), reported(10, 9, 42, 0)},
		"X, date of ISO 8601":      {x3("X-RateLimit", epoch.Format(time.RFC3339)), reported(10, 9, 42, 0)},
		"X with another hyphen":    {x3("X-Rate-Limit", "42"), reported(10, 9, 42, 0)},
		"no X and another hyphen":  {x3("Rate-Limit", "42"), reported(10, 9, 42, 0)},
		"of requests": {
			map[string]string{
				"x-ratelimit-limit-requests":     "10",
				"x-ratelimit-remaining-requests": "9",
				"x-ratelimit-reset-requests":     "6s",
				"x-ratelimit-limit-tokens":       "5",
			},
			reported(10, 9, 6, 0),
		},
		"by the minute": {
			map[string]string{"X-RateLimit-Limit-Minute": "10", "X-RateLimit-Remaining-Minute": "9"},
			reported(10, 9, -1, 60),
		},
		"the limit alone":            {map[string]string{"X-RateLimit-Limit": "10"}, reported(10, -1, -1, 0)},
		"reset in the past":          {x3("X-RateLimit", text(date.Add(-time.Hour).Unix())), reported(10, 9, -1, 0)},
		"reset in the year 9999":     {x3("X-RateLimit", "253402300799"), reported(10, 9, -1, 0)},
		"reset that is not a number": {x3("X-RateLimit", "soon"), reported(10, 9, -1, 0)},
		"limit that is not a number": {
			map[string]string{"X-RateLimit-Limit": "many", "X-RateLimit-Remaining": "9"},
			reported(-1, 9, -1, 0),
		},
		"negative limit": {
			map[string]string{"X-RateLimit-Limit": "-1", "X-RateLimit-Remaining": "-5"},
			noLimit,
		},
		"malformed structured field": {
			map[string]string{"RateLimit": `;;=",`, "X-RateLimit-Limit": "10"},
			reported(10, -1, -1, 0),
		},
		"Retry-After of a success": {map[string]string{"Retry-After": "9"}, noLimit},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Date": {date.Format(http.TimeFormat)}}
			for k, v := range tt.header {
				h.Set(k, v)
			}
			got := readAnswer(&outlier.Answer{Status: 200, Header: h}, now, time.Minute)
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(reading{}, policy{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// reported returns the reading of an answer that states these numbers; -1 for one that it does not state.
// Times are in seconds.
func reported(limit, remaining, reset, window int) reading {
	r := noLimit
	r.limit, r.remaining, r.window = limit, remaining, time.Duration(window)*time.Second
	if reset >= 0 {
		r.reset = time.Duration(reset) * time.Second
	}
	return r
}

func spent(r reading, seconds int) reading {
	r.spent = time.Duration(seconds) * time.Second
	return r
}

func x3(family, reset string) map[string]string {
	return map[string]string{family + "-Limit": "10", family + "-Remaining": "9", family + "-Reset": reset}
}

func text(n int64) string { return number64(n) }

// FuzzRead: whatever the headers contain, reading them does not panic and returns credible values.
func FuzzRead(f *testing.F) {
	f.Add("limit", "remaining", "reset", `"key";q=10;w=60`, `"key";r=9;t=51`, "120")
	f.Add("10, 10;w=60", "9", "1774745970", "10;w=60, 100;w=3600", "limit=10, remaining=9, reset=51",
		"Sun, 29 Mar 2026 00:00:00 GMT")
	f.Add("1e999", "NaN", "-1e300", `"\";q=1`, `";;;==,,"`, "99999999999999999999")
	now := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, limit, remaining, reset, policy, state, retry string) {
		for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
			h := http.Header{
				prefix + "Limit": {limit}, prefix + "Remaining": {remaining}, prefix + "Reset": {reset},
				"Ratelimit-Policy": {policy}, "Ratelimit": {state}, "Retry-After": {retry},
			}
			r := readAnswer(&outlier.Answer{Status: 429, Header: h}, now, time.Minute)
			for _, d := range []time.Duration{r.window, r.retry, r.spent, max(r.reset, 0)} {
				if d < 0 || d > maxAhead {
					t.Errorf("got %v, want 0 to %v: %+v", d, maxAhead, r)
				}
			}
			if r.limit < -1 || r.remaining < -1 {
				t.Errorf("got %+v, want limit and remaining of at least -1", r)
			}
		}
	})
}
