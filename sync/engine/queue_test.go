package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/forecast"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// mixedFile has scheduled runs whose calls precede some queued calls and follow others.
const mixedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  a: {every: 20m, search: {query: [home espresso]}, enrich: {transcript: {top: 7}}}
  b: {every: 35m, search: {query: [latte art]}, enrich: {details: {top: 30}}}
  c: {search: {query: [moka pot]}, enrich: {comments: {}}}
`

// fillQueue fills the queue with calls of three jobs, some of them shared, some in back-off.
func fillQueue(w *workshop, e *Engine, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	for n := range 150 {
		at := time.Now()
		task := queue.Task{
			Op: outlier.OpDetails, Entity: fmt.Sprintf("video-%05d", dice.IntN(1000)), Run: "r",
			Job: string("abc"[dice.IntN(3)]), Value: float64(dice.IntN(6)),
		}
		statetest.Enqueue(w, e.Store, task)
		switch {
		case dice.IntN(6) > 0:
		case dice.IntN(2) == 0:
			task.Job = string("abc"[dice.IntN(3)])
			statetest.Enqueue(w, e.Store, task)
		default:
			for range 1 + n%2 {
				statetest.Update(w, e.Store, func(tx *store.Tx) error {
					return queue.Fail(tx, task, at, "HTTP 502", at.Add(time.Duration(dice.IntN(40))*time.Minute))
				})
			}
		}
		if n%10 == 0 {
			time.Sleep(time.Minute)
		}
	}
}

// TestJobQueueMatchesWholeQueue: the job's calls have the same times and reasons as in the list of all calls,
// although the other calls are only counted.
func TestJobQueueMatchesWholeQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		bare(t, mixedFile, func(w *workshop) {
			e, stop := w.open()
			defer stop()
			fillQueue(w, e, seed)
			whole, err := queueOf(e, "")
			if err != nil || len(whole) < 100 {
				t.Fatalf("%d calls wait (%v); the test needs many", len(whole), err)
			}
			if !slices.IsSortedFunc(whole, func(a, b forecast.Waiting) int { return a.At.Compare(b.At) }) {
				t.Error("the queue is not in the order in which it is done")
			}
			for _, why := range []string{"failed once: HTTP 502", "failed 2 times, the last time: HTTP 502"} {
				if !slices.ContainsFunc(whole, func(one forecast.Waiting) bool { return one.Why == why }) {
					t.Errorf("no call in the queue %s", why)
				}
			}
			for i, one := range whole { // whatever comes due meanwhile
				if at := time.Now().Add(e.Pace.ETA(i + 1)); !one.At.Equal(at) && !(strings.HasPrefix(one.Why, "failed") && one.At.After(at)) {
					t.Errorf("call %d (%s) is made at %s, want %s at the current pace", i, one.Why, one.At, at)
				}
			}
			for _, name := range []string{"a", "b", "c"} {
				part, err := queueOf(e, name)
				if err != nil {
					t.Fatal(err)
				}
				want := slices.DeleteFunc(slices.Clone(whole), func(one forecast.Waiting) bool { return one.Job != name && !slices.Contains(one.Others, name) })
				same := func(a, b forecast.Waiting) bool { return a.Entity == b.Entity && a.At.Equal(b.At) && a.Why == b.Why }
				if !slices.EqualFunc(part, want, same) {
					t.Errorf("seed %d, job %s: %d rows and not the %d of the whole", seed, name, len(part), len(want))
					for i := range min(len(part), len(want)) {
						if !same(part[i], want[i]) {
							t.Errorf("row %d is %+v, want %+v", i, part[i], want[i])
							break
						}
					}
				}
			}
		})
	}
}

// TestLimitedListBeginsTheWholeOne, also where searches wait among the calls.
func TestLimitedListBeginsTheWholeOne(t *testing.T) {
	t.Parallel()
	bare(t, mixedFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		fillQueue(w, e, 1)
		whole, err := queueOf(e, "")
		if err != nil {
			t.Fatal(err)
		}
		for most := range 5 {
			first, err := forecasts(e).Queue("", most+1)
			if err != nil || len(first) != most+1 || first[most].Entity != whole[most].Entity || !first[most].At.Equal(whole[most].At) {
				t.Errorf("the first %d are %v", most+1, first)
			}
		}
	})
}

// TestAnswerRenewsFreshness: details are fresh for a day. Details that were fetched again yesterday are
// not fetched again within a day of that.
func TestAnswerRenewsFreshness(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  daily: {search: {query: [home espresso]}, enrich: {details: {top: 5, refresh_after: 1d}}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		for _, run := range []struct {
			after time.Duration
			calls int
		}{{0, 5}, {time.Hour, 5}, {25 * time.Hour, 10}, {time.Hour, 10}} {
			time.Sleep(run.after)
			if row, err := e.Run(w.ctx, w.config.Job("daily"), Manual, time.Time{}); err != nil || row.Status != runs.OK {
				t.Fatalf("%+v, error %v", row, err)
			}
			if n := w.calls(outlier.OpDetails); n != run.calls {
				t.Errorf("%s after the run before, %d calls were made in all, want %d", run.after, n, run.calls)
			}
		}
	})
}
