package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"

	"outlierd/sync/runs"
)

// sameFile has two jobs whose scans differ only in the order of queries, and which read them differently.
const sameFile = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 400, per_day: 200}
jobs:
  first:
    every: 24h
    scan: {query: [moka pot, aeropress], deadline: 6h, read: {pages: 3}}
  second:
    every: 24h
    scan: {query: [aeropress, moka pot], deadline: 6h, read: {where: {z_score: 3..}, pages: 1}}
`

// runOf runs a job for a while, or to its end.
func (w *workshop) runOf(name string, d time.Duration, change job.Overrides) (row *runs.Run, err error) {
	w.Helper()
	w.withSinks(func(e *Engine) {
		spec, afresh := *w.config.Job(name), false
		if change.Again || change.Pages > 0 {
			if spec, err = spec.With(change); err != nil {
				w.Fatal(err)
			}
			afresh = true
		}
		ctx, cancel := context.WithTimeout(w.ctx, d)
		defer cancel()
		row, err = e.Perform(ctx, &Order{Spec: &spec, Trigger: Manual, Afresh: afresh})
	})
	return row, err
}

// TestRunsShareSameScan: it is started once and polled once for all. Each run reserves its own price of
// reading, and reads with its own filters.
func TestRunsShareSameScan(t *testing.T) {
	t.Parallel()
	bare(t, sameFile, func(w *workshop) {
		w.renew(anHour)
		looks := 0
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/scan/") {
				looks++
			}
			return w.service.Transport().RoundTrip(r)
		})
		time.Sleep(23 * time.Hour)
		w.withSinks(func(e *Engine) { w.see(e, "first", "second") })
		rows := w.serve(90 * time.Minute)
		if len(rows) != 2 || rows[0].Status != runs.Interrupted || rows[1].Status != runs.Interrupted {
			t.Fatalf("runs %+v; want two that wait", rows)
		}
		rows = w.serve(90 * time.Minute) // another process
		if len(rows) != 2 || len(w.started()) != 1 || w.spent() != 50+6+2 {
			t.Fatalf("%d runs, %d scans and %d credits; want 2, 1 and 58", len(rows), len(w.started()), w.spent())
		}
		for i, want := range []struct {
			pages   int64
			credits outlier.Credits
		}{{3, 56}, {1, 2}} {
			if r := rows[i]; r.Status != runs.OK || r.Pages != want.pages || r.Credits != want.credits {
				t.Errorf("the run of %s ended as %s with %d pages for %d credits, want %d for %d",
					r.Job, r.Status, r.Pages, r.Credits, want.pages, want.credits)
			}
		}
		if looks > 9 {
			t.Errorf("the scan was polled %d times, more often than by one run", looks)
		}
		w.inspect(func(e *Engine) {
			if held := w.held(e); held != 58 {
				t.Errorf("%d credits are held at the end, want the 58 that were spent", held)
			}
		})
	})
}

// TestJoiningRunReservesReadingPrice: the run starts only if that fits into the budget, and may cost no more.
func TestJoiningRunReservesReadingPrice(t *testing.T) {
	t.Parallel()
	bare(t, sameFile, func(w *workshop) {
		w.renew(anHour)
		if _, err := w.runOf("first", 10*time.Minute, job.Overrides{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		w.inspect(func(e *Engine) {
			p, cost, err := forecasts(e).WorstCase(w.ctx, w.config.Job("second"), false)
			if err != nil || cost.Credits != 2 || cost.Lost != 6 {
				t.Errorf("reading costs %+v (%v), want 2 credits and 6 if answers are lost", cost, err)
			}
			if joins := p.Stored.Joins; len(joins) != 1 || joins[0] == "" {
				t.Errorf("it joins %v, want the scan of the first job", joins)
			}
		})
		full := new(outlier.Credits(57)) // 50 are spent and 6 reserved
		w.config.Budget.PerDay = full
		if row, _ := w.runOf("second", time.Hour, job.Overrides{}); row.Status != runs.PausedBudget || !strings.Contains(row.Error, "reading the scan may cost 2") {
			t.Errorf("without room for reading the run ended as %s: %s", row.Status, row.Error)
		}
		w.config.Budget.PerDay = new(outlier.Credits(58))
		if _, err := w.runOf("second", time.Minute, job.Overrides{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		w.inspect(func(e *Engine) {
			if held := w.held(e); held != 58 {
				t.Errorf("%d credits are held while both wait, want 58", held)
			}
		})
		for _, name := range []string{"second", "first"} {
			if row, err := w.runOf(name, 2*time.Hour, job.Overrides{}); err != nil || row.Status != runs.OK {
				t.Errorf("the run of %s ended as %s: %v", name, row.Status, err)
			}
		}
		if len(w.started()) != 1 || w.spent() != 58 {
			t.Errorf("%d scans for %d credits, want 1 for 58", len(w.started()), w.spent())
		}
	})
}

// TestDueRunJoinsScanAfterOutage: the scan has ended while no process was running, in which a job with the same scan came
// due. The run of that job joins it before the run that started it reads it.
func TestDueRunJoinsScanAfterOutage(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(sameFile, "every: 24h", "tags: [manual]", 1), func(w *workshop) {
		w.renew(anHour)
		w.withSinks(func(e *Engine) { w.see(e, "second") })
		time.Sleep(23 * time.Hour)
		if _, err := w.runOf("first", 10*time.Minute, job.Overrides{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		for i, row := range w.serve(time.Hour) {
			if row.Status != runs.OK || row.Pages != int64(3-2*i) {
				t.Errorf("the run of %s ended as %s with %d pages: %s", row.Job, row.Status, row.Pages, row.Error)
			}
		}
		if len(w.started()) != 1 || w.spent() != 58 {
			t.Errorf("%d scans for %d credits, want 1 for 58", len(w.started()), w.spent())
		}
	})
}

// TestScanOutlivesItsCancelledRun: if the run that started it is cancelled, the run that joined reads the
// scan.
func TestScanOutlivesItsCancelledRun(t *testing.T) {
	t.Parallel()
	bare(t, sameFile, func(w *workshop) {
		w.renew(anHour)
		paid, _ := w.runOf("first", 10*time.Minute, job.Overrides{})
		_, _ = w.runOf("second", 10*time.Minute, job.Overrides{})
		w.inspect(func(e *Engine) {
			if err := closeRun(e.Store, paid); err != nil {
				t.Fatal(err)
			}
		})
		row, err := w.runOf("first", 2*time.Hour, job.Overrides{Pages: 2})
		if err != nil || row.Pages != 2 || row.Credits != 4 {
			t.Errorf("%d pages for %d credits (%v), want 2 for 4", row.Pages, row.Credits, err)
		}
		if row, err := w.runOf("second", time.Hour, job.Overrides{}); err != nil || row.Credits != 2 {
			t.Errorf("the run that joined first has spent %d credits (%v), want 2", row.Credits, err)
		}
		w.inspect(func(e *Engine) {
			if held := w.held(e); held != 56 || w.spent() != 56 || len(w.started()) != 1 {
				t.Errorf("%d credits held and %d spent on %d scans, want 56 on one", held, w.spent(), len(w.started()))
			}
		})
		// The scan was read, so the next run starts another one.
		if row, err := w.runOf("second", 3*time.Hour, job.Overrides{}); err != nil || row.Credits != 52 {
			t.Errorf("the next run has spent %d credits (%v), want 52", row.Credits, err)
		}
		w.inspect(func(e *Engine) {
			f, err := forecasts(e).Forecast(w.ctx, "second")
			if err != nil || f.Jobs[0].Expected.Credits != 52 {
				t.Errorf("%d credits are expected of the next one (%v), want 52: not every run finds a scan to join",
					f.Jobs[0].Expected.Credits, err)
			}
		})
	})
}

// TestOnlyUserBuysSecondScan, and not even a user while a start is unconfirmed.
func TestOnlyUserBuysSecondScan(t *testing.T) {
	t.Parallel()
	bare(t, sameFile, func(w *workshop) {
		w.renew(anHour)
		w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
		if _, err := w.runOf("first", time.Hour, job.Overrides{}); err == nil {
			t.Fatal("the answer to the start was not lost")
		}
		for _, change := range []job.Overrides{{}, {Again: true}} {
			_, err := w.runOf("second", time.Hour, change)
			unsettled, ok := errors.AsType[*UnsettledScanError](err)
			if !ok || unsettled.Scan.Job != "first" || len(w.started()) != 1 {
				t.Errorf("%+v: error %v and %d scans, want a report of the one that is not confirmed",
					change, err, len(w.started()))
			}
		}
		w.settle(0)
		_, _ = w.runOf("second", 10*time.Minute, job.Overrides{Again: true})
		if len(w.started()) != 2 {
			t.Errorf("%d scans after a person has asked for another, want 2", len(w.started()))
		}
		for _, name := range []string{"first", "second"} {
			if row, err := w.runOf(name, 2*time.Hour, job.Overrides{}); err != nil || row.Status != runs.OK {
				t.Errorf("the run of %s ended as %s: %v", name, row.Status, err)
			}
		}
		if len(w.started()) != 2 {
			t.Errorf("%d scans in the end, want 2", len(w.started()))
		}
	})
}

// TestExpiredScanIsNotJoined: its deadline has passed, and its results are out of date.
func TestExpiredScanIsNotJoined(t *testing.T) {
	t.Parallel()
	bare(t, sameFile, func(w *workshop) {
		w.renew(anHour)
		_, _ = w.runOf("first", 10*time.Minute, job.Overrides{})
		time.Sleep(7 * time.Hour)
		if row, err := w.runOf("second", 2*time.Hour, job.Overrides{}); err != nil || row.Credits != 52 || len(w.started()) != 2 {
			t.Errorf("%d credits for the second of %d scans (%v), want 52 of two", row.Credits, len(w.started()), err)
		}
	})
}

// sharedScanFile has two searches in one job that need the same scan.
const sharedScanFile = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 400}
jobs:
  niche:
    every: 24h
    for_each: {kind: [video, short]}
    scan: {query: [moka pot], read: {where: {type: "${kind}"}, pages: 2}}
`

