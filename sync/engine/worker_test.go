package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// callsFor returns the service's calls that contain a text, in the order in which they came.
func (w *workshop) callsFor(text string) (found []simulator.Call) {
	for _, call := range w.service.Books().Calls {
		if strings.Contains(call.Identity, text) {
			found = append(found, call)
		}
	}
	return found
}

// runsOf returns the runs of a job among runs.
func runsOf(rows []runs.Run, name string) []runs.Run {
	return slices.DeleteFunc(slices.Clone(rows), func(r runs.Run) bool { return r.Job != name })
}

// TestDuePagesPrecedeAnotherJobsCalls: runs overlap, and pages have priority over data calls.
func TestDuePagesPrecedeAnotherJobsCalls(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long: {every: 12h, search: {query: [home espresso]}, enrich: {details: {}, comments: {}}}
  soon: {schedule: "5 * * * *", search: {query: [moka pot]}, enrich: {transcript: {top: 2}}}
`
	bare(t, file, func(w *workshop) {
		time.Sleep(11*time.Hour + 59*time.Minute)
		rows := w.serve(30 * time.Minute)
		long, soon := runsOf(rows, "long"), runsOf(rows, "soon")
		if len(long) != 1 || len(soon) != 1 || long[0].Status != runs.OK || soon[0].Status != runs.OK {
			t.Fatalf("runs %+v, want one of each that ended well", rows)
		}
		if !soon[0].Started.Before(long[0].Ended) || !soon[0].Ended.Before(long[0].Ended) {
			t.Error("the second run waited for the first")
		}
		page := w.callsFor("moka")[0].At
		if late := page.Sub(soon[0].Due); late > 10*time.Second {
			t.Errorf("the page came %s after it was due", late)
		}
		after := slices.IndexFunc(w.callsFor("details"), func(c simulator.Call) bool { return c.At.After(page) })
		if after <= 0 {
			t.Error("no data calls of the first run stood before and after the page")
		}
	})
}

// TestDuePageTakesDataCallsSlot: no call is chosen while the rate limit allows none, so a page that becomes
// due gets the next slot, and its run is recorded on time.
func TestDuePageTakesDataCallsSlot(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 20/10m, max_wait: 30m}
jobs:
  long: {every: 12h, search: {query: [home espresso]}, enrich: {details: {}}}
  soon: {schedule: "2 12 * * *", search: {query: [moka pot]}}
`
	bare(t, file, func(w *workshop) {
		w.renew(simulator.Options{Limit: 20, Window: 10 * time.Minute})
		time.Sleep(11*time.Hour + 59*time.Minute)
		rows := w.serve(30 * time.Minute)
		soon := runsOf(rows, "soon")
		if len(soon) != 1 || soon[0].Status != runs.OK || soon[0].Started.Sub(soon[0].Due) > time.Second {
			t.Fatalf("runs %+v, want one that begins when it is due", soon)
		}
		page := w.callsFor("moka")[0].At
		for _, call := range w.callsFor("details") {
			if call.At.After(soon[0].Due) && call.At.Before(page) {
				t.Errorf("a data call left at %s, before the page that was due at %s and came at %s",
					call.At, soon[0].Due, page)
			}
		}
		if late := page.Sub(soon[0].Due); late > 9*time.Minute {
			t.Errorf("the page came %s after it was due, and the window ends after 8 minutes", late)
		}
	})
}

