package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/sync/yamltree"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// timed parses a job with these settings, in a time zone.
func timed(t *testing.T, zone, settings string) (*Spec, *time.Location) {
	t.Helper()
	config := parse(t, fmt.Sprintf("version: 1\ntimezone: %s\nservice: {url: \"sim://\"}\njobs: {a: {%s, search: {query: tea, sort: published_at desc}}}\n", zone, settings))
	return config.Job("a"), config.Timezone
}

func TestQuietHoursMoveDueTimes(t *testing.T) {
	const night = `quiet: ["22:00-06:00", sat, sun], `
	for _, c := range []struct {
		name, zone, settings, after string
		want                        []string
	}{
		{"a list is the union of its schedules", "Europe/Berlin", `schedule: ["0 8 * * *", "30 7 * * mon-fri", "@weekly"]`, "2026-11-28T00:00:00+01:00",
			[]string{"2026-11-28T08:00:00+01:00", "2026-11-29T00:00:00+01:00", "2026-11-29T08:00:00+01:00", "2026-11-30T07:30:00+01:00"}},
		{"equal due times are one", "UTC", `schedule: ["0 8 * * *", "0 8,9 * * *", "@hourly"]`, "2026-11-28T07:00:00Z",
			[]string{"2026-11-28T08:00:00Z", "2026-11-28T09:00:00Z"}},
		{"a night and a weekend are one", "Europe/Berlin", night + `schedule: "0 */4 * * *"`, "2026-11-27T16:00:00+01:00",
			[]string{"2026-11-27T20:00:00+01:00", "2026-11-30T08:00:00+01:00", "2026-11-30T12:00:00+01:00"}},
		{"the night of a nightly job moves to its end", "Europe/Berlin", night + `schedule: "0 3 * * *"`, "2026-11-26T12:00:00+01:00",
			[]string{"2026-11-27T06:00:00+01:00", "2026-11-30T06:00:00+01:00", "2026-12-01T06:00:00+01:00"}},
		{"a later due time of the day that is quiet does not count", "Europe/Berlin", night + `schedule: ["0 3 * * *", "0 23 * * *"]`, "2026-11-26T12:00:00+01:00",
			[]string{"2026-11-27T06:00:00+01:00", "2026-11-30T06:00:00+01:00"}},
		{"within them the next due time is their end", "Europe/Berlin", night + `schedule: "0 23 * * *"`, "2026-11-29T12:34:00+01:00",
			[]string{"2026-11-30T06:00:00+01:00", "2026-12-01T06:00:00+01:00"}},
		{"nothing is due at an end without reason", "Europe/Berlin", night + `schedule: "0 20 * * *"`, "2026-11-26T20:00:00+01:00",
			[]string{"2026-11-27T20:00:00+01:00", "2026-11-30T20:00:00+01:00", "2026-12-01T20:00:00+01:00"}},
		{"their beginning is quiet and their end is not", "UTC", `quiet: 22:00-06:00, schedule: ["59 21 * * *", "0 22 * * *", "0 6 * * *", "1 6 * * *"]`, "2026-11-27T12:00:00Z",
			[]string{"2026-11-27T21:59:00Z", "2026-11-28T06:00:00Z", "2026-11-28T06:01:00Z", "2026-11-28T21:59:00Z"}},
		{"every is moved too", "Asia/Kolkata", `quiet: [22:00-06:00], every: 24h`, "2026-11-27T05:00:00+05:30",
			[]string{"2026-11-27T06:00:00+05:30", "2026-11-28T06:00:00+05:30"}},
		{"auto is moved too", "UTC", `quiet: [00:00-07:00], schedule: [auto at 06:30], budget: {per_month: 200}`, "2026-11-27T12:00:00Z",
			[]string{"2026-11-28T07:00:00Z", "2026-11-29T07:00:00Z"}},
		{"a night in which an hour is skipped", "Europe/Berlin", `quiet: [22:00-06:00], schedule: "@hourly"`, "2026-03-28T21:00:00+01:00",
			[]string{"2026-03-29T06:00:00+02:00", "2026-03-29T07:00:00+02:00"}},
		{"a night in which an hour comes twice", "Europe/Berlin", `quiet: [22:00-06:00], schedule: "@hourly"`, "2026-10-24T21:00:00+02:00",
			[]string{"2026-10-25T06:00:00+01:00", "2026-10-25T07:00:00+01:00"}},
		{"an end that is skipped is when the clocks jump", "Europe/Berlin", `quiet: [22:00-02:30], schedule: "0 1 * * *"`, "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"the first hour after an end that comes twice", "Europe/Berlin", `quiet: [22:00-02:30], schedule: "@hourly"`, "2026-10-24T21:00:00+02:00",
			[]string{"2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"a beginning that comes twice is the first", "Europe/Berlin", `quiet: [02:30-05:00], schedule: "*/20 * * * *"`, "2026-10-25T02:15:00+02:00",
			[]string{"2026-10-25T02:20:00+02:00", "2026-10-25T05:00:00+01:00"}},
		{"an end after the hour that comes twice", "Europe/Berlin", `quiet: [22:00-03:00], schedule: "*/30 * * * *"`, "2026-10-24T21:30:00+02:00",
			[]string{"2026-10-25T03:00:00+01:00", "2026-10-25T03:30:00+01:00"}},
		{"quiet hours that are skipped", "Europe/Berlin", `quiet: [02:10-02:50], schedule: "30 2 * * *"`, "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:50:00+02:00"}},
		{"quiet hours that meet where an hour is skipped", "Europe/Berlin", `quiet: [22:00-02:00, 03:00-06:00], schedule: "0 1 * * *"`, "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T06:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"a Saturday of 25 hours", "America/Santiago", `quiet: [sat], schedule: "@hourly"`, "2026-04-03T23:00:00-03:00",
			[]string{"2026-04-05T00:00:00-04:00", "2026-04-05T01:00:00-04:00"}},
		{"a Sunday without a midnight", "America/Santiago", `quiet: [sun], schedule: "@hourly"`, "2026-09-05T23:00:00-04:00",
			[]string{"2026-09-07T00:00:00-03:00"}},
		{"a Friday that there never was", "Pacific/Apia", `quiet: [sun, mon, tue, wed, thu, sat], schedule: "0 6 * * *"`, "2011-12-23T06:00:00-10:00",
			[]string{"2012-01-06T06:00:00+14:00", "2012-01-13T06:00:00+14:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, loc := timed(t, c.zone, c.settings)
			due, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range c.want {
				due = spec.Next(due, loc)
				got = append(got, due.Format(time.RFC3339))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// quietWords draws quiet hours that leave some of the week.
func quietWords(t *rapid.T) []string {
	words := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"sat", "sun", "wed"}), 0, 3, rapid.ID).Draw(t, "days")
	for range rapid.IntRange(0, 2).Draw(t, "hours") {
		from := rapid.SampledFrom([]int{0, 60, 120, 150, 180, 1320, 1410}).Draw(t, "from")
		to := from + rapid.SampledFrom([]int{1, 20, 60, 150, 480}).Draw(t, "minutes")
		words = append(words, fmt.Sprintf("%02d:%02d-%02d:%02d", from/60, from%60, to/60%24, to%60))
	}
	return words
}

// isQuiet reports whether one of the words has a time on the clock.
func isQuiet(words []string, shown time.Time) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		from, to, isHours := strings.Cut(word, "-")
		switch at := shown.Format("15:04"); {
		case !isHours:
			return strings.EqualFold(shown.Format("Mon"), word)
		case from < to:
			return from <= at && at < to
		default:
			return from <= at || at < to
		}
	})
}

