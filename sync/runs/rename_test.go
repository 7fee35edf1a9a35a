package runs_test

import (
	"errors"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
)

// underCap is a purchase for a job that may hold 5 credits in the billing cycle.
func underCap(job string) ledger.Purchase {
	return ledger.Purchase{Job: job, Caps: func(now time.Time) []ledger.Cap {
		return []ledger.Cap{{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(job, ledger.Cycle(now, time.UTC, 1)), Max: 5}}
	}}
}

func jobMonth(job string) ledger.Cap {
	return ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(job, ledger.Cycle(time.Now(), time.UTC, 1))}
}

// A renamed job continues with its runs, scans, watermarks, queue and spending.
func TestRenamedJobKeepsItsState(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	for _, r := range []runs.Run{
		{ID: "run-1", Job: "old", Due: statetest.Noon, Status: runs.OK}, {ID: "run-2", Job: "old", Due: statetest.Noon.Add(time.Hour), Status: runs.PausedBudget},
	} {
		if err := s.Runs.Begin(r, []runs.Step{{Query: outlier.UncheckedQuery(outlier.OpStartScan, "")}}); err != nil {
			t.Fatal(err)
		}
	}
	scan := runs.Scan{Run: "run-2", Job: "old", Step: 2, Mode: "fast", Queries: []string{"chess"}}
	scan.Intent = statetest.Intend(t, s, scan)
	move(t, s, runs.Watermark{Job: "old", Key: "a", At: statetest.Noon, Run: "run-1"})
	statetest.Enqueue(t, s, queue.Task{Op: outlier.OpDetails, Entity: "video-00001", Run: "run-1", Job: "old"})
	request := statetest.SearchRequest("0")
	statetest.Buy(t, s, underCap("old"), statetest.AnswerTo(request, `{}`), outlier.Charged)

	for range 2 { // the second time nothing is left to do
		statetest.Rename(t, s, "old", "new")
		checkWatermark(t, s, "new", "a", statetest.Noon)
		checkWatermark(t, s, "old", "a", time.Time{})
		if rows, err := s.Runs.Unfinished("new"); err != nil || len(rows) != 1 || rows[0].ID != "run-2" || rows[0].Job != "new" {
			t.Errorf("unfinished are %+v (%v)", rows, err)
		}
		for job, want := range map[string]time.Time{"new": statetest.Noon.Add(time.Hour), "old": {}} {
			if due, err := s.Schedule.DueTimes(time.Now()); err != nil || !due.Noted[job].Equal(want) {
				t.Errorf("%s was last due at %s (%v), want %s", job, due.Noted[job], err, want)
			}
		}
		if rows, err := s.Runs.List(runs.Filter{Job: "old"}, 0); err != nil || len(rows) != 1 || rows[0].ID != "run-1" {
			t.Errorf("runs of the old name: %+v (%v)", rows, err)
		}
		if n, err := s.Queue.Queued(queue.Filter{Job: "new"}); n != 1 || err != nil {
			t.Errorf("%d tasks are queued (%v), want 1", n, err)
		}
		if live, err := s.Scans.Live(scan); live == nil || live.Job != "new" || err != nil {
			t.Errorf("the live scan is %+v (%v), want that of the old name under the new one", live, err)
		}
		statetest.CheckHeld(t, s, jobMonth("new"), 2)
		statetest.CheckHeld(t, s, jobMonth("old"), 0)
	}

	statetest.Buy(t, s, underCap("new"), statetest.AnswerTo(request, `{}`), outlier.Charged)
	_, err := s.Ledger.Meter(underCap("new")).Reserve(t.Context(), request)
	if refusal, ok := errors.AsType[*ledger.Exceeded](err); !ok || refusal.Held != 4 {
		t.Errorf("what was spent under the old name does not count: %v", err)
	}
	statetest.CheckBooks(t, s)
}

