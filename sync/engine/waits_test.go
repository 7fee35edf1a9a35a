package engine

import (
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// TestWaitsAreCountedByTheirReason: the rate limit, a refusal, and the back-off.
func TestWaitsAreCountedByTheirReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  simulator.Fault
		reason string
	}{
		"refused": {simulator.RateLimited, waitLimit},
		"failed":  {simulator.ServerError, waitRetry},
		"well":    {reason: waitPace},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, busyFile, func(w *workshop) {
				if name != "well" {
					w.service.FailNext(outlier.OpSearch, c.fault)
				}
				w.keeping(func(e *Engine, _ func()) {
					time.Sleep(time.Hour + 20*time.Minute)
					all := e.Waited()
					row := w.last(e, "long")
					if all[c.reason] == 0 || all[waitPace] < time.Minute || name == "well" && all[waitLimit]+all[waitRetry] > 0 {
						t.Errorf("waited %v", all)
					}
					if sum := all[waitPace] + all[waitLimit]; (sum - row.Waited.Duration).Abs() > time.Minute {
						t.Errorf("the run waited for %s on record, and %v were counted", row.Waited, all)
					}
				})
			})
		})
	}
}
