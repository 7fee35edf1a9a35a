package job

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestJitterEndsBeforeNextRun whatever the schedule and the zone, and is the same each time.
func TestJitterEndsBeforeNextRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		spec := onCron(t, cronExpression(t))
		spec.Name = "coffee"
		spec.Jitter = time.Duration(rapid.Int64Range(int64(time.Minute), int64(3*day)).Draw(t, "jitter"))
		due := spec.Next(time.Unix(rapid.Int64Range(1262304000, 1893456000).Draw(t, "after"), 0), loc)
		begins := spec.Begins(due, loc)
		if delay := begins.Sub(due); delay < 0 || delay >= spec.Jitter || !begins.Before(spec.Next(due, loc)) {
			t.Fatalf("due %s, begins %s: later by %s, the jitter is %s and the next due time %s",
				due, begins, delay, spec.Jitter, spec.Next(due, loc))
		}
		if again := spec.Begins(due.UTC(), loc); !again.Equal(begins) {
			t.Fatalf("due %s, begins %s and then %s", due, begins, again)
		}
		now := due.Add(time.Duration(rapid.Int64Range(0, int64(2*day)).Draw(t, "since")))
		want := spec.Next(now.Add(-spec.Jitter), loc)
		for !spec.Begins(want, loc).After(now) {
			want = spec.Next(want, loc)
		}
		if got := spec.Coming(now, loc); !got.Equal(want) {
			t.Fatalf("at %s the run of %s is next, not that of %s", now, want, got)
		}
	})
}

func TestLongJitterCostsNoTime(t *testing.T) {
	spec := onCron(t, "* * * * *")
	spec.Jitter = 3660 * day
	began := time.Now()
	for range 100 {
		spec.Coming(began, time.UTC)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the next run of a schedule with %s of jitter takes %s to find", spec.Jitter, took/100)
	}
}

// TestJitterSpreadsJobsAndDueTimes evenly enough that no two of a few coincide.
func TestJitterSpreadsJobsAndDueTimes(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, name := range []string{"coffee", "tea", "milk"} {
		spec := Spec{Name: name, Every: day, Jitter: 12 * time.Hour}
		for due, n := spec.Next(time.Unix(0, 0), time.UTC), 0; n < 5; due, n = spec.Next(due, time.UTC), n+1 {
			seen[spec.Begins(due, time.UTC).Sub(due)] = true
		}
	}
	if len(seen) != 15 {
		t.Errorf("15 due times have %d delays", len(seen))
	}
}

func TestJitterNeedsASchedule(t *testing.T) {
	config := parse(t, head+"defaults: {jitter: 10m}\njobs:\n  first: {every: 1h, search: {query: tea}}\n"+
		"  own: {every: 1h, jitter: 5m, search: {query: tea}}\n  second: {after: first, search: {query: tea}}\n")
	for name, want := range map[string]time.Duration{"first": 10 * time.Minute, "own": 5 * time.Minute, "second": 0} {
		if got := config.Job(name).Jitter; got != want {
			t.Errorf("the jitter of %s is %s, want %s", name, got, want)
		}
	}
	_, err := Parse("jobs.yaml", []byte(head+"jobs:\n  a: {jitter: 5m, search: {query: tea}}\n"), nothingSet)
	if err == nil || !strings.Contains(err.Error(), "needs schedule or every") {
		t.Errorf("a job without a schedule has jitter: %v", err)
	}
}