// The former name of a job is free for another job, whose state stays apart.
func TestFormerNameCanBeReused(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	request := statetest.SearchRequest("0")
	statetest.Buy(t, s, underCap("a"), statetest.AnswerTo(request, `{}`), outlier.Charged)
	statetest.Rename(t, s, "a", "b")
	statetest.Buy(t, s, underCap("a"), statetest.AnswerTo(request, `{}`), outlier.Charged)
	move(t, s, runs.Watermark{Job: "a", Key: "a", At: statetest.Noon, Run: "run-9"})
	if err := s.Runs.Begin(runs.Run{ID: "run-9", Job: "a", Due: statetest.Noon, Status: runs.OK}, nil); err != nil {
		t.Fatal(err)
	}
	statetest.Rename(t, s, "a", "b") // was: a is still in the file
	checkWatermark(t, s, "a", "a", statetest.Noon)
	statetest.CheckHeld(t, s, jobMonth("a"), 2)
	statetest.CheckHeld(t, s, jobMonth("b"), 2)
	if due, err := s.Schedule.DueTimes(time.Now()); err != nil || !due.Noted["a"].Equal(statetest.Noon) {
		t.Errorf("a was last due at %s (%v)", due.Noted["a"], err)
	}
	statetest.CheckBooks(t, s)
}

func TestRenameCanBeUndoneAndRepeated(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	request := statetest.SearchRequest("0")
	statetest.Buy(t, s, underCap("a"), statetest.AnswerTo(request, `{}`), outlier.Charged)
	move(t, s, runs.Watermark{Job: "a", Key: "k", At: statetest.Noon, Run: "run-1"})
	if err := s.Runs.Begin(runs.Run{ID: "run-1", Job: "a", Due: statetest.Noon, Status: runs.OK}, nil); err != nil {
		t.Fatal(err)
	}
	for _, to := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "b"}, {"b", "c"}} {
		statetest.Rename(t, s, to[0], to[1])
		checkWatermark(t, s, to[0], "k", time.Time{})
		checkWatermark(t, s, to[1], "k", statetest.Noon)
		statetest.CheckHeld(t, s, jobMonth(to[0]), 0)
		statetest.CheckHeld(t, s, jobMonth(to[1]), 2)
		if due, err := s.Schedule.DueTimes(time.Now()); err != nil || !due.Noted[to[1]].Equal(statetest.Noon) {
			t.Errorf("%s was last due at %s (%v)", to[1], due.Noted[to[1]], err)
		}
	}
	statetest.CheckBooks(t, s)
}

// Renaming a job to a name in use keeps the spending of both and the later watermark of each key.
func TestRenameToUsedNameMerges(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	request := statetest.SearchRequest("0")
	for _, job := range []string{"old", "new", "new"} {
		statetest.Buy(t, s, underCap(job), statetest.AnswerTo(request, `{}`), outlier.Charged)
	}
	for _, w := range []runs.Watermark{{Job: "old", Key: "a", At: statetest.Noon}, {Job: "new", Key: "a", At: statetest.Noon.Add(time.Hour)},
		{Job: "old", Key: "b", At: statetest.Noon.Add(time.Hour)}, {Job: "new", Key: "b", At: statetest.Noon}, {Job: "old", Key: "c", At: statetest.Noon}} {
		w.Run = "run-1"
		move(t, s, w)
	}
	statetest.Rename(t, s, "old", "new")
	checkWatermark(t, s, "new", "a", statetest.Noon.Add(time.Hour))
	checkWatermark(t, s, "new", "b", statetest.Noon.Add(time.Hour))
	checkWatermark(t, s, "new", "c", statetest.Noon)
	if left, err := s.Watermarks.List("old"); len(left) != 0 || err != nil {
		t.Errorf("the old name keeps %+v (%v)", left, err)
	}
	statetest.CheckHeld(t, s, jobMonth("new"), 4)
	statetest.CheckBooks(t, s)
	for _, names := range [][2]string{{"a", "a"}, {"", "a"}, {"a", ""}} {
		statetest.WantText(t, s.Rename(names[0], names[1]), "two different names")
	}
}
