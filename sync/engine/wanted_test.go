package engine

import (
	"slices"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

const sharedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  a: {search: {query: [home espresso]}, enrich: {details: {}}}
  b: {search: {query: [home espresso]}, enrich: {details: {}, comments: {top: 1}}}
`

// TestRunAwaitsCallsQueuedByOthers: a run is not finished until the calls that it needs are made, even if a
// killed run of another job queued them first.
func TestRunAwaitsCallsQueuedByOthers(t *testing.T) {
	t.Parallel()
	bare(t, sharedFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		ctx, cancel := contextFor(w, 30*time.Second)
		defer cancel()
		first, err := e.Run(ctx, w.config.Job("a"), Manual, time.Time{})
		if first == nil || first.Status != runs.Interrupted {
			t.Fatalf("run %+v, error %v; the test needs one that is cut short", first, err)
		}
		before := w.calls(outlier.OpDetails)
		if before == 0 || before > 20 {
			t.Fatalf("%d details before it was cut short; the test needs some and not all", before)
		}
		if n, err := e.Store.Queue.Queued(queue.Filter{Job: "b"}); n != 0 || err != nil {
			t.Errorf("%d calls wait for a job that never asked, error %v", n, err)
		}
		row, err := e.Run(w.ctx, w.config.Job("b"), Manual, time.Time{})
		if err != nil || row.Status != runs.OK {
			t.Fatalf("run %+v, error %v", row, err)
		}
		if n := w.calls(outlier.OpDetails); n != 40 {
			t.Errorf("%d details were fetched when the run ended, want all 40, each once", n)
		}
		if want := int64(41 - before); row.Requests != want || w.calls(outlier.OpComments) != 1 {
			t.Errorf("the second run has made %d requests, want %d: its own, and those that the first, which is over, had asked for",
				row.Requests, want)
		}
		if p, err := progressOf(e.Store, e.Pace, row); err != nil || p.Done != 41-before {
			t.Errorf("%d calls are counted as done, want %d (error %v)", p.Done, 41-before, err)
		}
		if spend, err := e.Store.Ledger.Spent(first.ID); err != nil || spend.Requests != 41 {
			t.Errorf("the first run has %d requests, want a page and 40 details (%v)", spend.Requests, err)
		}
	})
}

// TestRequestCapCountsOthersQueuedCalls: calls count for the run that makes or continues them, whichever job
// queued them.
func TestRequestCapCountsOthersQueuedCalls(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  a: {search: {query: [home espresso]}, enrich: {details: {top: 20}}, budget: {max_requests: 3}}
  b: {search: {query: [home espresso]}, enrich: {details: {top: 20}}, budget: {max_requests: 1}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		for _, run := range []struct {
			job  string
			made int
		}{{"b", 1}, {"a", 3}, {"a", 3}} {
			before := w.service.Books().Total.Calls
			row, err := e.Run(w.ctx, e.Config.Job(run.job), Manual, time.Time{})
			if err != nil || row.Status != runs.PausedBudget || row.Requests != int64(run.made) {
				t.Errorf("the run of %s ended as %s with %d requests on record, want it paused after %d (%v)",
					run.job, row.Status, row.Requests, run.made, err)
			}
			if made := w.service.Books().Total.Calls - before; made != run.made {
				t.Errorf("the run of %s made %d requests, want the %d of its cap", run.job, made, run.made)
			}
		}
	})
}

// TestRunCountsCallsItAwaited, including those that are recorded for another run.
func TestRunCountsCallsItAwaited(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  a: {every: 1h, channels: {id: [UCnosuchchannel000000000], fetch: [channel_videos]}}
  b: {every: 1h, channels: {id: [UCnosuchchannel000000000], fetch: [channel_videos]}}
`
	bare(t, file, func(w *workshop) {
		rows := w.serve(time.Hour + time.Minute)
		missing, requests := []int64{}, []int64{}
		for _, r := range rows {
			missing, requests = append(missing, r.Missing), append(requests, r.Requests)
		}
		if !slices.Equal(missing, []int64{1, 1}) || !slices.Equal(requests, []int64{1, 0}) {
			t.Errorf("runs found %d missing by %d requests, want 1 and 1 by the request of the first",
				missing, requests)
		}
	})
}
