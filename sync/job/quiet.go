package job

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"outlierd/sync/yamltree"
)

// quietHours are the hours of a week in which no run begins, as times on the wall clock since the beginning of a
// Sunday. They have three weeks in a row, in order and without overlaps, so that all that are around a time of the
// second week are whole.
type quietHours []period

type period struct{ from, to time.Duration }

// AfterQuiet returns a time, or the end of the job's quiet hours if it is within them.
func (s Spec) AfterQuiet(t time.Time, loc *time.Location) time.Time {
	for _, end := s.quiet.around(t, loc); !end.IsZero(); _, end = s.quiet.around(t, loc) {
		t = end
	}
	return t
}

// around returns the beginning and the end of the quiet hours that a time is within; zero times if there are none.
// Of an hour that clocks show twice, the first one counts, as for schedules: the second one belongs to what comes
// before its end.
func (q quietHours) around(t time.Time, loc *time.Location) (begin, end time.Time) {
	if len(q) == 0 || t.IsZero() {
		return begin, end
	}
	shown := wall(t, loc)
	if changed, _ := t.In(loc).ZoneBounds(); !changed.IsZero() {
		if before := wall(changed.Add(-1), loc); before.After(shown) {
			shown = before
		}
	}
	sunday := shown.Truncate(day).AddDate(0, 0, -7-int(shown.Weekday()))
	at := shown.Sub(sunday)
	for _, hours := range q {
		if hours.from <= at && at < hours.to {
			return clock(sunday.Add(hours.from), loc), clock(sunday.Add(hours.to), loc)
		}
	}
	return begin, end
}

// weekdays are the words for days, as in schedules.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// readQuiet reads quiet hours. The schema has checked the form of each.
func readQuiet(n *yamltree.Node) (quiet quietHours) {
	var all quietHours
	for _, item := range n.Members() {
		from, to, isHours := strings.Cut(item.TextOr(""), "-")
		for i := range 3 * 7 {
			hours := period{time.Duration(i) * day, time.Duration(i+1) * day}
			if isHours {
				hours.from, hours.to = hours.from+timeOfDay(from), hours.from+timeOfDay(to)
				if hours.to <= hours.from {
					hours.to += day
				}
			}
			if isHours || weekdays[i%7] == from {
				all = append(all, hours)
			}
		}
	}
	slices.SortFunc(all, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	for _, hours := range all {
		last := len(quiet) - 1
		if last < 0 || hours.from > quiet[last].to {
			quiet = append(quiet, hours)
			continue
		}
		if quiet[last].to = max(quiet[last].to, hours.to); quiet[last].to-quiet[last].from >= week {
			n.Head().RefuseWithHint("leave some hours, or write enabled: false", "has all hours of the week: no run could begin")
			return nil
		}
	}
	return quiet
}

// timeOfDay parses a time such as 22:00.
func timeOfDay(text string) time.Duration {
	hour, minute, _ := strings.Cut(text, ":")
	d, _ := time.ParseDuration(hour + "h" + minute + "m") // checked by the schema
	return d
}
