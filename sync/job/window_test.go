package job

import (
	"testing"
	"time"
)

// TestWindowsCountCalendarDays where clocks change: such a day has 23 or 25 hours, and its midnights bound
// windows as those of any other day do.
func TestWindowsCountCalendarDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Time // of the run, or of the last success
		days string
		want string
	}{
		{time.Date(2026, 10, 25, 23, 30, 0, 0, berlin), "1d", "2026-10-23T22:00:00Z"}, // the 24th, and in hours the 25th
		{time.Date(2026, 10, 26, 23, 30, 0, 0, berlin), "2d", "2026-10-23T22:00:00Z"},
		{time.Date(2026, 11, 24, 23, 59, 0, 0, berlin), "30d", "2026-10-24T22:00:00Z"},
		{time.Date(2026, 3, 30, 0, 30, 0, 0, berlin), "1d", "2026-03-28T23:00:00Z"}, // the 29th, and in hours the 28th
		{time.Date(2026, 4, 12, 0, 15, 0, 0, berlin), "14d", "2026-03-28T23:00:00Z"},
		{time.Date(2026, 3, 29, 12, 0, 0, 0, berlin), "1d", "2026-03-27T23:00:00Z"},
	} {
		in := nothingKnown()
		in.Now = c.at
		last := one(t, `search: {query: tea, where: {published_at: "last `+c.days+`"}}`)
		if got := must(t, last, in).Asks[0].Query.Params().Get("publishedAtFrom"); got != c.want {
			t.Errorf("last %s, at %s, begins %s, want %s", c.days, c.at, got, c.want)
		}
		in.Now = c.at.AddDate(0, 0, 3)
		in.Since = func(string) (time.Time, error) { return c.at, nil }
		since := one(t, `search: {query: tea, where: {published_at: "since last success, overlap `+c.days+`"}}`)
		if got := must(t, since, in).Asks[0].Query.Params().Get("publishedAtFrom"); got != c.want {
			t.Errorf("an overlap of %s with %s begins %s, want %s", c.days, c.at, got, c.want)
		}
	}
}
