package job

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/sync/yamltree"

	"github.com/robfig/cron/v3"
)

// Next returns the first due time of the job after the given time, or the zero time if the job has no
// schedule. A due time of several schedules is one. Due times within quiet hours are moved to their end, where all of
// them are one; they are dropped if the job has a due time of its own later that day.
//
// A schedule refers to the wall clock in loc, which jumps twice a year. A job with fixed hours is due
// once per wall time: a time that is skipped is due when the clocks jump, and one that occurs twice is
// due the first time. A job that runs every hour follows elapsed time: it also runs in the repeated
// hour, and does not make up for the skipped one.
func (s Spec) Next(after time.Time, loc *time.Location) time.Time {
	if s.Disabled {
		return time.Time{}
	}
	for begin, _ := s.quiet.around(after, loc); !begin.IsZero(); begin, _ = s.quiet.around(after, loc) {
		after = begin.Add(-1) // the due times since then are moved past after
	}
	due := s.nextUnmoved(after, loc)
	end := s.AfterQuiet(due, loc)
	if !end.After(due) {
		return due
	}
	date := wall(end, loc).Truncate(day)
	for own := s.nextUnmoved(end.Add(-1), loc); wall(own, loc).Truncate(day).Equal(date); own = s.nextUnmoved(own, loc) {
		if s.AfterQuiet(own, loc).Equal(own) {
			return own
		}
	}
	return end
}