// TestNextDueTimeEndsEnrichingRun: the run has no open search, its queue continues, and a job has one run at
// a time.
func TestNextDueTimeEndsEnrichingRun(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  often: {every: 2m, reuse_for: 1m, search: {query: [home espresso]}, enrich: {details: {top: 36, refresh_after: 1m}}}
`
	bare(t, file, func(w *workshop) {
		rows := w.serve(31 * time.Minute)
		if len(rows) != 15 {
			t.Fatalf("%d runs in half an hour, want 15", len(rows))
		}
		for i, next := range rows[1:] {
			last := rows[i]
			if next.Started.Before(last.Ended) || next.Started.Sub(next.Due) > 30*time.Second || next.Pages != 1 && next.Status != runs.Interrupted {
				t.Errorf("run %d began at %s for %s with %d pages, and the one before it ended at %s",
					i+1, next.Started, next.Due, next.Pages, last.Ended)
			}
			if last.Status != runs.Partial || !strings.Contains(last.Error, "the next run of the job is due") {
				t.Errorf("run %d ended as %s: %s; want partial, as calls stay queued", i, last.Status, last.Error)
			}
		}
		if calls := w.calls(outlier.OpDetails); calls < 200 {
			t.Errorf("%d details in half an hour at 10 calls a minute", calls)
		}
	})
}

// TestSearchingJobStartsOneMoreRun after its last page, however many due times have passed.
func TestSearchingJobStartsOneMoreRun(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 1/min, paging: page}
jobs:
  often: {every: 2m, reuse_for: 1m, search: {query: [home espresso], pages: 7}}
`
	bare(t, file, func(w *workshop) {
		w.renew(simulator.Options{Limit: 1, Window: time.Minute})
		rows := w.serve(31 * time.Minute)
		if len(rows) < 4 || len(rows) > 6 {
			t.Fatalf("%d runs in half an hour, want one about every seven minutes", len(rows))
		}
		for i, next := range rows[1:] {
			if passed := rows[i].Ended.Truncate(2 * time.Minute); next.Started.Before(rows[i].Ended) || next.Due.Before(passed) {
				t.Errorf("run %d began at %s for %s; want the latest of the instants that passed before %s",
					i+1, next.Started, next.Due, rows[i].Ended)
			}
		}
	})
}

// TestCatchUpAppliesToMissedTimes, both those missed while no process ran, and those missed while a run of
// the job itself was in progress.
func TestCatchUpAppliesToMissedTimes(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 1/180s}
jobs:
  often: {every: 4h, catch_up: CATCH, reuse_for: 1m, search: {query: [home espresso], pages: 3}, enrich: {details: {top: 70}}, budget: {per_run: 6}}
`
	for catch, want := range map[string][]int{ // hours of the due times
		"latest": {4, 8, 12, 24},
		"all":    {4, 8, 12, 16, 20, 24},
		"none":   {4, 12}, // ten minutes late would be accepted
	} {
		t.Run(catch, func(t *testing.T) {
			bare(t, strings.Replace(file, "CATCH", catch, 1), func(w *workshop) {
				began := time.Now()
				if rows := w.serve(7 * time.Hour); len(rows) != 1 || rows[0].Status != runs.Interrupted {
					t.Fatalf("runs %+v; want a first one that takes more than three hours", rows)
				}
				time.Sleep(3 * time.Hour)
				w.serve(3 * time.Hour) // the due time at 8 was two hours ago
				time.Sleep(11*time.Hour + 30*time.Minute)
				rows := w.serve(time.Hour) // the one at 24 was half an hour ago
				var hours []int
				for _, run := range rows {
					hours = append(hours, int(run.Due.Sub(began).Hours()))
				}
				if !slices.Equal(hours, want) {
					t.Errorf("runs for the hours %v, want %v", hours, want)
				}
			})
		})
	}
}

// A disabled job is never due, and does not run after another job either.
func TestDisabledJobNeverRuns(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  off: {every: 1h, enabled: false, search: {query: [home espresso]}}
  on: {every: 1h, search: {query: [moka pot]}}
  follower: {after: on, enabled: false, search: {query: [latte art]}}
`
	bare(t, file, func(w *workshop) {
		rows := w.serve(2*time.Hour + time.Minute)
		if len(rows) != 2 || len(runsOf(rows, "on")) != 2 {
			t.Errorf("runs %+v, want two of the job that is enabled", rows)
		}
	})
}

