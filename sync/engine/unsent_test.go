package engine

import (
	"strings"
	"testing"
	"time"

	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// TestUnsentStartEndsWithTime: a scan whose start was put on record and never sent has cost nothing, so stop_after
// ends it as any other search.
func TestUnsentStartEndsWithTime(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "budget: {per_run: 60}", "stop_after: 30m\n    budget: {per_run: 60}", 1)
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		w.kill(0, beforePace)
		e, stop := w.open()
		defer stop()
		open, err := e.Store.Runs.Unfinished("niche")
		if err != nil || len(open) != 1 {
			t.Fatalf("%d unfinished runs, error %v; want one", len(open), err)
		}
		steps, err := e.Store.Steps.OfRun(open[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Store.DB.Update(func(tx *store.Tx) error {
			_, err := e.Store.Scans.Intend(tx, runs.Scan{Run: open[0].ID, Job: "niche", Step: steps[0].ID, FindBy: "related_videos",
				Mode: "standard", Queries: steps[0].Queries, Price: 50})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err != nil || row.ID != open[0].ID || len(w.started()) != 0 {
			t.Errorf("run %+v with error %v has started %d scans, want none after stop_after", row, err, len(w.started()))
		}
	})
}