// TestReadingFiltersShareOneScan: with for_each used only in read, each value needs the same scan. It is
// started once and read once for each value.
func TestReadingFiltersShareOneScan(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, sharedScanFile, func(w *workshop) {
		w.renew(anHour)
		w.inspect(func(e *Engine) {
			if _, cost, err := forecasts(e).WorstCase(w.ctx, w.config.Job("niche"), false); err != nil || cost.Credits != 50+2*4 {
				t.Errorf("it costs %d credits (%v), want 58", cost.Credits, err)
			}
		})
		rows := w.serve(26 * time.Hour)
		if len(rows) != 1 || rows[0].Status != runs.OK || rows[0].Pages != 4 || w.spent() != 58 || len(w.started()) != 1 {
			t.Errorf("runs %+v; %d credits for %d scans, want 58 for one", rows, w.spent(), len(w.started()))
		}
		for _, step := range w.steps(&rows[0]) {
			if step.Scan != "" && !strings.Contains(step.Query.Encode(), "type="+step.Item) {
				t.Errorf("read for %q by %s", step.Item, step.Query.Encode())
			}
		}
	})
}

// TestInvalidReadingStartsNoScan: the search of the scan's results is checked before the scan is bought.
func TestInvalidReadingStartsNoScan(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		w.inspect(func(e *Engine) {
			s, err := newWorker(w.ctx, e)
			if err != nil {
				t.Fatal(err)
			}
			s.tell = func(_ *runs.Run, failed error) { err = failed }
			row, failed := s.begin(w.ctx, &Order{Spec: &w.config.Jobs[0], Trigger: Manual})
			if failed != nil {
				t.Fatal(failed)
			}
			row.Plan.Reads[0] = "sortBy=luck" // as a version with other rules may have stored it
			if failed := e.Store.Runs.Resume(*row); failed != nil {
				t.Fatal(failed)
			}
			if _, failed := s.work(w.ctx); failed != nil {
				t.Fatal(failed)
			}
			if err == nil || !strings.Contains(err.Error(), "the scan is not started") || !strings.Contains(err.Error(), "luck") || len(w.started()) > 0 {
				t.Errorf("%d scans started, error %v; want none, and why", len(w.started()), err)
			}
		})
	})
}
