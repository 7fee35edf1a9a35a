package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestFreeAnswersShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		statetest.Free(t, s, store.GroupSize-1)
		if got := statetest.Durable(t, s); got != 0 {
			t.Errorf("%d answers are durable before the group is full", got)
		}
		if got := len(statetest.Entries(t, s, 0)); got != store.GroupSize-1 {
			t.Errorf("the store itself sees %d answers of the open group, want %d", got, store.GroupSize-1)
		}
		statetest.Free(t, s, 1)
		if got := statetest.Durable(t, s); got != store.GroupSize {
			t.Errorf("%d answers are durable when the group is full, want %d", got, store.GroupSize)
		}
	})
}

// TestAnswersAreCommittedBeforeTheNextCallLeaves: at any pace up to 20 calls a second.
func TestAnswersAreCommittedBeforeTheNextCallLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		for n := 1; n <= 5; n++ {
			time.Sleep(store.GroupAge)
			statetest.Free(t, s, 1)
			if got := statetest.Durable(t, s); got != n {
				t.Errorf("%d answers are durable after call %d", got, n)
			}
		}
	})
}

func TestOldGroupIsCommittedByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		for round := 1; round <= 3; round++ { // the timer of a group must not be the last one
			statetest.Free(t, s, 1)
			time.Sleep(store.GroupAge - time.Millisecond)
			if got := statetest.Durable(t, s); got != round-1 {
				t.Errorf("round %d: %d answers are durable before the group is old, want %d", round, got, round-1)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if got := statetest.Durable(t, s); got != round {
				t.Errorf("round %d: %d answers are durable when the group is old, want %d", round, got, round)
			}
		}
	})
}

func TestPaidAnswersNeverWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		statetest.Free(t, s, 3)
		statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
		if got := statetest.Durable(t, s); got != 4 {
			t.Errorf("%d answers are durable after a paid one, want it and the 3 before it", got)
		}
	})
}

func TestFailingUnitLeavesNoTraceAndTheGroupIntact(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	step := statetest.BeginRun(t, s, "run-1")
	statetest.Free(t, s, 5)
	before := statetest.Entries(t, s, 0)
	failure := errors.New("the engine cannot read this")
	err := s.DB.Update(func(tx *store.Tx) error {
		step.Next = 7
		return errors.Join(runs.SaveStep(tx, step), failure)
	})
	if !errors.Is(err, failure) {
		t.Errorf("Update: %v, want the unit's own error", err)
	}
	steps, err := s.Runs.Steps("run-1")
	if err != nil || steps[0].Next != 0 {
		t.Errorf("the step stands at %d (%v), want 0", steps[0].Next, err)
	}
	if err := s.DB.Flush(); err != nil {
		t.Fatal(err)
	}
	after := statetest.Entries(t, statetest.Open(t, statetest.CopyFolder(t, s.DB.Dir())), 0)
	if len(after) != 5 {
		t.Fatalf("%d of 5 answers of the group are left", len(after))
	}
	for i := range after {
		if after[i].ID != before[i].ID || after[i].Entity != before[i].Entity {
			t.Errorf("answer %d for %s became %d for %s", before[i].ID, before[i].Entity, after[i].ID, after[i].Entity)
		}
	}
}

func TestAnswerIsKeptEvenIfItCannotBeUsed(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	step := statetest.BeginRun(t, s, "run-1")
	failure := errors.New("the engine cannot read this")
	for _, request := range []*outlier.Request{statetest.SearchRequest("0"), statetest.DetailsRequest("video-00001")} {
		p := ledger.Purchase{Run: "run-1", Commit: func(tx *store.Tx, _ ledger.Kept) error {
			step.Next = 7
			return errors.Join(runs.SaveStep(tx, step), failure)
		}}
		a := statetest.Reserve(t, s, p, request)
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(statetest.AnswerTo(request, `garbage`), outlier.Charged); !errors.Is(err, failure) {
			t.Errorf("%s: Settle: %v, want the failure of Commit", request.Op(), err)
		}
	}
	if got := statetest.Entries(t, s, 0); len(got) != 2 || string(got[0].Body) != "garbage" {
		t.Errorf("kept %v, want both answers", got)
	}
	if steps, err := s.Runs.Steps("run-1"); err != nil || steps[0].Next != 0 {
		t.Errorf("the step stands at %d (%v), want 0: what Commit wrote must be gone", steps[0].Next, err)
	}
	if spend, err := s.Ledger.Spent("run-1"); err != nil || spend.Charged != 2 {
		t.Errorf("spent %+v (%v), want 2 credits charged", spend, err)
	}
}
