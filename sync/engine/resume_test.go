package engine

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// TestOldRunIsClosedAsInterrupted: it is too old to be continued, and a new run covers its rest.
func TestOldRunIsClosedAsInterrupted(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  weekly: {schedule: "0 0 * * sat", search: {query: [home espresso], where: {published_at: since last success}, pages: 3}, budget: {per_run: 6}}
`
	bare(t, file, func(w *workshop) {
		if !w.kill(1, beforePace) { // on a Saturday, with one page of three
			t.Fatal("there was no second page")
		}
		time.Sleep(25 * time.Hour)
		row := w.mustRun(runs.OK)
		var all []runs.Run
		w.inspect(func(e *Engine) {
			var err error
			if all, err = e.Store.Runs.List(runs.Filter{Job: "weekly"}, 0); err != nil {
				t.Fatal(err)
			}
		})
		if len(all) != 2 || all[1].Status != runs.Interrupted || row.ID == all[1].ID || all[1].Pages != 1 || all[1].Credits != 2 || row.Pages == 0 {
			t.Errorf("runs %+v; want a new one, and the old one closed as interrupted with its page", all)
		}
		if window := w.steps(row)[0].Window; !strings.HasPrefix(window, days(1-30)) {
			t.Errorf("the new window is %s, want one that covers what the old run left", window)
		}
	})
}

// TestOldPaidScanIsContinued at any age, because it cost fifty credits.
func TestOldPaidScanIsContinued(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		if !w.kill(3, beforePace) {
			t.Fatal("the scan was not looked at twice")
		}
		time.Sleep(5 * day)
		if row := w.mustRun(runs.OK); row.Pages != 3 || len(w.started()) != 1 {
			t.Errorf("%d pages of %d scans, want 3 of 1", row.Pages, len(w.started()))
		}
	})
}

// TestLaterRunMakesTheRemainingCalls: stop_after ends a run and keeps its queue.
func TestLaterRunMakesTheRemainingCalls(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {search: {query: [home espresso]}, enrich: {details: {top: 25}}, stop_after: 2m}
`
	bare(t, file, func(w *workshop) {
		first := w.mustRun(runs.OK)
		done := w.calls(outlier.OpDetails)
		if done == 0 || done == 25 || first.Ended.Sub(first.Started) > 3*time.Minute {
			t.Fatalf("%d details in %s, want some within two minutes", done, first.Ended.Sub(first.Started))
		}
		if second := w.mustRun(runs.OK); second.ID == first.ID || w.calls(outlier.OpDetails) != 25 {
			t.Errorf("%d details after the next run, want all 25", w.calls(outlier.OpDetails))
		}
	})
}

// TestEmptySeedQuerySpendsNothing: if SQL returns no seed, the run is ok_empty, and nothing is requested.
func TestEmptySeedQuerySpendsNothing(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: VERB
`
	for _, verb := range []string{
		"{related: {video_id: {sql: select video_id from outliers}}}",
		"{videos: {id: {sql: select video_id from outliers}, fetch: [details]}}",
		"{for_each: {topic: {sql: select title from outliers}}, search: {query: [\"${topic}\"]}}",
	} {
		bare(t, strings.Replace(file, "VERB", verb, 1), func(w *workshop) {
			w.mustRun(runs.OKEmpty)
			if calls := w.service.Books().Total.Calls; calls != 0 {
				t.Errorf("%s: %d calls for no seeds", verb, calls)
			}
		})
	}
}

// TestFailedSeedQuerySpendsNothing: the run fails before its first request, with the position in the file.
func TestFailedSeedQuerySpendsNothing(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(afterFile, "select video_id from outliers where", "select nosuch from outliers where", 1), func(w *workshop) {
		w.withSinks(func(e *Engine) {
			row, err := e.Run(w.ctx, w.config.Job("child"), Manual, time.Time{})
			if row != nil || err == nil || !strings.Contains(err.Error(), "child") || !strings.Contains(err.Error(), "line") || !strings.Contains(err.Error(), "nosuch") {
				t.Errorf("run %+v, error %v; want one that names the job, the place and the column", row, err)
			}
			rows, err := e.Store.Runs.List(runs.Filter{Job: "child"}, 1)
			if err != nil || len(rows) != 1 || rows[0].Status != runs.Failed || rows[0].Credits != 0 {
				t.Errorf("runs %+v, error %v; want one that failed", rows, err)
			}
		})
	})
}

// TestScheduleSurvivesRefusedKey, and continues with a new key.
func TestScheduleSurvivesRefusedKey(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  hourly: {every: 1h, reuse_for: 1m, search: {query: [home espresso]}}
`
	bare(t, file, func(w *workshop) {
		began, old := time.Now(), w.service
		renewed := simulator.New(simulator.Options{Seed: 1, Key: "another-key-for-tests"})
		refusing := func() bool { return time.Since(began) < 3*time.Hour+30*time.Minute }
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if !refusing() {
				return renewed.Transport().RoundTrip(r)
			}
			old.FailNext("", simulator.Unauthorized)
			return old.Transport().RoundTrip(r)
		})
		fresh, err := outlier.NewKey("another-key-for-tests")
		if err != nil {
			t.Fatal(err)
		}
		e, stop := w.open()
		defer stop()
		first := e.Client.Key
		e.Rekey = func() (outlier.Key, error) {
			if refusing() {
				return first, nil
			}
			return fresh, nil
		}
		if _, err := e.Agenda(time.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := contextFor(w, 6*time.Hour+time.Minute)
		defer cancel()
		e.Serve(ctx)
		if calls := old.Books().Total.Calls; calls != 1 {
			t.Errorf("%d calls in three hours with the old key, want the one that was refused", calls)
		}
		if served := renewed.Books().Total.Served; served != 3 {
			t.Errorf("%d pages in the three hours with the new key, want 3", served)
		}
	})
}