// nextUnmoved is [Spec.Next] without quiet hours.
func (s Spec) nextUnmoved(after time.Time, loc *time.Location) (next time.Time) {
	if s.Every > 0 {
		t, every := after.UnixNano(), int64(s.Every)
		past := (t%every + every) % every // since the last multiple of every, also before 1970
		return time.Unix(0, t-past+every).In(loc)
	}
	for _, times := range s.times {
		if due := nextTime(times, after, loc); next.IsZero() || !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	return next
}

// Begins returns when the run of a due time begins: at the due time or, with jitter, up to that much
// later, and before the next due time and outside quiet hours. The delay, in whole seconds, is derived from the
// job's name and the due time, so that it is the same after a restart and in other processes.
func (s Spec) Begins(due time.Time, loc *time.Location) time.Time {
	most := s.Jitter
	if next := s.Next(due, loc); !next.IsZero() {
		most = min(most, next.Sub(due))
	}
	if most < time.Second {
		return due
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", s.Name, due.Unix()))
	delay := time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(most/time.Second)) * time.Second
	for begin, _ := s.quiet.around(due.Add(delay), loc); begin.After(due); begin, _ = s.quiet.around(due.Add(delay), loc) {
		delay %= begin.Sub(due)
	}
	return due.Add(delay)
}

// Last returns the last due time after the first of two times and not after the second, or the zero time.
func (s Spec) Last(after, until time.Time, loc *time.Location) time.Time {
	return lastDue(func(t time.Time) time.Time { return s.Next(t, loc) }, after, until)
}

// lastDue returns the last due time after the first of two times and not after the second, or the zero time. next
// returns the first due time after a time.
func lastDue(next func(time.Time) time.Time, after, until time.Time) time.Time {
	isLater := func(due time.Time) bool { return due.IsZero() || due.After(until) }
	if !until.After(after) || isLater(next(after)) {
		return time.Time{}
	}
	for end := until; end.Sub(after) > time.Second; { // due times are at least that far apart
		if middle := after.Add(end.Sub(after) / 2); isLater(next(middle)) {
			end = middle
		} else {
			after = middle
		}
	}
	return next(after)
}

// Coming returns the first due time whose run has not begun by now, or the zero time. A run begins before
// the next due time, so jitter can delay only that of the last one.
func (s Spec) Coming(now time.Time, loc *time.Location) time.Time {
	if due := s.Last(now.Add(-s.Jitter), now, loc); !due.IsZero() && s.Begins(due, loc).After(now) {
		return due
	}
	return s.Next(now, loc)
}

// A cronTimes is the times of a cron expression, which refer to the wall clock; nil for none.
type cronTimes = *cron.SpecSchedule

// starBit is the library's mark for a field that is *.
const starBit = 1 << 63

// nextTime returns the first time after another that an expression includes, or the zero time.
func nextTime(times cronTimes, after time.Time, loc *time.Location) time.Time {
	switch {
	case times == nil:
		return time.Time{}
	case times.Hour&^starBit == 1<<24-1: // every hour of the day
		return nextElapsed(times, after, loc)
	}
	for shown := nextWall(times, wall(after, loc)); !shown.IsZero(); shown = nextWall(times, shown) {
		if t := clock(shown, loc); t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// nextWall returns the first wall time after another that an expression includes, or the zero time. It spares the
// library the seconds until the next minute.
func nextWall(times cronTimes, shown time.Time) time.Time {
	return times.Next(shown.Truncate(time.Minute).Add(time.Minute - time.Second))
}

// nextElapsed is [nextTime] for an expression with every hour of the day.
func nextElapsed(times cronTimes, after time.Time, loc *time.Location) time.Time {
	t := after.In(loc)
	for shown := wall(t, loc); ; {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		next := nextWall(times, shown)
		if next.IsZero() {
			return time.Time{}
		}
		at := next.Add(-time.Duration(offset) * time.Second).In(loc)
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end // the clocks change before that: continue from the change
		shown = wall(end, loc).Add(-time.Second)
	}
}

// wall returns the wall time in loc at t, in UTC: a time line without jumps, for the arithmetic of
// schedules.
func wall(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// clock returns the first moment at which clocks in loc show the given wall time or a later one. For a
// skipped time that is the end of the gap, and for a time that occurs twice the first occurrence.
func clock(shown time.Time, loc *time.Location) time.Time {
	t := shown.Add(-day).In(loc) // no zone differs from UTC by a day
	for {
		_, offset := t.Zone()
		start, end := t.ZoneBounds()
		at := shown.Add(-time.Duration(offset) * time.Second).In(loc)
		if end.IsZero() || at.Before(end) {
			if at.Before(start) {
				return start
			}
			return at
		}
		t = end
	}
}

// parseCron parses an expression of five fields, or a shorthand in any case. The library gets no other zone, because it
// panics on some.
func parseCron(expression string) (cronTimes, error) {
	text, parts := strings.ToLower(strings.TrimSpace(expression)), strings.Fields(expression)
	if slices.Contains(shorthands, text) {
		parts = []string{text}
	} else if err := checkFields(text, parts); err != nil {
		return nil, err
	} else {
		parts[4] = withSunday7(parts[4])
	}
	s, err := cron.ParseStandard("CRON_TZ=UTC " + strings.Join(parts, " "))
	due, ok := s.(cronTimes)
	switch {
	case err != nil || !ok:
		return nil, fmt.Errorf("is not a cron expression: %v", err)
	case nextWall(due, time.Unix(0, 0).UTC()).IsZero():
		return nil, fmt.Errorf("is never due: no month has this day")
	}
	return due, nil
}

// checkFields refuses what is no expression of five fields: the library's errors do not say which field is wrong.
func checkFields(text string, parts []string) error {
	_, noPeriod := time.ParseDuration(strings.TrimPrefix(text, "every "))
	switch {
	case strings.HasPrefix(text, "auto"):
		return fmt.Errorf("must be auto, or auto with a time of day, as in auto at 06:30")
	case noPeriod == nil:
		return fmt.Errorf("must be a cron expression; for a period use every, as in every: 6h")
	case strings.Contains(text, "tz="):
		return fmt.Errorf("must not name a time zone; use `timezone` at the top of the file")
	case strings.HasPrefix(text, "@every"):
		return fmt.Errorf("@every is not supported; use every, as in every: 6h")
	case len(parts) == 1:
		if word := yamltree.Nearest("@"+strings.TrimPrefix(text, "@"), shorthands); word != "" {
			return fmt.Errorf("must be a cron expression; did you mean %q?", word)
		}
		return fmt.Errorf("must be a cron expression of five fields, " +
			"or @hourly, @daily, @weekly, @monthly or @yearly")
	case len(parts) != len(fields):
		return fmt.Errorf("must have 5 fields "+
			"(minute, hour, day of the month, month, day of the week), got %d", len(parts))
	}
	for i, part := range parts {
		if i == 4 {
			part = withSunday7(part)
		}
		if err := checkField(part, i); err != nil {
			return err
		}
	}
	return nil
}

// fields are the five fields of a cron expression. A step must be less than size.
var fields = [...]struct {
	name, example string
	size          int
}{
	{"minute", "0 to 59", 60},
	{"hour", "0 to 23", 24},
	{"day of the month", "1 to 31", 31},
	{"month", "1 to 12 or jan to dec", 12},
	{"day of the week", "0 to 7 or sun to sat", 7},
}

// shorthands are what the library reads in place of five fields.
var shorthands = []string{"@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"}

// checkField parses one field, with * in the other four.
func checkField(part string, i int) error {
	for member := range strings.SplitSeq(part, ",") {
		if m := stepSize().FindStringSubmatch(member); m != nil {
			if n, err := strconv.Atoi(m[1]); err != nil || n >= fields[i].size && n > 1 {
				return fmt.Errorf("the step of the %s (%s) must be less than %d, got %s",
					fields[i].name, fields[i].example, fields[i].size, m[1])
			}
		}
		all := [...]string{"*", "*", "*", "*", "*"}
		all[i] = member
		if _, err := cron.ParseStandard(strings.Join(all[:], " ")); err != nil || member == "" {
			return fmt.Errorf("the %s must be %s, got %q", fields[i].name, fields[i].example, member)
		}
	}
	return nil
}

var stepSize = lazyregexp.New(`/([0-9]+)$`)

// withSunday7 replaces 7 by 0 for Sunday in the day of the week, also at the end of a range.
func withSunday7(part string) string {
	members := strings.Split(part, ",")
	for i, member := range members {
		if first, isRange := strings.CutSuffix(member, "-7"); isRange {
			members[i] = first + "-6,0"
		} else if member == "7" {
			members[i] = "0"
		}
	}
	return strings.Join(members, ",")
}
