package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/sync/runs"
)

const pausedFile = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  latest: {every: 1h, reuse_for: 1m, search: {query: [home espresso]}}
  all: {every: 1h, catch_up: all, reuse_for: 1m, search: {query: [moka pot]}}
  none: {every: 1h, catch_up: none, reuse_for: 1m, search: {query: [latte art]}}
  child: {after: latest, reuse_for: 1m, search: {query: [cold brew]}}
  children: {after: all, catch_up: all, reuse_for: 1m, search: {query: [pour over]}}
`

// pauseJobs pauses jobs until a time; zero for a pause without an end.
func (w *workshop) pauseJobs(until time.Time, names ...string) {
	w.Helper()
	w.inspect(func(e *Engine) {
		var all []runs.Pause
		for _, name := range names {
			all = append(all, runs.Pause{Job: name, Since: time.Now(), Until: until, Why: "a test"})
		}
		if err := e.Store.Schedule.Pause(all); err != nil {
			w.Fatal(err)
		}
	})
}

// hours returns the hours for which each job has runs, in order.
func hours(rows []runs.Run) map[string][]int {
	all := map[string][]int{}
	for _, run := range rows {
		all[run.Job] = append(all[run.Job], run.Due.UTC().Hour())
	}
	for _, due := range all {
		slices.Sort(due)
	}
	return all
}

// TestPausedJobsCatchUp when the pause expires, with several starts: due times during the pause are late.
// A child is paused by its parent's pause, and by its own.
func TestPausedJobsCatchUp(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for name, c := range map[string]struct {
		paused []string
		want   map[string][]int
	}{
		"the parents": {[]string{"latest", "all", "none"}, map[string][]int{
			"latest": {1, 5, 6}, "all": {1, 2, 3, 4, 5, 6}, "none": {1, 6}, "child": {1, 5, 6}, "children": {1, 2, 3, 4, 5, 6}}},
		"the children": {[]string{"child", "children"}, map[string][]int{
			"latest": {1, 2, 3, 4, 5, 6}, "all": {1, 2, 3, 4, 5, 6}, "none": {1, 2, 3, 4, 5, 6},
			"child": {1, 5, 6}, "children": {1, 2, 3, 4, 5, 6}}},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, pausedFile, func(w *workshop) {
				midnight := time.Now()
				until := func(hour, minute int) time.Duration {
					return time.Until(midnight.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute))
				}
				w.serve(until(1, 30))
				w.pauseJobs(midnight.Add(5*time.Hour+30*time.Minute), c.paused...)
				w.serve(until(3, 30)) // and again, as after a restart
				w.serve(until(5, 29))
				if got := hours(w.serve(0))[c.paused[0]]; !slices.Equal(got, []int{1}) {
					t.Fatalf("while it is paused, %s has runs for %v", c.paused[0], got)
				}
				if diff := cmp.Diff(c.want, hours(w.serve(until(6, 30)))); diff != "" {
					t.Errorf("due hours of runs (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestMissedRunsWaitForTheLimit: while the first one buys its pages, the schedule sleeps, although the others are late.
func TestMissedRunsWaitForTheLimit(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 2/min}
jobs: {slow: {every: 1h, catch_up: all, reuse_for: 1m, search: {query: [home espresso], pages: 6}}}
`
	bare(t, file, func(w *workshop) {
		w.serve(30 * time.Minute)
		time.Sleep(5 * time.Hour)
		if got := hours(w.serve(25 * time.Minute))["slow"]; !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
			t.Errorf("due hours of runs %v, want the five that were missed", got)
		}
	})
}

// TestOpenEndedPauseWaitsForUser: it lasts until a user ends it, but manual runs are allowed.
func TestOpenEndedPauseWaitsForUser(t *testing.T) {
	t.Parallel()
	bare(t, pausedFile, func(w *workshop) {
		w.serve(90 * time.Minute)
		w.pauseJobs(time.Time{}, "latest")
		w.serve(4 * time.Hour)
		w.withSinks(func(e *Engine) {
			if _, err := e.Run(w.ctx, w.config.Job("latest"), Manual, time.Time{}); err != nil {
				t.Error(err)
			}
			if err := e.Store.Schedule.Unpause([]string{"latest"}); err != nil {
				t.Error(err)
			}
		})
		var own []runs.Run
		for _, run := range w.serve(time.Minute) {
			if run.Job == "latest" {
				own = append(own, run)
			}
		}
		if len(own) != 3 || own[1].Trigger != string(Manual) || own[2].Trigger != string(CatchUp) {
			t.Errorf("the runs are %+v, want the first, one by hand and one that catches up", own)
		}
	})
}