// TestNewKeyReplacesRefusedKey: the run with the refused call continues.
func TestNewKeyReplacesRefusedKey(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		old := w.service
		renewed := simulator.New(simulator.Options{Seed: 1, Key: "another-key-for-tests"})
		calls := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if calls++; calls <= 2 {
				return old.Transport().RoundTrip(r)
			}
			return renewed.Transport().RoundTrip(r) // it accepts no other key
		})
		w.withSinks(func(e *Engine) {
			e.Rekey = func() (outlier.Key, error) {
				if calls < 3 {
					return e.Client.Key, nil
				}
				return outlier.NewKey("another-key-for-tests")
			}
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil || row.Status != runs.OK || renewed.Books().Total.Refused != 1 {
				t.Errorf("run %+v, error %v, %d calls with the old key refused; want one that is repeated with the new one",
					row, err, renewed.Books().Total.Refused)
			}
		})
	})
}

// TestNewKeyHasNoBlock: the old key had no credits, and was replaced before the next run.
func TestNewKeyHasNoBlock(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.service.FailNext("", simulator.NoCredits)
		w.mustRun(runs.PausedBudget)
		w.service = simulator.New(simulator.Options{Seed: 1, Key: "another-key-for-tests"})
		w.wire = w.service.Transport()
		w.withSinks(func(e *Engine) {
			e.Rekey = func() (outlier.Key, error) { return outlier.NewKey("another-key-for-tests") }
			if row, err := e.Run(w.ctx, &w.config.Jobs[0], Scheduled, time.Now()); err != nil || row.Status != runs.OK {
				t.Errorf("run %+v, error %v; want one that is well", row, err)
			}
		})
	})
}

// TestUnreadableKeyFileKeepsKey in use: the file may be in the middle of a replacement.
func TestUnreadableKeyFileKeepsKey(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.withSinks(func(e *Engine) {
			e.Rekey = func() (outlier.Key, error) { return outlier.Key{}, errors.New("no such file") }
			if row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{}); err != nil || row.Status != runs.OK {
				t.Errorf("run %+v, error %v; want one that is well", row, err)
			}
		})
	})
}

// TestCallsNeverOverlap: one call is in flight at a time, whatever is due.
func TestCallsNeverOverlap(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(jobsFile, "search:", "every: 10m\n    search:", 1), func(w *workshop) {
		var flying, most atomic.Int64
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), flying.Add(1)))
			defer flying.Add(-1)
			time.Sleep(3 * time.Second)
			return w.service.Transport().RoundTrip(r)
		})
		w.serve(25 * time.Minute)
		if most.Load() != 1 {
			t.Errorf("%d calls at once", most.Load())
		}
	})
}

// TestWorstCaseCapsRun: it counts attempts and is the run's cap, so lost answers cannot cost more.
func TestWorstCaseCapsRun(t *testing.T) {
	t.Parallel()
	bare(t, pagesFile, func(w *workshop) {
		w.use(strings.NewReplacer("pages: all", "pages: 2", ", budget: {per_run: 60}", "").Replace(pagesFile))
		var worst plan.Cost
		w.inspect(func(e *Engine) {
			var err error
			if _, worst, err = forecasts(e).WorstCase(w.ctx, &w.config.Jobs[0], false); err != nil {
				t.Fatal(err)
			}
		})
		for range 100 {
			w.service.FailNext(outlier.OpSearch, simulator.DropAnswer)
		}
		if worst.Lost != worst.Credits*plan.Attempts {
			t.Errorf("at worst %d credits, and %d if answers are lost; want %d times as many",
				worst.Credits, worst.Lost, plan.Attempts)
		}
		var held []outlier.Credits
		for range 5 {
			row, err := w.run() // each continues the one before it, until the cap is reached
			if row == nil {
				t.Fatal(err)
			}
			held = append(held, row.Credits)
			time.Sleep(time.Minute)
		}
		if slices.Max(held) > worst.Lost {
			t.Errorf("runs hold %v credits, more than the worst case of %d", held, worst.Lost)
		}
	})
}

