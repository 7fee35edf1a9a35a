package pace

import (
	"math"
	"testing"
	"time"
)

func TestParseQuota(t *testing.T) {
	for _, tt := range []struct {
		text, canonical string
		want            Quota
	}{
		{"10/min", "10/min", Quota{10, time.Minute}},
		{"30/10s", "30/10s", Quota{30, 10 * time.Second}},
		{"100/h", "100/h", Quota{100, time.Hour}},
		{" 10 / m ", "10/min", Quota{10, time.Minute}},
		{"10/60s", "10/min", Quota{10, time.Minute}},
		{"5/s", "5/s", Quota{5, time.Second}},
		{"100000/minute", "100000/min", Quota{100000, time.Minute}},
		{"200/day", "200/day", Quota{200, 24 * time.Hour}},
		{"200/24h", "200/day", Quota{200, 24 * time.Hour}},
		{"20/15m", "20/15m", Quota{20, 15 * time.Minute}},
		{"20/2h", "20/2h", Quota{20, 2 * time.Hour}},
		{"3/1.5s", "3/1.5s", Quota{3, 1500 * time.Millisecond}},
	} {
		q, err := ParseQuota(tt.text)
		if err != nil || q != tt.want || q.String() != tt.canonical {
			t.Errorf("ParseQuota(%q) = %+v (%q), %v; want %+v (%q)", tt.text, q, q, err, tt.want, tt.canonical)
		}
		if again, err := ParseQuota(q.String()); err != nil || again != q {
			t.Errorf("ParseQuota(%q) = %+v, %v; want %+v", q, again, err, q)
		}
	}
}

func TestParseQuotaRefusesOtherText(t *testing.T) {
	for _, text := range []string{
		"", "10", "10/", "/min", "min/10", "0/min", "-1/min", "1.5/min", "10/0s", "10/-1m", "10/100ms", "10/25h",
		"10/week", "10 min", "99999999999999999999/min",
	} {
		if q, err := ParseQuota(text); err == nil {
			t.Errorf("ParseQuota(%q) = %v, want an error", text, q)
		}
	}
	if _, err := Open(Quota{}, Options{}); err == nil {
		t.Error("Open accepts a quota of zero, want an error")
	}
}

// TestQuotaTimeDoesNotOverflow: a job may ask for so many requests that the time does not fit in a Duration.
func TestQuotaTimeDoesNotOverflow(t *testing.T) {
	for _, c := range []struct {
		quota Quota
		n     int
		want  time.Duration
	}{
		{Quota{10, time.Minute}, 25, 150 * time.Second},
		{Quota{1, 24 * time.Hour}, 120_801, math.MaxInt64},
		{Quota{100, 24 * time.Hour}, 120_801, 28_992*time.Hour + 14*time.Minute + 24*time.Second},
		{Quota{10, time.Minute}, math.MaxInt, math.MaxInt64},
		{Quota{10, time.Minute}, -1, 0},
	} {
		if got := c.quota.Time(c.n); got.Round(time.Second) != c.want.Round(time.Second) {
			t.Errorf("Time(%d) at %s = %s, want %s", c.n, c.quota, got, c.want)
		}
	}
}
