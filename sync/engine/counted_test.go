package engine

import (
	"testing"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// TestRequestCapHoldsOverKills: requests that a run makes for what another run has queued count for it, also
// after a kill.
func TestRequestCapHoldsOverKills(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  a: {search: {query: [home espresso]}, enrich: {details: {top: 20}}, budget: {max_requests: 6}}
  b: {search: {query: [home espresso]}, enrich: {details: {top: 20}}, budget: {max_requests: 1}}
`
	bare(t, file, func(w *workshop) {
		if row, err := w.runOf("b", time.Hour, job.Overrides{}); err != nil || row.Status != runs.PausedBudget {
			t.Fatalf("run %+v, error %v; want one that has queued calls and may make none", row, err)
		}
		before := w.service.Books().Total.Calls
		w.config.Jobs = w.config.Jobs[:1]
		if !w.kill(3, beforeAnswer) {
			t.Fatal("the run was not killed")
		}
		row, err := w.run()
		if made := w.service.Books().Total.Calls - before; err != nil || row.Status != runs.PausedBudget || made != 6 || row.Requests != 6 {
			t.Errorf("the run ended as %s after %d requests and says %d, error %v; want it paused after 6", row.Status, made, row.Requests, err)
		}
	})
}