// TestNextMergesSchedulesOutsideQuietHours: over days in which clocks change, the due times are those of the
// single schedules, each moved to the first minute that is not quiet. A minute is quiet if clocks show a quiet
// time for the first time. Each run begins outside quiet hours and before the next due time.
func TestNextMergesSchedulesOutsideQuietHours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		words := quietWords(t)
		spec := Spec{Name: "coffee", Jitter: time.Duration(rapid.IntRange(0, 600).Draw(t, "jitter")) * time.Minute}
		list := yamltree.New("jobs.yaml", []byte(fmt.Sprintf("[%s]", strings.Join(words, ", "))), nil).Parse()
		spec.quiet = readQuiet(list)
		var parts []Spec
		var schedules []string
		if rapid.IntRange(0, 4).Draw(t, "every") == 0 {
			spec.Every = time.Duration(rapid.IntRange(15, 600).Draw(t, "period")) * time.Minute
			parts = append(parts, Spec{Every: spec.Every})
		} else {
			for range rapid.IntRange(1, 3).Draw(t, "schedules") {
				one := onCron(t, cronExpression(t))
				schedules = append(schedules, one.Schedule...)
				parts, spec.times = append(parts, one), append(spec.times, one.times...)
			}
		}
		from := time.Unix(rapid.Int64Range(1262304000/60, 1893456000/60).Draw(t, "from")*60, 0)
		if _, change := from.In(loc).ZoneBounds(); !change.IsZero() && rapid.IntRange(0, 3).Draw(t, "near") > 0 {
			from = change.Add(-time.Duration(rapid.IntRange(0, 3*24*60).Draw(t, "before")) * time.Minute)
		}
		until := from.Add(7 * day)
		isDue := map[time.Time]bool{}
		for _, one := range parts {
			for due := one.Next(from.Add(-1), loc); due.Before(until.Add(2*day)) && !due.IsZero(); due = one.Next(due, loc) {
				isDue[due.UTC()] = true
			}
		}
		var want []time.Time
		quiet := map[time.Time]bool{}
		latest, waits := wall(from.Add(-2*time.Hour), loc), false
		isDueLater := func(at time.Time) bool { // on the same day, outside quiet hours
			shown := latest
			for later := at; wall(later, loc).Truncate(day).Equal(wall(at, loc).Truncate(day)); later = later.Add(time.Minute) {
				if now := wall(later, loc); now.After(shown) {
					shown = now
				}
				if isDue[later] && !isQuiet(words, shown) {
					return true
				}
			}
			return false
		}
		for at := from.Add(-2 * time.Hour).UTC(); at.Before(until); at = at.Add(time.Minute) {
			if shown := wall(at, loc); shown.After(latest) {
				latest = shown
			}
			quiet[at] = isQuiet(words, latest)
			if waits = waits || isDue[at]; waits && !quiet[at] && (isDue[at] || !isDueLater(at)) {
				want, waits = append(want, at), false
			}
		}
		first := from
		for quiet[first.UTC()] { // due times before from are moved past it
			first = first.Add(time.Minute)
		}
		want = slices.DeleteFunc(want, func(due time.Time) bool { return !due.After(first) })
		for at, due := range want {
			before := first
			if at > 0 {
				before = want[at-1]
			}
			after := before.Add(time.Duration(rapid.Int64Range(0, int64(due.Sub(before))-1).Draw(t, "after")))
			if got := spec.Next(after, loc); !got.Equal(due) {
				t.Fatalf("%v %v with quiet %v after %s is due %s, want %s", parts[0].Every, schedules, words, after.In(loc), got, due.In(loc))
			}
			begins := spec.Begins(due, loc)
			if next := spec.Next(due, loc); begins.Before(due) || begins.Sub(due) > spec.Jitter || !next.IsZero() && !begins.Before(next) {
				t.Fatalf("due %s, begins %s, with a jitter of %s and %s next", due, begins, spec.Jitter, next)
			}
			if at := begins.Truncate(time.Minute).UTC(); quiet[at] {
				t.Fatalf("the run due %s begins %s, with quiet %v", due.In(loc), begins.In(loc), words)
			}
		}
	})
}

