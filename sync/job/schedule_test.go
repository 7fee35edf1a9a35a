package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestSchedulesAroundChangesOfTheClocks(t *testing.T) {
	for _, c := range []struct {
		name, zone, schedule, after string
		want                        []string
	}{
		{"a time that is skipped is due when the clocks jump", "America/New_York", "30 2 * * *", "2026-03-07T12:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"several times that are skipped are due once", "America/New_York", "*/15 2 * * *", "2026-03-08T00:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"a time that comes twice is due the first time", "America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"within the hour that comes again nothing is due again", "America/New_York", "*/20 1 * * *", "2026-11-01T01:10:00-05:00",
			[]string{"2026-11-02T01:00:00-05:00"}},
		{"a midnight that is skipped is due at one", "America/Santiago", "0 0 * * *", "2026-09-05T12:00:00-04:00",
			[]string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"the clocks jump by half an hour", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"a whole day is skipped", "Pacific/Apia", "0 6 * * *", "2011-12-29T05:00:00-10:00",
			[]string{"2011-12-29T06:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T06:00:00+14:00"}},
		{"every hour goes on through a doubled hour", "Europe/Berlin", "30 * * * *", "2026-10-25T01:00:00+02:00",
			[]string{"2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"}},
		{"every hour makes up for no skipped hour", "Europe/Berlin", "30 * * * *", "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		{"every hour on the hour meets the end of the gap", "Europe/Berlin", "@hourly", "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
		{"far from any change", "Europe/Berlin", "30 6 * * mon,thu", "2026-11-21T11:30:00+01:00",
			[]string{"2026-11-23T06:30:00+01:00", "2026-11-26T06:30:00+01:00"}},
		{"a leap day is waited for", "UTC", "0 0 29 2 *", "2026-01-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, loc := onCron(t, c.schedule), zone(t, c.zone)
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

func TestSpellingsOfSchedules(t *testing.T) {
	after := time.Date(2026, 11, 21, 11, 30, 0, 0, time.UTC) // a Saturday
	for schedule, want := range map[string]string{
		"@daily":           "2026-11-22T00:00:00Z",
		"@DAILY":           "2026-11-22T00:00:00Z",
		"@Weekly":          "2026-11-22T00:00:00Z",
		"@monthly":         "2026-12-01T00:00:00Z",
		"@yearly":          "2027-01-01T00:00:00Z",
		"0 6 * * 7":        "2026-11-22T06:00:00Z",
		"0 6 * * 0":        "2026-11-22T06:00:00Z",
		"0 6 * * SUN":      "2026-11-22T06:00:00Z",
		"0 6 * * 5-7":      "2026-11-22T06:00:00Z",
		"0 12 * * 2,7":     "2026-11-22T12:00:00Z",
		" 0  12  *  * * ":  "2026-11-21T12:00:00Z",
		"0 0 13 * fri":     "2026-11-27T00:00:00Z", // either will do, as in every cron
		"*/59 23 31 dec *": "2026-12-31T23:00:00Z",
	} {
		if got := onCron(t, schedule).Next(after, time.UTC).Format(time.RFC3339); got != want {
			t.Errorf("%q is due at %s, want %s", schedule, got, want)
		}
	}
}

func TestEveryCountsFromTheUnixEpoch(t *testing.T) {
	for _, c := range []struct {
		every             time.Duration
		after, want, zone string
	}{
		{6 * time.Hour, "2026-11-21T11:30:00Z", "2026-11-21T12:00:00Z", "UTC"},
		{6 * time.Hour, "2026-11-21T12:00:00Z", "2026-11-21T18:00:00Z", "UTC"},
		{7 * time.Hour, "1970-01-01T00:00:00Z", "1970-01-01T07:00:00Z", "UTC"},
		{7 * time.Hour, "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z", "UTC"},
		{7 * time.Hour, "1969-12-31T17:00:00Z", "1970-01-01T00:00:00Z", "UTC"},
		{week, "2026-11-21T12:00:00Z", "2026-11-26T01:00:00+01:00", "Europe/Berlin"}, // 1970 began on a Thursday
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got := Spec{Every: c.every}.Next(after, zone(t, c.zone)).Format(time.RFC3339)
		if got != c.want {
			t.Errorf("every %v after %s is %s, want %s", FormatDuration(c.every), c.after, got, c.want)
		}
	}
}

func TestUnscheduledJobIsNeverDue(t *testing.T) {
	if due := (Spec{}).Next(time.Unix(0, 0), time.UTC); !due.IsZero() {
		t.Errorf("due at %v", due)
	}
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll"}

// cronExpression draws expressions that come often enough to be tried out.
func cronExpression(t *rapid.T) string {
	return strings.Join([]string{
		rapid.SampledFrom([]string{"0", "30", "59", "*/15", "*", "5,45"}).Draw(t, "minute"),
		rapid.SampledFrom([]string{"*", "0", "1", "2", "3", "2,3", "23", "*/2", "1-3"}).Draw(t, "hour"),
		rapid.SampledFrom([]string{"*", "1", "31"}).Draw(t, "day"),
		"*",
		rapid.SampledFrom([]string{"*", "sun", "6-7"}).Draw(t, "weekday"),
	}, " ")
}

// Whatever the zone: the next time lies ahead, no earlier moment leads past it, and
// clocks show a time of the schedule, unless they have just jumped over one.
func TestNextIsTheFirstTimeAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		spec := onCron(t, cronExpression(t))
		after := time.Unix(rapid.Int64Range(1262304000, 1893456000).Draw(t, "after"), 0)
		due := spec.Next(after, loc)
		if !due.After(after) {
			t.Fatalf("%s after %v is %v", spec.Schedule, after, due)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(due.Sub(after))-1).Draw(t, "later")))
		if again := spec.Next(between, loc); !again.Equal(due) {
			t.Fatalf("%s after %v is %v, but after %v it is %v", spec.Schedule, after, due, between, again)
		}
		times, err := parseCron(spec.Schedule[0])
		if err != nil {
			t.Fatal(err)
		}
		shown := wall(due, loc)
		start, _ := due.ZoneBounds()
		if !nextWall(times, shown.Add(-time.Second)).Equal(shown) && !due.Equal(start) {
			t.Fatalf("%s is due at %v", spec.Schedule, due)
		}
	})
}

// A job with fixed hours is due once for each time on the clock, all year round.
func TestFixedHoursAreDueOnceDaily(t *testing.T) {
	for _, name := range zones {
		loc, spec, n := zone(t, name), onCron(t, "30 2 * * *"), 0
		due := time.Date(2026, 1, 1, 0, 0, 0, 0, loc)
		for due = spec.Next(due, loc); due.Year() < 2027; due = spec.Next(due, loc) {
			n++
		}
		if n != 365 {
			t.Errorf("%s: due %d times in a year", name, n)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{"* * * * *", "TZ=UTC", "CRON_TZ=", "@every -1h", "*/90 * * * *", "1-7/3 * * * 5-7", "@", "0 0 31 2 *", ",,,, * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		times, err := parseCron(expression)
		if err != nil {
			return
		}
		after := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		loc := zone(t, "Europe/Berlin")
		if due := onCron(t, expression).Next(after, loc); !due.After(after) {
			t.Errorf("%q (%+v) is due at %v", expression, times, due)
		}
	})
}

// onCron is a job with a schedule.
func onCron(t fataler, expression string) Spec {
	t.Helper()
	due, err := parseCron(expression)
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	return Spec{Schedule: []string{expression}, times: []cronTimes{due}}
}

// fataler is a test, of the standard library's or of rapid's.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}
