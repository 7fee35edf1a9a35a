package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// TestStopAfterEndsNoScan: stop_after ends only what was not paid for.
func TestStopAfterEndsNoScan(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "budget: {per_run: 60}", "enrich: {details: {top: 30}}\n    stop_after: 30m\n    budget: {per_run: 60}", 1)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		row := w.mustRun(runs.OK)
		if row.Pages != 3 || w.calls(outlier.OpDetails) != 0 {
			t.Errorf("%d pages and %d details; want the scan to be read, and the calls that cost nothing to wait",
				row.Pages, w.calls(outlier.OpDetails))
		}
		w.inspect(func(e *Engine) {
			if queued, err := e.Store.Queue.Queued(queue.Filter{}); err != nil || queued != 30 {
				t.Errorf("%d calls are queued, error %v; want 30", queued, err)
			}
		})
	})
}

// TestCappedScanRunIsNotContinued: the page that showed what `from` counts was paid from the hold for
// reading, and the last page exceeds the run's own cap. The next run is a new one, which joins the scan: it
// was paid for, and was not read to its end.
func TestCappedScanRunIsNotContinued(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "per_run: 60", "per_run: 56", 1)
	bare(t, file, func(w *workshop) {
		w.renew(simulator.Options{Scans: anHour.Scans, PagingItems: true})
		first := w.mustRun(runs.PausedBudget)
		if first.Pages != 2 || first.Credits != 56 {
			t.Errorf("%d pages for %d credits, want 2 for 56", first.Pages, first.Credits)
		}
		time.Sleep(time.Hour)
		next := w.mustRun(runs.OK)
		if next.ID == first.ID || next.Pages != 3 || len(w.started()) != 1 {
			t.Errorf("run %s took %d pages of %d scans, want another than %s that takes 3 of the same scan",
				next.ID, next.Pages, len(w.started()), first.ID)
		}
	})
}

// TestScanContinuesWhileReadingFits, however old it is and however few requests are left, because it was paid
// for.
func TestScanContinuesWhileReadingFits(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "per_run: 60", "per_run: 60, max_requests: 3", 1)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		ctx, cancel := context.WithTimeout(w.ctx, 30*time.Minute)
		defer cancel()
		w.withSinks(func(e *Engine) {
			if row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); err == nil {
				t.Fatalf("run ended as %s", row.Status)
			}
		})
		time.Sleep(10 * day)
		if row := w.mustRun(runs.OK); row.Pages != 3 || len(w.started()) != 1 {
			t.Errorf("%d pages of %d scans, want 3 of one", row.Pages, len(w.started()))
		}
	})
}
