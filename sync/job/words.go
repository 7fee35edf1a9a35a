package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/yamltree"
)

var units = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': day, 'w': week}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// ParseDuration parses a whole number of minutes, hours, days of 24 hours, or weeks: "90m", "36h", "7d" or "2w". The
// value must be positive and at most ten years.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, notDuration(text)
	}
	digits, unit := text[:len(text)-1], units[text[len(text)-1]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || unit == 0 {
		return 0, notDuration(text)
	}
	const maxDuration = 3660 * day
	switch {
	case n == 0:
		return 0, notDuration(text)
	case time.Duration(n) > maxDuration/unit:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return time.Duration(n) * unit, nil
}

func notDuration(text string) error {
	return fmt.Errorf("%q is not a duration in minutes, hours, days or weeks, such as 90m, 36h, 7d or 2w", text)
}

// FormatDuration returns a duration in the largest unit that gives a whole number: "7d", "36h". If it is not a whole
// number of minutes, it has the format of package time.
func FormatDuration(t time.Duration) string {
	switch {
	case t == 0 || t%time.Minute != 0:
		return t.String()
	case t%day == 0:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	case t%time.Hour == 0:
		return strconv.FormatInt(int64(t/time.Hour), 10) + "h"
	}
	return strconv.FormatInt(int64(t/time.Minute), 10) + "m"
}

func parseInteger(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || yamltree.KindOf(text) != yamltree.Whole {
		return 0, fmt.Errorf("%q is not a whole number in digits", text)
	}
	return n, nil
}

func parseNumber(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "-+.0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number such as 2 or 0.5", text)
	}
	return x, nil
}

// ParseInstant parses a time, or a date, which means its first moment in zone.
func ParseInstant(text string, zone *time.Location) (time.Time, error) {
	return parseInstant(text, 0, zone)
}

// parseInstant parses a date or a time. A date means its first moment, or if days is 1, the second before
// the next date. The seconds of a time are optional.
func parseInstant(text string, days int, zone *time.Location) (time.Time, error) {
	exists := true
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		t, err := time.Parse(layout, text)
		switch {
		case err != nil:
			exists = exists && !strings.Contains(err.Error(), "out of range")
		case layout == time.DateOnly:
			t = clock(t.AddDate(0, 0, days), zone)
			return t.Add(-time.Duration(days) * time.Second).UTC(), nil
		default:
			return t.UTC(), nil
		}
	}
	if !exists {
		return time.Time{}, fmt.Errorf("the date %q does not exist", text)
	}
	return time.Time{}, fmt.Errorf("%q is neither a date such as 2026-10-31 nor a time such as 2026-10-31T18:00:00Z", text)
}

// parsePercent parses "10%" as 0.1, from 1% to 100%.
func parsePercent(text string) (float64, error) {
	digits, found := strings.CutSuffix(text, "%")
	x, err := parseNumber(strings.TrimSpace(digits))
	if !found || err != nil || x < 1 || x > 100 {
		return 0, fmt.Errorf("%q is not a share from 1%% to 100%%", text)
	}
	return x / 100, nil
}

// parsePages parses a number of pages, or all.
func parsePages(text string) (int, error) {
	if text == "all" {
		return AllPages, nil
	}
	return strconv.Atoi(text) // range checked by the schema
}

// A poll has the pauses between two polls of a scan, at first and at most.
type poll struct{ first, most time.Duration }

// parsePoll parses "1m..10m".
func parsePoll(text string) (poll, error) {
	low, high, _ := strings.Cut(text, "..")
	first, err := ParseDuration(low)
	most, wrong := ParseDuration(high)
	if err != nil || wrong != nil || first > most {
		return poll{}, fmt.Errorf("%q is not a range of durations in minutes, hours, days or weeks, such as 1m..10m", text)
	}
	return poll{first, most}, nil
}

// minKept is how long every answer keeps its body at least.
const minKept = day

// Least returns how long every answer keeps its body at least, whatever the retention: a day, or as long
// as a job may reuse it.
func (c *Config) Least() time.Duration {
	least := time.Duration(minKept)
	for i := range c.Jobs {
		least = max(least, c.Jobs[i].ReuseFor)
	}
	return least
}

// sizes are the units of sizes, in bytes.
var sizes = map[string]int64{"MB": 1e6, "GB": 1e9, "TB": 1e12}

func parseRetention(text string) (time.Duration, error) {
	age, err := ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an age in days or weeks, such as 400d", text)
	case age < minKept:
		return 0, fmt.Errorf("%q is shorter than a day", text)
	}
	return age, nil
}

// ParseSize parses a size of at least a megabyte, such as 500MB, and returns it in bytes.
func ParseSize(text string) (int64, error) {
	unit := text[max(0, len(text)-2):]
	n, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 31)
	size, ok := sizes[unit]
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a size, such as 500MB, 20GB or 1TB", text)
	}
	if int64(n) > 1e15/size {
		return 0, fmt.Errorf("%q is larger than 1000TB", text)
	}
	return int64(n) * size, nil
}
