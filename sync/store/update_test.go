package store_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestSettledAnswerSurvivesAKill(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for n := 1; n <= 3; n++ {
		statetest.Free(t, s, 1)
		if got := statetest.Durable(t, s); got != n {
			t.Errorf("%d answers are durable after call %d", got, n)
		}
	}
}

// TestReadersWaitForNoTransaction: a view sees what is durable while another transaction is open, and
// keeps seeing it when that commits.
func TestReadersWaitForNoTransaction(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	count := func(tx *store.Tx) (n int) {
		if _, err := store.Scan(tx, []any{&n}, `SELECT count(*) FROM pauses`); err != nil {
			t.Error(err)
		}
		return n
	}
	before, within, after := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.DB.View(func(tx *store.Tx) error {
			<-before
			got := count(tx)
			close(within)
			<-after
			if again := count(tx); got != 0 || again != 0 {
				t.Errorf("the view saw %d rows and then %d, want none", got, again)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	err := s.DB.Update(func(tx *store.Tx) error {
		err := tx.Exec(`INSERT INTO pauses (job, since, until, why) VALUES ('ideas', 1, 0, '')`)
		close(before)
		<-within
		return err
	})
	close(after)
	wg.Wait()
	statetest.Update(t, s, func(tx *store.Tx) error {
		if got := count(tx); err != nil || got != 1 {
			t.Errorf("%d rows after the transaction, %v", got, err)
		}
		return nil
	})
}

// TestSnapshotStaysAsItWas: while it is open, its views see no later transaction. It cannot be written to.
func TestSnapshotStaysAsItWas(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Free(t, s, 1)
	seen, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := statetest.Entries(t, seen, 0); len(got) != 1 {
			t.Errorf("%d answers in the snapshot, want 1", len(got))
		}
		statetest.Free(t, s, 1)
	}
	if err := seen.Runs.Resume(runs.Run{ID: "run-1"}); err == nil {
		t.Error("a snapshot was written to")
	}
	if err := errors.Join(seen.Close(), seen.Close()); err != nil {
		t.Fatal(err)
	}
	if got := statetest.Entries(t, s, 0); len(got) != 3 {
		t.Errorf("%d answers after it was closed, want 3", len(got))
	}
}

// TestFailedReadEndsNothing: if the disk fails while a view reads, the store can be used again afterwards. If it fails
// while a transaction writes, what is on the disk is unknown, and the store cannot.
func TestFailedReadEndsNothing(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	unreadable, err := sql.Open("sqlite", "file:/proc/self/mem?mode=ro&immutable=1") // its first page is an I/O error
	if err != nil {
		t.Fatal(err)
	}
	defer unreadable.Close()
	_, failure := unreadable.Exec(`SELECT * FROM sqlite_schema`)
	read := func(*store.Tx) error { return failure }
	if err := s.DB.View(read); err == nil || !errors.Is(err, failure) {
		t.Errorf("a view of a disk that fails: %v, want %v", err, failure)
	}
	if statetest.Free(t, s, 1); s.DB.Failure() != nil {
		t.Errorf("the store ended: %v", s.DB.Failure())
	}
	if err := s.DB.Update(read); err == nil || s.DB.Failure() == nil {
		t.Errorf("a transaction on a disk that fails: %v, want the end of the store", err)
	}
}

func TestFailedTransactionLeavesNoTrace(t *testing.T) {
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
	steps, err := s.Steps.OfRun("run-1")
	if err != nil || steps[0].Next != 0 {
		t.Errorf("the step stands at %d (%v), want 0", steps[0].Next, err)
	}
	if after := statetest.Entries(t, s, 0); len(after) != len(before) {
		t.Errorf("%d of %d answers are left", len(after), len(before))
	}
}

func TestUnusableAnswerIsKept(t *testing.T) {
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
	if steps, err := s.Steps.OfRun("run-1"); err != nil || steps[0].Next != 0 {
		t.Errorf("the step stands at %d (%v), want 0: what Commit wrote must be gone", steps[0].Next, err)
	}
	if spend, err := s.Ledger.Spent("run-1"); err != nil || spend.Charged != 2 {
		t.Errorf("spent %+v (%v), want 2 credits charged", spend, err)
	}
}