// TestLedgerAndCapsSurviveKeyChange: they belong to the account.
func TestLedgerAndCapsSurviveKeyChange(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("jobs:", "budget: {per_month: 5}\njobs:", "per_run: 20", "per_run: 5").Replace(jobsFile)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(7 * time.Hour)
		w.service = simulator.New(simulator.Options{Seed: 1, Key: "another-key-for-tests"})
		w.wire = w.service.Transport()
		key, err := outlier.NewKey("another-key-for-tests")
		if err != nil {
			t.Fatal(err)
		}
		w.withSinks(func(e *Engine) {
			e.Client.Key = key
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil || row.Status != runs.PausedBudget || w.calls(outlier.OpSearch) != 0 {
				t.Errorf("run %+v, error %v, %d pages; want the cap that the other key has used up",
					row, err, w.calls(outlier.OpSearch))
			}
		})
	})
}

// TestReadersSeeKilledRunAsInterrupted as soon as the schedule starts, with what the run had done.
func TestReadersSeeKilledRunAsInterrupted(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  daily: {schedule: "@daily", search: {query: [home espresso], pages: 2}, enrich: {details: {top: 5}}}
`
	bubble(t, file, func(w *workshop) {
		w.single = true
		time.Sleep(time.Hour)
		if !w.kill(1, beforeAnswer) {
			t.Fatal("the run had no second call")
		}
		w.serve(time.Second)
		want := []string{"interrupted 1 40 2 4 true"}
		if got := w.rows(`select concat_ws(' ', status, pages, hits, requests, credits, ended_at >= started_at) from ops.runs`); !slices.Equal(got, want) {
			t.Errorf("readers see %q, want %q", got, want)
		}
	})
}

// TestKilledRunCountsItsRows: the run reports the same rows as an undisturbed one, although its first process
// was killed or stopped before it could report them.
func TestKilledRunCountsItsRows(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	file, ends := searchFile+"    enrich: {details: {top: 3}, comments: {top: 2}}\n", []int{2, 3}
	var want map[string]int64
	single(t, file, func(w *workshop) { want = w.mustRun(runs.OK).Rows })
	single(t, file, func(w *workshop) {
		for _, n := range ends {
			if !w.kill(n, beforePace) {
				t.Fatalf("the run has no call %d", n)
			}
		}
		if got := w.mustRun(runs.OK).Rows; !maps.Equal(got, want) {
			t.Errorf("after kills at %v the run has rows %v, want %v", ends, got, want)
		}
	})
}

// TestUserCapAppliesToOneResumption: a run that has reached it goes on without it when it is resumed again.
func TestUserCapAppliesToOneResumption(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\njobs: {coffee: {search: {query: [home espresso], pages: 4}, " +
		"budget: {per_run: 4}}}\n"
	bare(t, file, func(w *workshop) {
		first := w.mustRun(runs.PausedBudget)
		w.use(strings.Replace(file, "per_run: 4", "per_run: 30", 1))
		e, stop := w.open()
		defer stop()
		capped := w.config.Jobs[0]
		capped.Budget.MaxCredits = new(outlier.Credits(6))
		row, err := e.Run(w.ctx, &capped, Manual, time.Time{})
		if err != nil || row.ID != first.ID || row.Status != runs.PausedBudget || row.Credits != 6 {
			t.Errorf("%+v (%v), want run %s to stop at 6 credits", row, err, first.ID)
		}
		row, err = e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.ID != first.ID || row.Status != runs.OK || row.Credits != 8 {
			t.Errorf("%+v (%v), want run %s to go on to 8 credits", row, err, first.ID)
		}
	})
}

// TestScheduleNeverUsesReserve: it resumes without the reserve what a user has resumed with it.
func TestScheduleNeverUsesReserve(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nservice: {url: \"sim://\", limit: 600/min}\nbudget: {per_month: 12, reserve: 8}\n" +
		"jobs: {coffee: {every: 1h, search: {query: [home espresso], pages: 5}}}\n"
	bare(t, file, func(w *workshop) {
		w.keeping(func(e *Engine, _ func()) {
			time.Sleep(time.Hour + time.Minute)
			spec, first := *w.config.Job("coffee"), w.last(e, "coffee")
			spec.Budget.MaxCredits = new(outlier.Credits(6))
			w.ends(w.order(e, Order{Spec: &spec, Old: &first, UseReserve: true}), runs.PausedBudget)
			time.Sleep(3 * time.Hour)
			if w.spent() != 6 {
				t.Errorf("%d credits are spent, want the 4 without the reserve, and 2 that a person allowed", w.spent())
			}
		})
	})
}