// TestPausedJobFinishesItsRun if that has begun, even after a stop.
func TestPausedJobFinishesItsRun(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 2/min}\njobs: {slow: {every: 1h, search: {query: [home espresso], pages: 6}}}\n"
	bare(t, file, func(w *workshop) {
		w.serve(time.Hour + time.Minute + time.Second)
		w.pauseJobs(time.Time{}, "slow")
		rows := w.serve(3 * time.Hour)
		if len(rows) != 1 || rows[0].Status != runs.OK || rows[0].Pages != 6 {
			t.Errorf("the runs are %+v, want one that has all its pages", rows)
		}
	})
}

func TestPauseFollowsARenamedJob(t *testing.T) {
	t.Parallel()
	bare(t, pausedFile, func(w *workshop) {
		w.pauseJobs(time.Time{}, "latest")
		w.inspect(func(e *Engine) {
			if err := e.Store.Rename("latest", "newest"); err != nil {
				t.Fatal(err)
			}
			pauses, err := e.Store.Schedule.Pauses(time.Now())
			if err != nil || len(pauses) != 1 || pauses["newest"] == nil {
				t.Errorf("pauses %v, %v", pauses, err)
			}
		})
	})
}

// TestPauseDuringAClockChange: the hour that occurs twice has one due time for a job with fixed hours and
// two for an hourly one, whether or not they are paused at the time.
func TestPauseDuringAClockChange(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
timezone: Europe/Berlin
jobs:
  fixed: {schedule: "30 2 * * *", catch_up: all, reuse_for: 1m, search: {query: [home espresso]}}
  hourly: {schedule: "30 * * * *", catch_up: all, reuse_for: 1m, search: {query: [moka pot]}}
`
	bare(t, file, func(w *workshop) {
		evening := time.Date(2000, 10, 28, 22, 0, 0, 0, w.config.Timezone) // the clocks go back at 3:00
		time.Sleep(time.Until(evening))
		w.serve(time.Minute)
		w.pauseJobs(time.Date(2000, 10, 29, 4, 0, 0, 0, w.config.Timezone), "fixed", "hourly")
		dues := map[string][]string{}
		for _, run := range w.serve(9 * time.Hour) {
			dues[run.Job] = append(dues[run.Job], run.Due.In(w.config.Timezone).Format("15:04 MST"))
		}
		want := map[string][]string{"fixed": {"02:30 CEST"}, "hourly": {
			"22:30 CEST", "23:30 CEST", "00:30 CEST", "01:30 CEST", "02:30 CEST", "02:30 CET", "03:30 CET", "04:30 CET", "05:30 CET"}}
		if diff := cmp.Diff(want, dues); diff != "" {
			t.Errorf("due times of runs (-want +got)\n%s", diff)
		}
	})
}

// TestPauseTakesEffectAtOnce, and so does its end.
func TestPauseTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	bare(t, pausedFile, func(w *workshop) {
		midnight := time.Now()
		e, stop := w.open()
		defer stop()
		if _, err := e.Agenda(midnight); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, 6*time.Hour+30*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(90 * time.Minute)
			if err := e.Between(ctx, func(context.Context) error {
				return e.Store.Schedule.Pause([]runs.Pause{{Job: "all", Since: time.Now()}, {Job: "none", Since: time.Now()}})
			}); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Hour)
			if err := e.Between(ctx, func(context.Context) error { return e.Store.Schedule.Unpause([]string{"all", "none"}) }); err != nil {
				t.Error(err)
			}
		}()
		e.Serve(ctx)
		rows, err := e.Store.Runs.List(runs.Filter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range rows {
			late := run.Due.UTC().Hour() < 5 && run.Due.UTC().Hour() > 1 && (run.Job == "all" || run.Job == "children")
			if began := run.Started.Sub(midnight); late != (began > 4*time.Hour+29*time.Minute && began < 5*time.Hour) {
				t.Errorf("%s due %s began after %s", run.Job, run.Due.UTC().Format(time.TimeOnly), began)
			}
		}
		want := map[string][]int{"latest": {1, 2, 3, 4, 5, 6}, "child": {1, 2, 3, 4, 5, 6},
			"all": {1, 2, 3, 4, 5, 6}, "children": {1, 2, 3, 4, 5, 6}, "none": {1, 5, 6}}
		if diff := cmp.Diff(want, hours(rows)); diff != "" {
			t.Errorf("due hours of runs (-want +got)\n%s", diff)
		}
	})
}