// TestRequestCapLeavesQueueRunning and ends only the run: requests count whether or not they cost credits.
func TestRequestCapLeavesQueueRunning(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  capped:
    every: 12h
    search: {query: [home espresso], pages: PAGES}
    enrich: {details: {top: 8}}
    budget: {max_requests: 5}
`
	t.Run("met while data is fetched", func(t *testing.T) {
		bare(t, strings.Replace(file, "PAGES", "2", 1), func(w *workshop) {
			time.Sleep(12*time.Hour - time.Minute)
			rows := w.serve(10 * time.Minute)
			if len(rows) != 1 || rows[0].Status != runs.PausedBudget || rows[0].Requests != 5 || !strings.Contains(rows[0].Error, "max_requests") {
				t.Errorf("runs %+v; want one that was paused after 5 requests", rows)
			}
			if calls := w.calls(outlier.OpDetails); calls != 8 {
				t.Errorf("%d details, want all 8: idle time drains the queue", calls)
			}
		})
	})
	t.Run("met while pages are taken", func(t *testing.T) {
		bare(t, strings.Replace(file, "PAGES", "9", 1), func(w *workshop) {
			row := w.mustRun(runs.PausedBudget)
			if row.Pages != 5 || w.service.Books().Total.Calls != 5 {
				t.Errorf("%d pages and %d calls, want 5 of each", row.Pages, w.service.Books().Total.Calls)
			}
		})
	})
	t.Run("repeated calls count, too", func(t *testing.T) {
		for _, fault := range []simulator.Fault{simulator.ServerError, simulator.DropAnswer, simulator.RateLimited} {
			bare(t, strings.NewReplacer("PAGES", "2", "max_requests: 5", "max_requests: 2").Replace(file), func(w *workshop) {
				for range 9 {
					w.service.FailNext("", fault)
				}
				row, err := w.run()
				if row.Status != runs.PausedBudget || w.service.Books().Total.Calls != 2 || !strings.Contains(row.Error, "max_requests") {
					t.Errorf("%v: the run ended as %s after %d requests, error %v; want it paused after 2",
						fault, row.Status, w.service.Books().Total.Calls, err)
				}
			})
		}
	})
	t.Run("as many as the run needs", func(t *testing.T) {
		bare(t, strings.NewReplacer("PAGES", "2", "top: 8", "top: 3").Replace(file), func(w *workshop) { w.mustRun(runs.OK) })
	})
}

// TestInterruptedScheduledRunIsContinued: a run interrupted by a stop or a kill is continued at once, but
// one by hand only by its user.
func TestInterruptedScheduledRunIsContinued(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long: {schedule: "0 12 * * mon", search: {query: [home espresso]}, enrich: {details: {}}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		if err := e.Store.Schedule.SetNoted("long", time.Now()); err != nil {
			t.Fatal(err)
		}
		stop()
		monday := time.Date(2000, 1, 3, 12, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(monday) - time.Minute)
		if rows := w.serve(3 * time.Minute); len(rows) != 1 || rows[0].Status != runs.Interrupted {
			t.Fatalf("runs %+v; want one that is cut short", rows)
		}
		time.Sleep(time.Hour)
		rows := w.serve(10 * time.Minute)
		if len(rows) != 1 || rows[0].Status != runs.OK || w.calls(outlier.OpDetails) != 40 || w.spent() != 2 {
			t.Errorf("runs %+v with %d details; want the same one to have ended well", rows, w.calls(outlier.OpDetails))
		}
	})
}

// TestCommandContinuesItsManualRun, and the schedule does not.
func TestCommandContinuesItsManualRun(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		w.use(strings.Replace(scheduledFile, "by-hand: {search: {query: [latte art], pages: 1}}", "by-hand: {search: {query: [latte art]}, enrich: {details: {}}}", 1))
		e, stop := w.open()
		ctx, cancel := contextFor(w, 2*time.Minute)
		_, err := e.Run(ctx, w.config.Job("by-hand"), Manual, time.Time{})
		cancel()
		stop()
		if err == nil {
			t.Fatal("the run was to be cut short")
		}
		rows := w.serve(30 * time.Minute)
		if len(rows) != 1 || rows[0].Status != runs.Interrupted {
			t.Errorf("runs %+v; want that of the person to stand as it was left", rows)
		}
	})
}

// TestRunningScanDelaysNoJob: the schedule works on other jobs meanwhile, and continues the scan after a
// restart.
func TestRunningScanDelaysNoJob(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "  niche:\n", "  hourly: {every: 1h, search: {query: [home espresso]}, enrich: {details: {top: 5}}}\n  niche:\n    schedule: \"30 0 * * *\"\n", 1)
	bare(t, file, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 5 * time.Hour}, simulator.Phase{Status: "Completed"}))
		rows := w.serve(3*time.Hour + 10*time.Minute)
		if scans := runsOf(rows, "niche"); len(scans) != 1 || scans[0].Status != runs.Interrupted {
			t.Fatalf("scans %+v; want a running one", scans)
		}
		for _, run := range runsOf(rows, "hourly") {
			if run.Status != runs.OK || run.Ended.Sub(run.Due) > 3*time.Minute {
				t.Errorf("the run due %s ended %s as %s", run.Due, run.Ended, run.Status)
			}
		}
		rows = w.serve(4 * time.Hour)
		if scans := runsOf(rows, "niche"); len(scans) != 1 || scans[0].Status != runs.OK || scans[0].Pages != 3 || len(w.started()) != 1 {
			t.Errorf("scans %+v; want the one to have been read", scans)
		}
		if hours := runsOf(rows, "hourly"); len(hours) != 7 {
			t.Errorf("%d hourly runs in seven hours", len(hours))
		}
	})
}

// TestFailedCallRetriesAfterBackOff, and its results are published.
func TestFailedCallRetriesAfterBackOff(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  daily: {schedule: "0 6 * * *", search: {query: [home espresso]}, enrich: {details: {top: 3}}}
`
	single(t, file, func(w *workshop) {
		time.Sleep(6*time.Hour - time.Minute)
		w.failOne("/video/")
		e, stop := w.open()
		defer stop()
		if _, err := e.Agenda(time.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, 20*time.Minute)
		defer cancel()
		ended := make(chan bool)
		go func() {
			e.Serve(ctx)
			close(ended)
		}()
		time.Sleep(10 * time.Minute)
		if got := w.count("select count(*) from videos"); got != 2 {
			t.Errorf("%d videos while one waits for another try, want 2", got)
		}
		time.Sleep(8 * time.Minute)
		if got := w.count("select count(*) from videos"); got != 3 {
			t.Errorf("%d videos are published after a quarter of an hour, want all 3 although nothing else is due", got)
		}
		<-ended
	})
}

