package engine

import (
	"context"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// A look by hand finds out for the run as well: the next one reads at once.
func TestPollOfAScanIsNotedForAllWhoWait(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
		defer cancel()
		w.inspect(func(e *Engine) {
			if row, err := e.Run(ctx, w.config.Job("niche"), Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
				t.Errorf("the run that was left is %v, %v", row, err)
			}
		})
		look := func(status string, as runs.ScanState) {
			w.inspect(func(e *Engine) {
				id := w.started()[0]
				told, err := e.PollScan(w.ctx, id)
				if err != nil || told.Status != status {
					t.Errorf("the scan is %q (%v), want %s", told.Status, err, status)
				}
				if scan, err := e.Store.Runs.ScanByID(id); err != nil || scan.State != as || scan.Status != status {
					t.Errorf("noted is %v (%v), want %s", scan, err, as)
				}
			})
		}
		look("Running", runs.ScanRunning)
		time.Sleep(time.Hour)
		look("Completed", runs.ScanEnded)
		look("Completed", runs.ScanEnded)
		looks := w.calls(outlier.OpScan)
		if row := w.mustRun(runs.OK); row.Pages != 3 || w.calls(outlier.OpScan) != looks || w.calls(outlier.OpStartScan) != 1 {
			t.Errorf("%d pages after %d more looks and %d scans; want 3, none and 1", row.Pages, w.calls(outlier.OpScan)-looks, w.calls(outlier.OpStartScan))
		}
	})
}

func TestPollOfAScanOfOthers(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.inspect(func(e *Engine) {
			if _, err := e.PollScan(w.ctx, "11111111-2222-4333-8444-555555555555"); err == nil {
				t.Error("a scan that the service does not know was seen")
			}
			if _, err := e.PollScan(w.ctx, "no id"); err == nil {
				t.Error("what is no id was asked about")
			}
		})
	})
}
