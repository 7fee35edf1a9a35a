package job

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
)

// A window is a period of time that begins at a midnight and ends now. The zero window means none.
type window struct {
	Since bool          // it begins at the last success, less Overlap; otherwise Last ago
	Last  time.Duration // its length; with Since, if there was no success yet

	Overlap time.Duration // with Since
}

// parseWindow parses "last 30d" and "since last success, overlap 14d, first 30d", of which each part after a comma is
// optional.
func parseWindow(text string) (window, error) {
	if length, found := strings.CutPrefix(text, "last "); found {
		d, err := ParseDuration(strings.TrimSpace(length))
		return window{Last: d}, err
	}
	parts := sinceForm().FindStringSubmatch(text)
	if parts == nil {
		return window{}, fmt.Errorf("must be dates such as 2026-10-01..2026-10-31, last 30d, "+
			"or since last success, overlap 14d, first 30d, got %q", text)
	}
	overlap, err := ParseDuration(cmp.Or(parts[1], defaultOverlap))
	if err != nil {
		return window{}, fmt.Errorf("overlap: %w", err)
	}
	first, err := ParseDuration(cmp.Or(parts[2], defaultFirst))
	if err != nil {
		return window{}, fmt.Errorf("first: %w", err)
	}
	return window{Since: true, Overlap: overlap, Last: first}, nil
}

var sinceForm = lazyregexp.New(`^since last success(?: ?, ?overlap (\w+))?(?: ?, ?first (\w+))?$`)

// Defaults of a window since the last success. Videos become outliers days after they are published, so
// each search goes back further.
const (
	defaultOverlap = "14d"
	defaultFirst   = "30d"
)

// beginAt returns the beginning of the window, at the midnight in zone before, so that a search repeated within a
// day is the same request, which the service answers from its cache for free (interface, Credit
// rules 1). last is the last success; zero if there was none.
func (w window) beginAt(now, last time.Time, zone *time.Location) time.Time {
	if w.Since && !last.IsZero() {
		return midnightBefore(last, w.Overlap, zone)
	}
	return midnightBefore(now, w.Last, zone)
}

// midnightBefore subtracts whole days by the calendar, so that a clock change within the window does not move
// its first day.
func midnightBefore(from time.Time, back time.Duration, zone *time.Location) time.Time {
	year, month, date := from.In(zone).AddDate(0, 0, -int(back/day)).Add(-(back % day)).Date()
	return clock(time.Date(year, month, date, 0, 0, 0, 0, time.UTC), zone)
}