// TestRequestIgnoresDueTimes, so that an edit of them does not keep an unfinished run from being continued.
func TestRequestIgnoresDueTimes(t *testing.T) {
	plain, _ := timed(t, "UTC", "every: 1h")
	edited, _ := timed(t, "Europe/Berlin", `schedule: ["@daily", "@weekly"], quiet: [sat], tags: [coffee], jitter: 1h`)
	if plain.Request != edited.Request || plain.Version() == edited.Version() {
		t.Errorf("after an edit of its due times a job asks for %s, before for %s; its versions are %s and %s",
			edited.Request, plain.Request, edited.Version(), plain.Version())
	}
}

// TestCalendarCountsMovedDueTimes of jobs whose schedules differ only by their quiet hours.
func TestCalendarCountsMovedDueTimes(t *testing.T) {
	config := parse(t, head+`defaults: {quiet: [sat, sun]}
jobs:
  default: {schedule: ["0 6 * * *", "0 18 * * *"], search: {query: tea}}
  none: {schedule: ["0 6 * * *", "0 18 * * *"], quiet: [], search: {query: tea}}
  night: {schedule: ["0 6 * * *", "0 18 * * *"], quiet: ["17:00-07:00"], search: {query: tea}}
`)
	month := MonthOf(config) // begins on a Wednesday, 1 July 2026
	for name, want := range map[string]int{"default": 23 * 2, "none": 62, "night": 31} {
		if got := len(month.Dues(config.Job(name))); got != want {
			t.Errorf("%s has %d due times in July, want %d", name, got, want)
		}
	}
}
