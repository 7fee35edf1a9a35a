package ledger_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/sync/ledger"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestDayStartsAtZonesMidnight(t *testing.T) {
	late := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)
	if got, want := ledger.Day(late, time.UTC), "2026-11-21"; got != want {
		t.Errorf("in UTC the day is %s, want %s", got, want)
	}
	if got, want := ledger.Day(late, zone(t, "Europe/Berlin")), "2026-11-22"; got != want {
		t.Errorf("in Berlin the day is %s, want %s", got, want)
	}
}

// A cycle begins on the renewal day, or on the last day of a month that is shorter.
func TestCycleStartsOnRenewalDay(t *testing.T) {
	for _, c := range []struct {
		at   string
		day  int
		want string
	}{
		{"2026-11-21T12:00:00Z", 1, "2026-11-01"},
		{"2026-11-21T12:00:00Z", 14, "2026-11-14"},
		{"2026-11-13T23:59:59Z", 14, "2026-10-14"},
		{"2026-11-14T00:00:00Z", 14, "2026-11-14"},
		{"2026-01-05T00:00:00Z", 14, "2025-12-14"},
		{"2026-03-01T00:00:00Z", 31, "2026-02-28"},
		{"2026-02-28T00:00:00Z", 31, "2026-02-28"},
		{"2026-02-27T23:00:00Z", 31, "2026-01-31"},
		{"2028-02-29T00:00:00Z", 30, "2028-02-29"},
		{"2026-03-30T12:00:00Z", 31, "2026-02-28"},
		{"2026-05-30T12:00:00Z", 31, "2026-04-30"},
		{"2026-11-21T12:00:00Z", 0, "2026-11-01"},
		{"2026-11-21T12:00:00Z", 99, "2026-10-31"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := ledger.Cycle(at, time.UTC, c.day); got != c.want {
			t.Errorf("the cycle of %s that renews on day %d began on %s, want %s", c.at, c.day, got, c.want)
		}
	}
}

func TestCyclesFollowOneAnotherWithoutGap(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/New_York"), zone(t, "Pacific/Auckland")}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), 0)
		loc := rapid.SampledFrom(zones).Draw(t, "zone")
		day := rapid.IntRange(1, 31).Draw(t, "day")
		from, to := ledger.CycleBounds(at, loc, day)
		if at.Before(from) || !at.Before(to) {
			t.Fatalf("%s is not within its cycle %s to %s", at, from, to)
		}
		next, _ := ledger.CycleBounds(to, loc, day)
		if !next.Equal(to) {
			t.Fatalf("the cycle ends at %s and the next begins at %s", to, next)
		}
		if length := to.Sub(from); length < 27*24*time.Hour || length > 32*24*time.Hour {
			t.Fatalf("a cycle of %s", length)
		}
		if ledger.Cycle(at, loc, day) != ledger.Cycle(from, loc, day) {
			t.Fatal("an instant and the beginning of its cycle have different keys")
		}
	})
}

// TestPeriodKeyMatchesBounds, also where a day begins at one o'clock, or twice.
func TestPeriodKeyMatchesBounds(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "Pacific/Auckland"), zone(t, "America/Sao_Paulo"), zone(t, "America/Havana"), zone(t, "Asia/Amman"), zone(t, "Asia/Beirut")}
	rapid.Check(t, func(t *rapid.T) {
		loc := rapid.SampledFrom(zones).Draw(t, "zone")
		renews := rapid.IntRange(1, 31).Draw(t, "day")
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), 0)
		if _, turn := at.In(loc).ZoneBounds(); !turn.IsZero() && rapid.Bool().Draw(t, "when clocks are set") {
			at = turn.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "seconds from it")) * time.Second)
		}
		cycle := ledger.Cycle(at, loc, renews)
		for _, p := range ledger.Periods("", "ideas", ledger.Day(at, loc), cycle) {
			from, to, err := p.Bounds(loc, renews)
			if err != nil || at.Before(from) || !at.Before(to) {
				t.Fatalf("%s %s is from %s to %s (%v), and holds %s", p.Scope, p.Key, from, to, err, at.In(loc))
			}
			if p.Scope == ledger.ScopeDay && (ledger.Day(from.Add(-1), loc) == p.Key || ledger.Day(to.Add(-1), loc) != p.Key) {
				t.Fatalf("the day %s is from %s to %s", p.Key, from, to)
			}
		}
	})
}

