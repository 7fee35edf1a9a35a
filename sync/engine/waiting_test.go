package engine

import (
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// queueOf is the whole queue of a job.
func queueOf(e *Engine, name string) (all []Waiting, err error) {
	for w, err := range e.Queue(name) {
		if err != nil {
			return all, err
		}
		all = append(all, *w)
	}
	return all, nil
}

const longQueueFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long:
    search: {query: [home espresso], pages: 5}
    enrich: {details: {}, comments: {}}
    budget: {per_run: 60}
`

// TestForecastOfTheEndHolds: what a run of 300 calls and more says of its end is within
// a tenth of the truth, from its first calls on.
func TestForecastOfTheEndHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("makes hundreds of calls")
	}
	bubble(t, longQueueFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		type forecast struct {
			done, queued int
			at           time.Time
			left         time.Duration
		}
		var all []forecast
		ended := make(chan *runs.Run)
		go func() {
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil {
				t.Error(err)
			}
			ended <- row
		}()
		for {
			select {
			case row := <-ended:
				total := all[len(all)-1].done
				for _, part := range []float64{0.1, 0.5, 0.9} {
					for _, f := range all {
						if float64(f.done) < part*float64(total) {
							continue
						}
						truth := row.Ended.Sub(f.at)
						if off := (f.left - truth).Abs(); off > truth/10 {
							t.Errorf("after %d of %d calls %s are left by the forecast, and %s in truth", f.done, total, f.left, truth)
						}
						break
					}
				}
				if total < 300 {
					t.Errorf("the run made %d calls; the test needs 300", total)
				}
				return
			case <-time.After(15 * time.Second):
				p, err := e.Progress()
				if err != nil {
					t.Error(err)
				}
				all = append(all, forecast{p.Done, p.Queued, time.Now(), p.Left})
			}
		}
	})
}

// TestQueueSaysWhenWhatWillBeDone: the list is in the order of doing, and its times are
// those at which it is done.
func TestQueueSaysWhenWhatWillBeDone(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  short:
    every: 24h
    search: {query: [home espresso]}
    enrich: {details: {top: 40}, transcript: {top: 10}}
    stop_after: 1m
`
	bubble(t, file, func(w *workshop) {
		time.Sleep(23 * time.Hour)
		w.serve(time.Hour + 2*time.Minute)
		e, stop := w.open()
		waiting, err := queueOf(e, "short")
		stop()
		if err != nil || len(waiting) < 15 {
			t.Fatalf("%d calls wait, error %v; the test needs some", len(waiting), err)
		}
		if waiting[0].Why != "is next" || waiting[0].Op != outlier.OpDetails {
			t.Errorf("the first is %s %s: %s; transcripts are worth more and were first", waiting[0].Op, waiting[0].Entity, waiting[0].Why)
		}
		w.serve(time.Until(waiting[len(waiting)-1].At) - 30*time.Second)
		e, stop = w.open()
		defer stop()
		left, err := queueOf(e, "")
		if err != nil || len(left) == 0 || len(left) > 8 {
			t.Errorf("half a minute before the end %d calls wait, error %v; want a few", len(left), err)
		}
		for i := range left {
			if want := waiting[len(waiting)-len(left)+i]; left[i].Entity != want.Entity {
				t.Errorf("%s is left, want %s: the list was not in the order of doing", left[i].Entity, want.Entity)
			}
		}
		if empty, err := queueOf(e, "other"); len(empty) > 0 || err != nil {
			t.Errorf("another job has %d calls, error %v", len(empty), err)
		}
	})
}

func TestCallThatFailedIsToldWithHowOften(t *testing.T) {
	now := time.Now()
	for attempts, want := range map[int]string{1: "failed once: 502", 2: "failed 2 times, the last time: 502"} {
		call := queue.Waiting{Task: queue.Task{Attempts: attempts, NotBefore: now.Add(time.Hour)}, Reason: "502"}
		if got := (&explainer{now: now}).ofCall(&call, 0); got != want {
			t.Errorf("after %d attempts: %s", attempts, got)
		}
	}
}
