package engine

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// blocking refuses the first call of one kind, and asks for a wait of a quarter of an hour.
func blocking(wire http.RoundTripper, path string) http.RoundTripper {
	refused := false
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if refused || !strings.HasPrefix(r.URL.Path, path) {
			return wire.RoundTrip(r)
		}
		refused = true
		connect(r)
		answer := page(http.StatusTooManyRequests, "application/json", `{"status":"error","error":{"message":"slow down","rateLimit":{"limit":10,"current":11,"remaining":0}}}`)
		answer.Header.Set("Retry-After", "900")
		return answer, nil
	})
}

// TestLongWaitEndsTheManualRun: a manual run does not wait for a quarter of an hour. It stops, and the
// next one continues it.
func TestLongWaitEndsTheManualRun(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/search/", "/video/comments/"} {
		t.Run(path, func(t *testing.T) {
			bare(t, jobsFile, func(w *workshop) {
				w.wire = blocking(w.service.Transport(), path)
				began := time.Now()
				row, err := w.run()
				long, ok := errors.AsType[*pace.LongWaitError](err)
				if !ok || row.Status != runs.PausedQuota {
					t.Fatalf("status %s, error %v; want a run that waits for the quota and a *pace.LongWaitError",
						row.Status, err)
				}
				if took := time.Since(began); took > 5*time.Minute || time.Until(long.Until) < 10*time.Minute {
					t.Errorf("the run stopped after %s and can be continued in %s", took, time.Until(long.Until))
				}
				time.Sleep(time.Until(long.Until))
				next := w.mustRun(runs.OK)
				if next.ID != row.ID || w.service.Books().Total.Spent() != 4 {
					t.Errorf("run %s, %d credits; want run %s to go on to 4",
						next.ID, w.service.Books().Total.Spent(), row.ID)
				}
			})
		})
	}
}

// TestDaemonWaitsOutALongWait without a user.
func TestDaemonWaitsOutALongWait(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  hourly: {every: 1h, search: {query: [home espresso]}, enrich: {details: {top: 3}}}
`
	bare(t, file, func(w *workshop) {
		w.wire = blocking(w.service.Transport(), "/video/")
		time.AfterFunc(time.Hour+2*time.Minute, func() { // in the quarter of an hour
			seen, err := state.Peek(w.ctx, filepath.Join(w.data(), "state"), state.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer seen.Close()
			if rows, err := seen.Runs.List(runs.Filter{}, 1); err != nil || rows[0].Status != runs.PausedQuota || !strings.Contains(rows[0].Error, "allows no request") {
				t.Errorf("while it waits the run is %+v (%v); want %s and why", rows, err, runs.PausedQuota)
			}
		})
		rows := w.serve(time.Hour + 20*time.Minute)
		if len(rows) != 1 || rows[0].Status != runs.OK || rows[0].Failures != 0 {
			t.Errorf("runs %+v; want one that ended well", rows)
		}
		if calls := w.service.Books().Operations[outlier.OpDetails].Calls; calls != 3 {
			t.Errorf("%d details, want 3", calls)
		}
	})
}

// TestForecastCountsLaterRunsInFull: the cost of the rest of an unfinished run does not apply to later runs.
// This matters most before the first run has ended.
func TestForecastCountsLaterRunsInFull(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  daily: {every: 1d, search: {query: [home espresso]}, enrich: {comments: {top: 3}}}
`
	bare(t, file, func(w *workshop) {
		w.wire = blocking(w.service.Transport(), "/video/comments/")
		if row, err := w.run(); row == nil || row.Status != runs.PausedQuota {
			t.Fatalf("run %+v, error %v; want one that is unfinished", row, err)
		}
		e, stop := w.open()
		defer stop()
		f, err := forecasts(e).Forecast(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		job := f.Jobs[0]
		if job.Continues == "" || job.Expected.Credits != 0 || job.Runs == 0 {
			t.Fatalf("forecast %+v; want an unfinished run without pages, and later runs", job)
		}
		if want := 2 * outlier.Credits(job.Runs); f.Cycle.Wanted != want {
			t.Errorf("%d runs want %d credits, want %d", job.Runs, f.Cycle.Wanted, want)
		}
	})
}

// TestScanEndingDuringWaitIsRead: the first turn after the long wait closes the scan, before anything records
// that the run has resumed.
func TestScanEndingDuringWaitIsRead(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  niche: {every: 6h, scan: {query: [espresso machine repair], poll: 1m..10m, deadline: 6h, read: {pages: 2}}}
  tea: {every: 6h, search: {query: [tea]}, enrich: {details: {top: 3}}}
`
	bare(t, file, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 10 * time.Minute}, simulator.Phase{Status: "Completed"}))
		w.wire = blocking(w.service.Transport(), "/video/")
		w.keeping(func(e *Engine, stop func()) {
			time.Sleep(6*time.Hour + 2*time.Minute)
			if row := w.last(e, "niche"); row.Status != runs.PausedQuota {
				t.Fatalf("status %s, want a run that waits for the rate limit", row.Status)
			}
			wait := func(context.Context) error { time.Sleep(20 * time.Minute); return nil } // as a machine that sleeps
			if err := e.Between(w.ctx, wait); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if row := w.last(e, "niche"); row.Status != runs.OK || row.Pages != 2 {
				t.Errorf("status %s (%s) and %d pages, want the scan to be read", row.Status, row.Error, row.Pages)
			}
		})
	})
}