func TestBoundsOfWhatHasNone(t *testing.T) {
	from, to, err := ledger.Period{Scope: ledger.ScopeRun, Key: "run-1"}.Bounds(time.UTC, 1)
	if err != nil || !from.IsZero() || !to.IsZero() {
		t.Errorf("a run is from %s to %s (%v)", from, to, err)
	}
	if _, _, err := (ledger.Period{Scope: ledger.ScopeJobMonth, Key: "ideas"}).Bounds(time.UTC, 1); err == nil || !strings.Contains(err.Error(), `"ideas"`) {
		t.Errorf("a job without a cycle: %v", err)
	}
}

// A call counts for its day, its cycle, the cycle of its job, and its run.
func TestCallCountsForAllItsPeriods(t *testing.T) {
	got := ledger.Periods("run-1", "ideas", "2026-11-21", "2026-11-14")
	want := []ledger.Period{
		{Scope: ledger.ScopeDay, Key: "2026-11-21"},
		{Scope: ledger.ScopeMonth, Key: "2026-11-14"},
		{Scope: ledger.ScopeJobMonth, Key: "ideas/2026-11-14"},
		{Scope: ledger.ScopeRun, Key: "run-1"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("period %d is %v, want %v", i, got[i], want[i])
		}
	}
	if alone := ledger.Periods("", "", "2026-11-21", "2026-11-14"); len(alone) != 2 {
		t.Errorf("a call outside any run counts for %v, want the day and the cycle alone", alone)
	}
}

// CutJobCycle returns the job and the cycle that JobCycle joined, whatever the name of the job.
func TestJobCycleKeySplitsBack(t *testing.T) {
	for _, job := range []string{"ideas", "a/b", "", "ideas~1"} {
		key := ledger.JobCycle(job, "2026-11-14")
		if gotJob, cycle := ledger.CutJobCycle(key); gotJob != job || cycle != "2026-11-14" {
			t.Errorf("%q is cut into %q and %q", key, gotJob, cycle)
		}
	}
}

func TestExceededSaysWhatWouldBeHeld(t *testing.T) {
	e := &ledger.Exceeded{Cap: ledger.Cap{Scope: ledger.ScopeRun, Period: "run-1", Max: 50}, Price: 50, Hold: 10}
	if want := "costs 50, with 10 more for the calls that must follow;"; !strings.Contains(e.Error(), want) {
		t.Errorf("%q does not say %q", e, want)
	}
}

func TestExceededNamesCapAmountsAndRemedy(t *testing.T) {
	for _, c := range []struct {
		cap  ledger.Cap
		says []string
	}{
		{ledger.Cap{Scope: ledger.ScopeRun, Period: "run-1", Max: 10}, []string{"per_run", "9 of 10", "costs 2", "raise"}},
		{ledger.Cap{Scope: ledger.ScopeDay, Period: "2026-11-21", Max: 10}, []string{"2026-11-21", "per_day", "next day"}},
		{ledger.Cap{Scope: ledger.ScopeMonth, Period: "2026-11-14", Max: 10}, []string{"2026-11-14", "per_month", "next billing cycle"}},
		{ledger.Cap{Scope: ledger.ScopeJobMonth, Period: "ideas/2026-11-14", Max: 10}, []string{"ideas/2026-11-14", "per_month of the job"}},
	} {
		text := (&ledger.Exceeded{Cap: c.cap, Held: 9, Price: 2}).Error()
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q does not say %q", c.cap.Scope, text, part)
			}
		}
	}
}
