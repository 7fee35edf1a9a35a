package engine

import (
	"testing"
	"time"

	"outlierd/sync/state"
)

// TestRunWithoutAShareHasNotFoundNothing: it did not look, which is on record, with the
// pages that it left.
func TestRunWithoutAShareHasNotFoundNothing(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 4, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], pages: 3}}
`
	bare(t, file, func(w *workshop) {
		w.inspect(func(e *Engine) { w.see(e, "daily") })
		looked := 0
		for _, run := range w.serve(5*day + time.Hour) {
			if run.Pages > 0 {
				looked++
				continue
			}
			if run.Status != state.OK || run.Credits != 0 {
				t.Errorf("a run without a share ended as %s for %d credits", run.Status, run.Credits)
			}
			if step := w.steps(&run)[0]; step.Stop != stopShare || step.Left != 3 {
				t.Errorf("its search ended as %q and left %d pages, want %q and 3", step.Stop, step.Left, stopShare)
			}
		}
		if looked > 2 {
			t.Errorf("%d runs in five days took a page; want the credits to last the month", looked)
		}
	})
}
