package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationsAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m":   90 * time.Minute,
		"36h":   36 * time.Hour,
		"7d":    7 * day,
		"2w":    14 * day,
		"3660d": 3660 * day,
	} {
		if got, err := ParseDuration(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v (%v), want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "d", "7", "0d", "-7d", "+7d", "1.5h", "7 d", "7D", "1d12h", "30s", "3661d", "4294967295w", "99999999999999999999m", "7é"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestDurationsUseLargestExactUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		90 * time.Minute: "90m",
		36 * time.Hour:   "36h",
		14 * day:         "14d",
		24 * time.Hour:   "1d",
		0:                "0s",
		90 * time.Second: "1m30s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is printed as %s, want %s", d, got, want)
		}
	}
}

func TestPrintedDurationsParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, 3660*24*60).Draw(t, "minutes")) * time.Minute
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%s is read as %v (%v)", d, got, err)
		}
	})
}

// A date at the end of a range covers its whole day in the zone, and a time is exact.
func TestDatesCoverWholeDays(t *testing.T) {
	santiago := zone(t, "America/Santiago")
	for _, c := range []struct {
		text, first, last string
	}{
		{"2026-11-01", "2026-11-01T03:00:00Z", "2026-11-02T02:59:59Z"},
		{"2026-09-06", "2026-09-06T04:00:00Z", "2026-09-07T02:59:59Z"}, // begins at one o'clock, as midnight is skipped
		{"2026-09-05", "2026-09-05T04:00:00Z", "2026-09-06T03:59:59Z"},
		{"2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00Z", "2026-10-01T10:00:00Z"},
		{"2026-10-01T12:00Z", "2026-10-01T12:00:00Z", "2026-10-01T12:00:00Z"}, // the interface calls seconds optional
		{"2026-10-01T12:00+02:00", "2026-10-01T10:00:00Z", "2026-10-01T10:00:00Z"},
	} {
		first, err1 := parseInstant(c.text, 0, santiago)
		last, err2 := parseInstant(c.text, 1, santiago)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := first.Format(time.RFC3339); got != c.first {
			t.Errorf("from %s is %s, want %s", c.text, got, c.first)
		}
		if got := last.Format(time.RFC3339); got != c.last {
			t.Errorf("to %s is %s, want %s", c.text, got, c.last)
		}
	}
	for _, text := range []string{"2026-02-30", "2026-1-1", "today", "2026-10-01T12:00:00", "2026-10-01T12:00", "2026-10-01T12Z", "01.10.2026"} {
		if got, err := parseInstant(text, 0, santiago); err == nil {
			t.Errorf("%s is accepted as %v", text, got)
		}
	}
}