// TestRunIsContinuedOnce: resuming is tried again if it failed for one of the jobs.
func TestRunIsContinuedOnce(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long: {every: 1h, search: {query: [home espresso]}, enrich: {details: {}}}
`
	bare(t, file, func(w *workshop) {
		if rows := w.serve(time.Hour + time.Minute); len(rows) != 1 || rows[0].Status != runs.Interrupted {
			t.Fatalf("runs %+v; want one that is cut short", rows)
		}
		w.withSinks(func(e *Engine) {
			again := newScheduler(w.ctx, e)
			for range 2 {
				again.resumed = false
				if err := again.prepare(w.ctx); err != nil {
					t.Fatal(err)
				}
			}
			if going, err := again.worker.inProgress(again.engine.Store); len(going) != 1 || err != nil {
				t.Errorf("%d runs are under way (%v), want the one that was cut short", len(going), err)
			}
		})
	})
}

// TestShortRunsRemoveExpiredCalls: a run that buys nothing learns the service's time after its first turn.
func TestShortRunsRemoveExpiredCalls(t *testing.T) {
	t.Parallel()
	bare(t, oneCall(outlier.OpDetails)+"  two: {videos: {id: [dQw4w9WgXcQ], fetch: [details]}}\n", func(w *workshop) {
		well := w.wire
		w.wire = answering(well, "{}")
		w.mustRun(runs.Partial)
		w.wire, w.asks = well, true
		time.Sleep(8 * day)
		w.withSinks(func(e *Engine) {
			if row, err := e.Run(w.ctx, w.config.Job("two"), Manual, time.Time{}); err != nil || row.Requests != 1 {
				t.Errorf("run %+v, error %v; want one that has made its call", row, err)
			}
			if n, err := e.Store.Queue.Queued(queue.Filter{}); n != 0 || err != nil {
				t.Errorf("%d calls are queued (error %v), want none: the one that failed has expired", n, err)
			}
		})
	})
}
