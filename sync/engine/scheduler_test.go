package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

const scheduledFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  hourly: {every: 1h, search: {query: [home espresso], pages: 1}}
  daily: {schedule: "30 6 * * *", search: {query: [moka pot], pages: 1}}
  by-hand: {search: {query: [latte art], pages: 1}}
`

// serve runs the schedule for a while and returns the runs that began, oldest first.
func (w *workshop) serve(d time.Duration) []runs.Run {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	return w.serveUntil(ctx)
}

// serveUntil runs the schedule until ctx ends.
func (w *workshop) serveUntil(ctx context.Context) []runs.Run {
	w.Helper()
	e, stop := w.open()
	defer stop()
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	e.Serve(ctx)
	rows, err := e.Store.Runs.List(runs.Filter{}, 0)
	if err != nil {
		w.Fatal(err)
	}
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

// Each scheduled job runs once per due time, and the schedule never runs a job without one.
func TestOnlyScheduledJobsRunWhenDue(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		began := time.Now() // midnight
		hours, days := 0, 0
		for _, run := range w.serve(24*time.Hour + time.Minute) {
			switch run.Job {
			case "hourly":
				hours++
			case "daily":
				days++
				if due := began.Add(6*time.Hour + 30*time.Minute); !run.Due.Equal(due) || run.Started.Before(due) {
					t.Errorf("the daily run was due %s and started %s, want %s", run.Due, run.Started, due)
				}
			default:
				t.Errorf("job %s ran without a schedule", run.Job)
			}
			if run.Trigger != string(Scheduled) || run.Status != runs.OK {
				t.Errorf("%s: trigger %s, status %s", run.Job, run.Trigger, run.Status)
			}
		}
		if hours != 24 || days != 1 {
			t.Errorf("%d hourly and %d daily runs in a day, want 24 and 1", hours, days)
		}
	})
}

func TestMissedDueTimesCollapseIntoOne(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		first := w.serve(90 * time.Minute)
		time.Sleep(5*time.Hour + 15*time.Minute) // now it is 6:45
		all := w.serve(time.Minute)
		late := map[string]time.Time{}
		for _, run := range all[len(first):] {
			if run.Trigger != string(CatchUp) {
				t.Errorf("%s ran for %s, want it to catch up", run.Job, run.Trigger)
			}
			late[run.Job] = run.Due.UTC()
		}
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		want := map[string]time.Time{"hourly": day.Add(6 * time.Hour), "daily": day.Add(6*time.Hour + 30*time.Minute)}
		if diff := cmp.Diff(want, late); diff != "" {
			t.Errorf("the latest instant of each, once (-want +got):\n%s", diff)
		}
	})
}

// TestCatchUpNoneSkipsMissedTimes: missed due times have no run, except for the few minutes by which an
// external scheduler may be late.
func TestCatchUpNoneSkipsMissedTimes(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  daily: {schedule: "30 6 * * *", catch_up: none, search: {query: [moka pot]}}
`
	for late, want := range map[time.Duration]int{9 * time.Minute: 1, 11 * time.Minute: 0} {
		bare(t, file, func(w *workshop) {
			w.withSinks(func(e *Engine) { w.see(e, "daily") })
			time.Sleep(6*time.Hour + 30*time.Minute + late)
			if rows := w.serve(time.Hour); len(rows) != want {
				t.Errorf("a process that starts %s late makes %d runs, want %d", late, len(rows), want)
			}
		})
	}
}

// TestCatchUpNoneKeepsWaitingTimes: a due time reached while the process runs is not missed, however long its
// run waits for the one before and even if the file is edited, but after a pause it is too late.
func TestCatchUpNoneKeepsWaitingTimes(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 1/3m}
jobs:
  daily: {schedule: "0,5,8 6 * * *", catch_up: none, reuse_for: 1m, search: {query: [moka pot], pages: 8}}
  child: {after: daily, catch_up: none, reuse_for: 1m, search: {query: [home espresso], pages: 12}}
