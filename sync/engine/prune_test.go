package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier/simulator"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
)

const keptFile = `
version: 1
service: {url: "sim://", limit: 10/min}
retention: {journal: 1d}
jobs:
  often: {every: 4h, reuse_for: 1m, search: {query: [home espresso]}}
`

// kept returns which answers the journal has in full.
func (w *workshop) kept() (k journal.Kept) {
	w.Helper()
	w.inspect(func(e *Engine) {
		var err error
		if k, err = e.Store.Journal.Kept(); err != nil {
			w.Fatal(err)
		}
	})
	return k
}

// TestScheduleKeepsAnswersOneDay: older answers are pruned soon, even after a restart.
func TestScheduleKeepsAnswersOneDay(t *testing.T) {
	if testing.Short() {
		t.Skip("serves for days")
	}
	t.Parallel()
	bare(t, keptFile, func(w *workshop) {
		sink := &fakeCopy{name: "duckdb"}
		for range 2 {
			_, log := w.serveInto(32*time.Hour, sink)
			if n := strings.Count(log, "journal pruned"); n == 0 || n > 10 {
				t.Errorf("%d lines about pruning in 32 hours, want one for each run", n)
			}
			if age := time.Since(w.kept().Since); age < 20*time.Hour || age > 24*time.Hour+3*pruneEvery {
				t.Errorf("the oldest whole answer is %s old, want a day", age)
			}
		}
		if k := w.kept(); k.Pruned < 8 || k.Pruned > 12 {
			t.Errorf("pruned up to answer %d after 64 hours, want some 10", k.Pruned)
		}
	})
}

// TestUnpublishedAnswersAreNotPruned: a failed sink prevents pruning of answers that it has not published,
// and so does a sink that is behind.
func TestUnpublishedAnswersAreNotPruned(t *testing.T) {
	if testing.Short() {
		t.Skip("serves for days")
	}
	t.Parallel()
	bare(t, keptFile, func(w *workshop) {
		away := &fakeCopy{name: "parquet", broken: between(10*time.Hour, 50*time.Hour)}
		here := &fakeCopy{name: "duckdb"}
		w.serveInto(40*time.Hour, here, away)
		if k := w.kept(); k.Pruned != 0 {
			t.Errorf("pruned up to answer %d, and the sink that is away has published %d", k.Pruned, away.shown)
		}
		w.serveInto(20*time.Hour, here, away)
		if age := time.Since(w.kept().Since); age > 24*time.Hour+3*pruneEvery {
			t.Errorf("the oldest whole answer is %s old after the sink came back", age)
		}
	})
}

