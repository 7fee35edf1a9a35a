package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// TestRunsThatFollowAreCounted: once a run has begun, the runs of the jobs after it will be made, although no
// due time of theirs is left.
func TestRunsThatFollowAreCounted(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
budget: {per_month: 400}
jobs:
  first: {schedule: "0 6 20 * *", search: {query: espresso, pages: 3}}
  second: {after: first, search: {query: moka pot, pages: 2}}
  third: {after: second, search: {query: tea}}
  off: {after: first, enabled: false, search: {query: milk}}
`, func(w *workshop) {
		w.renew(simulator.Options{})
		check := func(when string, credits outlier.Credits, counts ...int) {
			t.Helper()
			f, _ := w.foreseen()
			var got []int
			for _, next := range f.Jobs {
				got = append(got, next.Runs)
			}
			if diff := cmp.Diff(counts, got); diff != "" || f.Cycle.Wanted != credits {
				t.Errorf("%s: %d credits, want %d; runs of the jobs (-want +got):\n%s", when, f.Cycle.Wanted, credits, diff)
			}
		}
		run := func(ctx context.Context, name string, trigger Trigger, due time.Time) {
			t.Helper()
			w.inspect(func(e *Engine) {
				if row, err := e.Run(ctx, w.config.Job(name), trigger, due); row == nil {
					t.Fatal(err)
				}
			})
		}
		first := w.config.Job("first")
		due := first.Next(time.Now(), w.config.Timezone)
		time.Sleep(time.Until(due) - time.Minute)
		check("before", 6+4+2, 1, 1, 1, 0)
		time.Sleep(2 * time.Minute)

		ctx, stop := context.WithCancel(w.ctx)
		w.wire = stopAtSearch(w.service.Transport(), 2, stop)
		run(ctx, "first", Scheduled, due)
		check("while the first searches", 2+4+2, 0, 1, 1, 0)
		w.wire = w.service.Transport()
		run(w.ctx, "first", Manual, time.Time{}) // resumes it
		check("when it has searched", 4+2, 0, 1, 1, 0)
		run(w.ctx, "second", After, due)
		check("when the second has searched", 2, 0, 0, 1, 0)
		run(w.ctx, "third", After, due)
		check("at the end", 0, 0, 0, 0, 0)

		time.Sleep(24 * time.Hour) // reuse nothing
		ctx, stop = context.WithCancel(w.ctx)
		w.wire = stopAtSearch(w.service.Transport(), 1, stop)
		run(ctx, "second", Manual, time.Time{})
		check("while a run by hand searches", 2, 0, 0, 0, 0)
	})
}