`
	at := func(hour, minute int) time.Time { return time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		at620 func(w *workshop, ctx context.Context, e *Engine) error
		want  []time.Time
	}{
		"left alone": {func(*workshop, context.Context, *Engine) error { return nil }, []time.Time{at(6, 0), at(6, 8)}},
		"edited": {func(w *workshop, ctx context.Context, e *Engine) error {
			return w.reload(ctx, e, file+"  another: {search: {query: [coffee]}}\n")
		}, []time.Time{at(6, 0), at(6, 8)}},
		"paused": {func(w *workshop, ctx context.Context, e *Engine) error {
			return e.Between(ctx, func(context.Context) error {
				return e.Store.Schedule.Pause([]runs.Pause{{Job: "daily", Since: time.Now(), Until: at(7, 0)}})
			})
		}, []time.Time{at(6, 0)}},
	} {
		bare(t, file, func(w *workshop) {
			time.Sleep(time.Until(at(5, 30)))
			e, stop := w.open()
			defer stop()
			ctx, cancel := contextFor(w, 3*time.Hour)
			defer cancel()
			go func() {
				time.Sleep(time.Until(at(6, 20)))
				if err := c.at620(w, ctx, e); err != nil {
					t.Error(err)
				}
			}()
			_, err := e.Agenda(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			e.Serve(ctx)
			rows, err := e.Store.Runs.List(runs.Filter{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]time.Time{}
			for _, run := range rows {
				got[run.Job] = append(got[run.Job], run.Due.UTC())
			}
			for _, job := range []string{"daily", "child"} {
				slices.SortFunc(got[job], time.Time.Compare)
				if diff := cmp.Diff(c.want, got[job]); diff != "" {
					t.Errorf("%s: due times of the runs of %s (-want +got):\n%s", name, job, diff)
				}
			}
		})
	}
}

// The due times of a job count from the first start that has it in its file, so earlier ones are not missed.
func TestNewJobHasNoMissedTimes(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		time.Sleep(12 * time.Hour)
		e, stop := w.open()
		defer stop()
		for _, test := range []struct {
			after time.Duration
			due   int
		}{{0, 0}, {59 * time.Minute, 0}, {time.Minute, 1}, {18 * time.Hour, 2}} {
			time.Sleep(test.after)
			agenda, err := e.Agenda(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			due := 0
			for _, a := range agenda {
				if !a.Due.After(time.Now()) {
					due++
				}
			}
			if due != test.due {
				t.Errorf("at %s %d jobs are due, want %d", time.Now().Format(time.TimeOnly), due, test.due)
			}
		}
	})
}

// TestRunEndsAtItsOwnCap: the next due time starts another run with another cap.
func TestRunEndsAtItsOwnCap(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  capped:
    every: 12h
    search: {query: [home espresso], pages: all}
    enrich: {details: {top: 3}}
    budget: {per_run: 4}
`
	bare(t, file, func(w *workshop) {
		rows := w.serve(24*time.Hour + 10*time.Minute)
		if len(rows) != 2 {
			t.Fatalf("%d runs, want 2", len(rows))
		}
		for _, run := range rows {
			if run.Status != runs.PausedBudget || run.Pages != 2 || run.Credits != 4 {
				t.Errorf("status %s, %d pages, %d credits; want each slot to buy what its cap allows",
					run.Status, run.Pages, run.Credits)
			}
		}
		if got := w.calls(outlier.OpDetails); got < 3 {
			t.Errorf("details of %d videos; the calls that cost nothing are made although the cap was reached", got)
		}
	})
}