// TestWarehouseLackingPrunedAnswersIsDisabled, because it would never have their rows.
func TestWarehouseLackingPrunedAnswersIsDisabled(t *testing.T) {
	if testing.Short() {
		t.Skip("serves for days")
	}
	t.Parallel()
	bare(t, keptFile, func(w *workshop) {
		w.serveInto(30*time.Hour, &fakeCopy{name: "duckdb"})
		pruned := w.kept().Pruned
		w.fake = fakeWarehouse{}
		added := &fakeCopy{name: "duckdb"}
		_, log := w.serveInto(8*time.Hour, added)
		if want := "'outlierd rebuild --without-pruned' goes on without these rows"; !strings.Contains(log, want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
		if k := w.kept(); w.fake.has.Answers != 0 || k.Pruned != pruned || added.published > 0 {
			t.Errorf("the new warehouse has %d, %d publications, and pruned is %d, want still %d",
				w.fake.has.Answers, added.published, k.Pruned, pruned)
		}
	})
}

// TestClockThatIsAheadPrunesNothing, neither before the service has reported the time nor after.
func TestClockThatIsAheadPrunesNothing(t *testing.T) {
	t.Parallel()
	asking(t, keptFile, func(w *workshop) {
		sink := &fakeCopy{name: "duckdb"}
		w.serveInto(12*time.Hour, sink)
		time.Sleep(400 * day)                               // the clock is set forward
		w.wire = shifted{w.service.Transport(), -400 * day} // and only minutes have passed
		rows, _ := w.serveInto(3*time.Hour, sink)
		if k := w.kept(); k.Pruned != 0 || len(rows) < 3 {
			t.Errorf("pruned up to answer %d, with %d runs", k.Pruned, len(rows))
		}
		// Once a day has passed by the service's clock, the first answers are old.
		w.serveInto(18*time.Hour, sink)
		if k := w.kept(); k.Pruned == 0 {
			t.Error("nothing is pruned a day later")
		}
	})
}

// TestReusableAnswersAreNotPruned: a page that a job may take from the journal is not bought twice.
func TestReusableAnswersAreNotPruned(t *testing.T) {
	t.Parallel()
	file := strings.Replace(keptFile, "reuse_for: 1m", "reuse_for: 36h", 1)
	bare(t, file, func(w *workshop) {
		sink := &fakeCopy{name: "duckdb"}
		w.serveInto(35*time.Hour, sink)
		if k := w.kept(); k.Pruned != 0 {
			t.Errorf("pruned up to answer %d", k.Pruned)
		}
		if spent := w.spent(); spent != 2 {
			t.Errorf("%d credits for the same page, want 2", spent)
		}
	})
}

// TestScanIsReadAfterPruning of its start: a scan takes 36 hours and three processes, and its run needs no
// earlier answer.
func TestScanIsReadAfterPruning(t *testing.T) {
	if testing.Short() {
		t.Skip("serves for days")
	}
	t.Parallel()
	file := keptFile + "  niche: {every: 30d, reuse_for: 1m, scan: {query: [espresso machine repair], deadline: 5d, poll: 1h..1h, read: {pages: 1}}}\n"
	bare(t, file, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 36 * time.Hour}, simulator.Phase{Status: "Completed"}))
		w.inspect(func(e *Engine) {
			if err := e.Store.Schedule.SetNoted("niche", time.Now().Add(-30*day)); err != nil {
				w.Fatal(err)
			}
		})
		sink := &fakeCopy{name: "duckdb"}
		for _, long := range []time.Duration{28 * time.Hour, 6 * time.Hour} {
			rows, _ := w.serveInto(long, sink)
			i := slices.IndexFunc(rows, func(r runs.Run) bool { return r.Job == "niche" })
			if i < 0 || rows[i].Status.EndedWell() {
				t.Fatalf("the scan is not under way: %+v", rows)
			}
		}
		if k := w.kept(); k.Pruned < 2 {
			t.Errorf("pruned up to answer %d, and the scan is one of the first two", k.Pruned)
		}
		rows, _ := w.serveInto(8*time.Hour, sink)
		if i := slices.IndexFunc(rows, func(r runs.Run) bool { return r.Job == "niche" }); rows[i].Status != runs.OK || rows[i].Hits == 0 {
			t.Errorf("the scan's run is %+v", rows[i])
		}
	})
}

// TestAbandonedAnswerIsPruned: a run was stopped while another program locked the state, and did not go on.
// The answer that the next process found in a file does not end pruning.
func TestAbandonedAnswerIsPruned(t *testing.T) {
	if testing.Short() {
		t.Skip("serves for days")
	}
	t.Parallel()
	bare(t, keptFile, func(w *workshop) {
		sink := &fakeCopy{name: "duckdb"}
		ctx, stop := context.WithCancel(w.ctx)
		unlock := w.lockAt("/search/outliers", stop)
		e, closed := w.open()
		e.Line = w.line(sink)
		if _, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); err == nil {
			t.Error("the run was not stopped")
		}
		unlock()
		closed()
		time.Sleep(30 * time.Hour) // too long for the run to go on
		w.serveInto(32*time.Hour, sink)
		if k := w.kept(); k.Pruned < 2 {
			t.Errorf("pruned up to answer %d", k.Pruned)
		}
	})
}
