package job

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/yamltree"
)

// Duration is a stretch of time as the file writes it: a whole number of minutes,
// hours, days of 24 hours, or weeks.
type Duration time.Duration

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var units = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': day, 'w': week}

// ParseDuration reads "90m", "36h", "7d" or "2w": more than nothing, and at most ten
// years.
func ParseDuration(text string) (Duration, error) {
	if text == "" {
		return 0, notDuration(text)
	}
	digits, unit := text[:len(text)-1], units[text[len(text)-1]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || unit == 0 {
		return 0, notDuration(text)
	}
	const most = 3660 * day
	switch {
	case n == 0:
		return 0, notDuration(text)
	case time.Duration(n) > most/unit:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return Duration(time.Duration(n) * unit), nil
}

func notDuration(text string) error {
	return fmt.Errorf("%q is not a duration in minutes, hours, days or weeks, such as 90m, 36h, 7d or 2w", text)
}

// String writes d in the largest unit that leaves a whole number: "7d", "36h". What
// has no whole minutes is written as Go does.
func (d Duration) String() string {
	t := time.Duration(d)
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

// A span bounds a quantity on either side, both ends included; nil is no bound.
type span[T any] struct{ From, To *T }

// parseRange reads "a..b", "a.." or "..b"; from and to read the ends.
func parseRange[T any](text string, from, to func(string) (T, error)) (r span[T], err error) {
	low, high, found := strings.Cut(text, "..")
	if !found || low == "" && high == "" {
		return r, fmt.Errorf("%q is not a range; write a..b, a.. or ..b", text)
	}
	if low != "" {
		v, err := from(low)
		if err != nil {
			return r, err
		}
		r.From = &v
	}
	if high != "" {
		v, err := to(high)
		if err != nil {
			return r, err
		}
		r.To = &v
	}
	return r, nil
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

// instants read the ends of a range of dates: a date means its first moment as the
// beginning of a range and its last second as the end, so that both days belong to it.
func instants(zone *time.Location) (from, to func(string) (time.Time, error)) {
	from = func(text string) (time.Time, error) { return parseInstant(text, 0, zone) }
	to = func(text string) (time.Time, error) { return parseInstant(text, 1, zone) }
	return from, to
}

// ParseInstant reads a time, or a date, of which it takes the first moment in zone.
func ParseInstant(text string, zone *time.Location) (time.Time, error) {
	return parseInstant(text, 0, zone)
}

// parseInstant reads a date or a time. Of a date it takes the first moment, or for
// days 1 the second before the next date. The seconds of a time may be left out.
func parseInstant(text string, days int, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	d, err := time.Parse(time.DateOnly, text)
	switch {
	case err != nil && noDate(text):
		return time.Time{}, fmt.Errorf("the date %s does not exist%s",
			text[:len(time.DateOnly)], leapHint(text))
	case err != nil:
		return time.Time{}, fmt.Errorf("%q is neither a date such as 2026-10-31 nor a time such as 2026-10-31T18:00:00Z",
			text)
	}
	t := clock(d.AddDate(0, 0, days), zone)
	return t.Add(-time.Duration(days) * time.Second).UTC(), nil
}

// dateForm is the form of a date, or of a time.
var dateForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T.*)?$`)

// noDate reports whether text has the form of a date that no calendar has.
func noDate(text string) bool {
	if !dateForm.MatchString(text) {
		return false
	}
	_, err := time.Parse(time.DateOnly, text[:len(time.DateOnly)])
	return err != nil
}

// leapHint explains why the calendar has no such day, if that is easily overlooked.
func leapHint(text string) string {
	if text[4:10] == "-02-29" {
		return ": February has 29 days in leap years only"
	}
	return ""
}

// parsePercent reads "10%" as 0.1: from 1% to 100%.
func parsePercent(text string) (float64, error) {
	digits, found := strings.CutSuffix(text, "%")
	x, err := parseNumber(strings.TrimSpace(digits))
	if !found || err != nil || x < 1 || x > 100 {
		return 0, fmt.Errorf("%q is not a share from 1%% to 100%%", text)
	}
	return x / 100, nil
}

// parsePoll reads "1m..10m": how long to wait between two looks at a scan, at first
// and at most.
func parsePoll(text string) (first, most time.Duration, err error) {
	r, err := parseRange(text, ParseDuration, ParseDuration)
	switch {
	case err != nil:
		return 0, 0, err
	case r.From == nil || r.To == nil || *r.From > *r.To:
		return 0, 0, fmt.Errorf("%q is not a range of durations such as 1m..10m", text)
	}
	return time.Duration(*r.From), time.Duration(*r.To), nil
}

// A window is a stretch of time that ends now and begins with a day. The zero window
// is no window.
type window struct {
	Since bool          // it begins where the last success did, less Overlap; else Last ago
	Last  time.Duration // how long it is; with Since, if there was no success yet

	Overlap time.Duration  // with Since
	Zone    *time.Location `json:"-"` // whose midnights bound it; nil is UTC
}

// The parts of a window since the last success that are not given. Videos become
// outliers days after they appear, so that each search looks back again.
const (
	defaultOverlap = 14 * day
	defaultFirst   = 30 * day
)

// begin is where the window begins: at the midnight before, so that a search repeated
// within a day is the same request, which the service answers from its cache for
// nothing (interface, Credit rules 1). The last success is zero if there was none.
func (w window) begin(now, last time.Time) time.Time {
	if w.Since && !last.IsZero() {
		return w.midnight(last, w.Overlap)
	}
	return w.midnight(now, w.Last)
}

// midnight counts whole days by the calendar, so that a change of the clocks within
// the window does not move its first day.
func (w window) midnight(from time.Time, back time.Duration) time.Time {
	zone := cmp.Or(w.Zone, time.UTC)
	year, month, date := from.In(zone).AddDate(0, 0, -int(back/day)).Add(-(back % day)).Date()
	return clock(time.Date(year, month, date, 0, 0, 0, 0, time.UTC), zone)
}

// parseWindow reads "last 30d" and "since last success, overlap 14d, first 30d", of
// which the parts behind the first comma may be left out and stand in any order.
func parseWindow(text string) (window, error) {
	if length, found := strings.CutPrefix(text, "last "); found {
		d, err := ParseDuration(strings.TrimSpace(length))
		return window{Last: time.Duration(d)}, err
	}
	begin, parts, _ := strings.Cut(text, ",")
	if strings.TrimSpace(begin) != "since last success" {
		return window{}, fmt.Errorf("must be dates such as 2026-10-01..2026-10-31, last 30d, "+
			"or since last success, overlap 14d, first 30d, got %q", text)
	}
	w := window{Since: true}
	for part := range strings.SplitSeq(parts, ",") {
		if err := w.part(strings.TrimSpace(part)); err != nil && parts != "" {
			return window{}, err
		}
	}
	w.Overlap, w.Last = cmp.Or(w.Overlap, defaultOverlap), cmp.Or(w.Last, defaultFirst)
	return w, nil
}

// part reads "overlap 14d" or "first 30d".
func (w *window) part(text string) error {
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
	*into = time.Duration(d)
	return nil
}

// SinceLastSuccess reports whether the job searches from where its last success began, which is
// what its cursors are for.
func (s *Spec) SinceLastSuccess() bool {
	return s.ask.Window.Since || s.ask.Read != nil && s.ask.Read.Window.Since
}

// PublishedAt is the job's published_at as the file has it; "" if it has none, and where a
// person has overridden it.
func (s *Spec) PublishedAt() string {
	if s.ask.Read != nil {
		return s.ask.Read.published
	}
	return s.ask.published
}