func TestScheduleContinuesAfterFailedRun(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		for range plan.Attempts {
			w.service.FailNext(outlier.OpSearch, simulator.ServerError)
		}
		rows := w.serve(2*time.Hour + time.Minute)
		if len(rows) != 2 {
			t.Fatalf("runs %+v, want one for each slot", rows)
		}
		for i, run := range rows {
			if due := time.Date(2000, 1, 1, i+1, 0, 0, 0, time.UTC); run.Status != runs.OK || run.Pages != 1 || !run.Due.Equal(due) {
				t.Errorf("the run due %s is %s with %d pages; want that of %s to have searched",
					run.Due, run.Status, run.Pages, due)
			}
		}
		if spent := w.service.Books().Total.Spent(); spent != 2 {
			t.Errorf("%d credits, want 2: the failed attempts were refunded, and the journal had the second page",
				spent)
		}
	})
}

// After stop_after has ended a run, its queued calls are made in idle time.
func TestQueuedCallsOutliveStopAfter(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  short:
    every: 12h
    search: {query: [home espresso], pages: 1}
    enrich: {details: {top: 30}}
    stop_after: 1m
`
	bare(t, file, func(w *workshop) {
		time.Sleep(11 * time.Hour)
		rows := w.serve(2 * time.Hour)
		if len(rows) != 1 || rows[0].Status != runs.OK || rows[0].Ended.Sub(rows[0].Started) > 2*time.Minute {
			t.Fatalf("runs %+v; want one that ended well after a minute", rows)
		}
		calls := w.service.Books().Operations[outlier.OpDetails].Calls
		if calls != 30 {
			t.Errorf("%d details calls, want all 30: the queue outlives the run", calls)
		}
	})
}

// TestRunContinuesAtMostOnePeriod, and at most a day, counted from its start, before the run of the due time,
// and after that a new run replaces it and covers its rest.
func TestRunContinuesAtMostOnePeriod(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	for _, test := range []struct {
		schedule string
		period   time.Duration
		resumes  bool // at the next due time
	}{{"every: 6h", 6 * time.Hour, true}, {"every: 24h", 24 * time.Hour, true}, {"every: 30h", 30 * time.Hour, false}} {
		t.Run(test.schedule, func(t *testing.T) {
			bare(t, fmt.Sprintf(`
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {%s, search: {query: [home espresso], pages: 2}}
`, test.schedule), func(w *workshop) {
				w.withSinks(func(e *Engine) { w.see(e, "one") })
				var log strings.Builder
				w.log = slog.New(slog.NewTextHandler(&log, nil))
				w.wire = roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
				rows := w.serve(2*test.period + time.Hour)
				for i, run := range rows {
					if i > 0 && run.Due.Sub(rows[i-1].Due) != test.period || run.Status != runs.Failed || run.Pages != 0 {
						t.Errorf("run %d due %s is %s with %d pages, after one due %s; want each instant's to have failed",
							i, run.Due, run.Status, run.Pages, rows[max(i-1, 0)].Due)
					}
					want := 0
					if test.resumes && i < len(rows)-1 {
						want = 1
					}
					if got := strings.Count(log.String(), `"run continued" job=one run=`+run.ID); got != want {
						t.Errorf("run %d of %d was continued %d times, want %d", i, len(rows), got, want)
					}
				}
				if len(rows) < 2 {
					t.Errorf("%d runs, want one for each of several due times", len(rows))
				}
			})
		})
	}
}

// TestStateErrorPausesQueue for a minute or two before the next attempt.
func TestStateErrorPausesQueue(t *testing.T) {
	t.Parallel()
	bare(t, dailyFile, func(w *workshop) {
		var log strings.Builder
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		w.keeping(func(_ *Engine, stop func()) {
			w.alter(`ALTER TABLE tasks RENAME COLUMN attempts TO gone`)
			time.Sleep(10 * time.Minute)
			w.alter(`ALTER TABLE tasks RENAME COLUMN gone TO attempts`)
			stop()
		})
		if tries := strings.Count(log.String(), "queue paused"); tries == 0 || tries > 20 {
			t.Errorf("%d lines in ten minutes, want one each minute or two", tries)
		}
	})
}
