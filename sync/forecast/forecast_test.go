package forecast

import (
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
)

// TestExpectedCreditsAreWholePages: a page costs two credits, so one credit buys nothing.
func TestExpectedCreditsAreWholePages(t *testing.T) {
	for average, want := range map[float64]outlier.Credits{0: 0, 0.9: 0, 1: 2, 2.9: 2, 3: 4, 4: 4} {
		if got := roundToStep(average, 2); got != want {
			t.Errorf("%d credits are expected from an average of %g, want %d", got, average, want)
		}
	}
	e := Estimate{Cost: plan.Cost{Credits: 8, Requests: 12}}
	if e.limitTo(5, 2); e.Credits != 4 || e.Requests != 6 {
		t.Errorf("a cap of 5 lets %+v of 8 credits in 12 requests pass, want 4 in 6", e)
	}
}

func TestQueueCountsFailedAttempts(t *testing.T) {
	now := time.Now()
	for attempts, want := range map[int]string{1: "failed once: 502", 2: "failed 2 times, the last time: 502"} {
		call := queue.Waiting{Task: queue.Task{Attempts: attempts, Tries: outlier.Tries{NotBefore: now.Add(time.Hour)}}, Reason: "502"}
		if got := (&explainer{now: now}).ofCall(&call, 0); got != want {
			t.Errorf("after %d attempts: %q, want %q", attempts, got, want)
		}
	}
}
