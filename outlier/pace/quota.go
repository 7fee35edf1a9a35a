package pace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Quota allows a number of requests in any period as long as Window.
type Quota struct {
	Requests int
	Window   time.Duration
}

// units has the names of windows, longest first. [Quota.String] uses the first name of each length.
var units = []struct {
	name  string
	width time.Duration
}{
	{"day", 24 * time.Hour}, {"d", 24 * time.Hour},
	{"h", time.Hour}, {"hour", time.Hour},
	{"min", time.Minute}, {"m", time.Minute}, {"minute", time.Minute},
	{"s", time.Second}, {"sec", time.Second}, {"second", time.Second},
}

// ParseQuota parses a quota such as 10/min, 30/10s or 100/h. A window lasts from one second to one day.
func ParseQuota(text string) (Quota, error) {
	count, per, _ := strings.Cut(text, "/")
	n, bad := strconv.Atoi(strings.TrimSpace(count))
	per = strings.TrimSpace(per)
	window, err := time.ParseDuration(per)
	for _, u := range units {
		if per == u.name {
			window, err = u.width, nil
		}
	}
	q := Quota{n, window}
	if bad != nil || err != nil || q.check() != nil {
		return Quota{}, fmt.Errorf("limit %q: write requests per window, such as 10/min, 30/10s or 100/h", text)
	}
	return q, nil
}

func (q Quota) check() error {
	if q.Requests < 1 || q.Window < time.Second || q.Window > 24*time.Hour {
		return fmt.Errorf("limit must be at least 1 request in 1 s to 24 h, got %d in %v", q.Requests, q.Window)
	}
	return nil
}

// String returns q in the form that [ParseQuota] parses.
func (q Quota) String() string {
	for _, u := range units {
		switch {
		case q.Window == u.width:
			return fmt.Sprintf("%d/%s", q.Requests, u.name)
		case q.Window%u.width == 0 && len(u.name) == 1 && u.name != "d":
			return fmt.Sprintf("%d/%d%s", q.Requests, q.Window/u.width, u.name)
		}
	}
	return fmt.Sprintf("%d/%v", q.Requests, q.Window)
}

// withoutBurst returns q without its burst: 9.7/min, 600/min, 2.5/h.
func (q Quota) withoutBurst() string {
	switch n := float64(q.Requests) / q.Window.Minutes(); {
	case n >= 10:
		return fmt.Sprintf("%.0f/min", n)
	case n >= 1:
		return fmt.Sprintf("%.1f/min", n)
	default:
		return fmt.Sprintf("%.1f/h", 60*n)
	}
}

// spacing returns the time between evenly spaced requests.
func (q Quota) spacing() time.Duration { return q.Window / time.Duration(q.Requests) }

// shareOf returns the given share of q; 0 means all of it. A share of less than one request gets one request in a
// longer window.
func (q Quota) shareOf(share float64) Quota {
	n := float64(q.Requests) * share
	switch {
	case share <= 0:
		return q
	case n < 1:
		return Quota{1, scaleDuration(q.Window, 1/n)}
	}
	return Quota{int(n), q.Window}
}

// Time returns how long n requests take at this pace, at most the longest [time.Duration] of about 292 years.
func (q Quota) Time(n int) time.Duration {
	if d := float64(max(n, 0)) / float64(max(q.Requests, 1)) * float64(q.Window); d < math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}

// scaleDuration returns d·by, computed in floating point because it may overflow an integer.
func scaleDuration(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
