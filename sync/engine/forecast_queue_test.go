package engine

import (
	"testing"
	"time"

	"outlierd/outlier"
)

// TestQueueOrderAndTimesComeTrue: calls are made in the order and at the times of the list.
func TestQueueOrderAndTimesComeTrue(t *testing.T) {
	t.Parallel()
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
	bare(t, file, func(w *workshop) {
		time.Sleep(23 * time.Hour)
		w.serve(time.Hour + 2*time.Minute)
		e, stop := w.open()
		waiting, err := queueOf(e, "short")
		stop()
		if err != nil || len(waiting) < 15 {
			t.Fatalf("%d calls wait, error %v; want at least 15", len(waiting), err)
		}
		if waiting[0].Why != "is next" || waiting[0].Op != outlier.OpDetails {
			t.Errorf("the first call is %s %s: %s; want details that are next, because all transcripts are done",
				waiting[0].Op, waiting[0].Entity, waiting[0].Why)
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
				t.Errorf("%s is left, want %s: calls were not made in the order of the list",
					left[i].Entity, want.Entity)
			}
		}
		if empty, err := queueOf(e, "other"); len(empty) > 0 || err != nil {
			t.Errorf("another job has %d calls, error %v; want none", len(empty), err)
		}
	})
}
