package job

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A window is a period of time that begins at a midnight and ends now. The zero window means none.
type window struct {
	Since bool          // it begins at the last success, less Overlap; otherwise Last ago
	Last  time.Duration // its length; with Since, if there was no success yet

	Overlap time.Duration  // with Since
	Zone    *time.Location `json:"-"` // of the midnights; nil is UTC
}

// parseWindow parses "last 30d" and "since last success, overlap 14d, first 30d". The parts after the first
// comma are optional and may be in any order.
func parseWindow(text string) (window, error) {
	if length, found := strings.CutPrefix(text, "last "); found {
		d, err := ParseDuration(strings.TrimSpace(length))
		return window{Last: d}, err
	}
	begin, parts, _ := strings.Cut(text, ",")
	if strings.TrimSpace(begin) != "since last success" {
		return window{}, fmt.Errorf("must be dates such as 2026-10-01..2026-10-31, last 30d, "+
			"or since last success, overlap 14d, first 30d, got %q", text)
	}
	w := window{Since: true}
	for part := range strings.SplitSeq(parts, ",") {
		if err := w.parsePart(strings.TrimSpace(part)); err != nil && parts != "" {
			return window{}, err
		}
	}
	w.Overlap, w.Last = cmp.Or(w.Overlap, defaultOverlap), cmp.Or(w.Last, defaultFirst)
	return w, nil
}

// parsePart parses "overlap 14d" or "first 30d".
func (w *window) parsePart(text string) error {
	name, length, _ := strings.Cut(text, " ")
	into := map[string]*time.Duration{"overlap": &w.Overlap, "first": &w.Last}[name]
	switch {
	case into == nil:
		return fmt.Errorf("%q is not part of a window; write since last success, overlap 14d, first 30d", text)
	case *into != 0:
		return fmt.Errorf("%s is given twice", name)
	}
	d, err := ParseDuration(strings.TrimSpace(length))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = d
	return nil
}

// Defaults of a window since the last success. Videos become outliers days after they are published, so
// each search goes back further.
const (
	defaultOverlap = 14 * day
	defaultFirst   = 30 * day
)

// beginAt returns the beginning of the window, at the midnight before, so that a search repeated within a
// day is the same request, which the service answers from its cache for free (interface, Credit
// rules 1). last is the last success; zero if there was none.
func (w window) beginAt(now, last time.Time) time.Time {
	if w.Since && !last.IsZero() {
		return w.midnightBefore(last, w.Overlap)
	}
	return w.midnightBefore(now, w.Last)
}

// midnightBefore subtracts whole days by the calendar, so that a clock change within the window does not move
// its first day.
func (w window) midnightBefore(from time.Time, back time.Duration) time.Time {
	zone := cmp.Or(w.Zone, time.UTC)
	year, month, date := from.In(zone).AddDate(0, 0, -int(back/day)).Add(-(back % day)).Date()
	return clock(time.Date(year, month, date, 0, 0, 0, 0, time.UTC), zone)
}
