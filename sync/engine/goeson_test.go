package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// TestContinuedRunRetriesNoFailedStart: one of its two scans could not be started. After a stop it reads the other
// one, and does not try again to start the first.
func TestContinuedRunRetriesNoFailedStart(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  niche:
    every: 12h
    for_each: {topic: [espresso, latte]}
    scan: {query: ["${topic}"], poll: 1m..10m, deadline: 6h, read: {pages: 1}}
    budget: {per_run: 200}
`
	bare(t, file, func(w *workshop) {
		w.renew(anHour)
		for range plan.Attempts {
			w.service.FailNext(outlier.OpStartScan, simulator.ServerError)
		}
		time.Sleep(12*time.Hour - time.Minute)
		w.serve(20 * time.Minute)
		if n := w.calls(outlier.OpStartScan); n != plan.Attempts+1 || len(w.started()) != 1 {
			t.Fatalf("%d starts by %d calls; the test needs one that was refused and one that was not", len(w.started()), n)
		}
		rows := w.serve(2 * time.Hour)
		if n := w.calls(outlier.OpStartScan); n != plan.Attempts+1 || len(rows) != 1 || rows[0].Status != runs.Failed || rows[0].Pages != 1 {
			t.Errorf("%d calls started scans, and the runs are %+v; want no other start, and one run that has read one scan", n, rows)
		}
	})
}

// TestNextActionOfAllRuns plays random runs: those that a person waits for come first, pages come before data calls,
// and the order of what can be done is the same whenever it is asked.
func TestNextActionOfAllRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		flip := func(of string) bool { return rapid.Bool().Draw(t, of) }
		f := &workFacts{}
		for urgent := true; len(f.runs) < 5; {
			urgent = urgent && flip("urgent")
			r := &run{urgent: urgent, putOff: flip("put off"), pending: flip("pending"), spent: flip("spent"), nextDue: flip("next is due")}
			if flip("searches") {
				r.search = factsOf(stepOf(outlier.OpSearch))
			} else if urgent && r.pending && !r.spent && flip("task") {
				r.task = &queue.Task{}
			}
			f.runs = append(f.runs, r)
		}
		if flip("any task") {
			f.task = &queue.Task{}
		}
		if flip("held") {
			f.held = &RequestsError{}
		}
		a, b := f.next(), f.next()
		if a.kind != b.kind || a.of != b.of || a.task != b.task || !slices.Equal(a.over, b.over) {
			t.Fatalf("%+v, and then %+v of the same", a, b)
		}
		may := func(r *run) bool { return r.search != nil && !r.putOff && (f.held == nil || r.urgent) }
		first := slices.IndexFunc(f.runs, may)
		over := func(r *run) bool { return r.search == nil && (!r.pending || r.spent) }
		switch {
		case first >= 0 && (a.kind != takePage || a.of != f.runs[first]):
			t.Fatalf("%+v, want a page of run %d", a, first)
		case first < 0 && a.kind == takePage:
			t.Fatalf("a page of a run that has to wait: %+v", a)
		case a.kind == callData && a.of == nil && (f.held != nil || slices.ContainsFunc(f.runs, over)):
			t.Fatalf("a data call of all while runs are over, or nothing is done: %+v", a)
		case a.kind == callData && a.of != nil && a.task != a.of.task:
			t.Fatalf("a call of another run: %+v", a)
		case a.kind == endRuns && slices.ContainsFunc(a.over, func(r *run) bool { return !over(r) && !(r.urgent && r.nextDue) }):
			t.Fatalf("a run ends that has something left to do: %+v", a)
		case a.kind == wait && f.held == nil && (f.task != nil || slices.ContainsFunc(f.runs, over)):
			t.Fatalf("it waits although something can be done: %+v", a)
		}
	})
}
