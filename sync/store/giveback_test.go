package store_test

import (
	"os"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// bulky journals answers of 100 KB each.
func bulky(t *testing.T, s *state.Store, answers int) {
	t.Helper()
	for range answers {
		r := statetest.DetailsRequest("video-00001")
		statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(r, noise(100_000)), outlier.Charged)
	}
}

// pruneTo prunes up to an answer.
func pruneTo(t *testing.T, s *state.Store, upTo int64) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = s.Journal.Prune(journal.Keep{Since: time.Now().Add(time.Hour), UpTo: upTo}); err != nil {
			t.Fatal(err)
		}
	}
}

// giveBack gives back what there is, and returns in how many steps.
func giveBack(t *testing.T, s *state.Store) (steps int) {
	t.Helper()
	for more := true; more; steps++ {
		var err error
		if more, err = s.DB.GiveBack(); err != nil {
			t.Fatal(err)
		}
	}
	return steps
}

// sizeOf is the size of the file once its log has come into it.
func sizeOf(t *testing.T, s *state.Store) int64 {
	t.Helper()
	room, err := store.ReadInside(s.DB)
	if err != nil {
		t.Fatal(err)
	}
	return room.Bytes
}

func TestPrunedRoomReturnsToDisk(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	bulky(t, s, 200)
	before := sizeOf(t, s)
	if steps := giveBack(t, s); steps != 1 || sizeOf(t, s) != before {
		t.Errorf("%d steps gave back %d bytes of a file without free room", steps, before-sizeOf(t, s))
	}
	pruneTo(t, s, 150)
	if steps := giveBack(t, s); steps < 5 {
		t.Errorf("15 MB were given back in %d steps, want many short ones", steps)
	}
	room, err := store.ReadInside(s.DB)
	if err != nil {
		t.Fatal(err)
	}
	if after := sizeOf(t, s); after > before/2 || room.Free > 4<<20 {
		t.Errorf("the file has %d bytes after %d, of which %d are free", after, before, room.Free)
	}
	if left := statetest.Entries(t, s, 150); len(left) != 50 {
		t.Errorf("%d whole answers are left, want 50", len(left))
	}
	if _, err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.DB.Path()); err != nil || info.Size() != room.Bytes {
		t.Errorf("the file has %d bytes (%v), want %d", info.Size(), err, room.Bytes)
	}
}

// TestGivingBackIsKilled: whatever the last step was, the next process finds a sound file and goes on.
func TestGivingBackIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Hasty(t, statetest.Open(t, dir))
	bulky(t, s, 120)
	pruneTo(t, s, 100)
	for more := true; more; {
		var err error
		if more, err = s.DB.GiveBack(); err != nil {
			t.Fatal(err)
		}
		next := statetest.Hasty(t, statetest.Open(t, statetest.CopyFolder(t, dir)))
		if _, err := next.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		giveBack(t, next)
		if left := statetest.Entries(t, next, 100); len(left) != 20 {
			t.Errorf("%d whole answers are left, want 20", len(left))
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPruningMakesRoomOnDisk: it needs none itself, and the answer in hand finds a place.
func TestPruningMakesRoomOnDisk(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	bulky(t, s, 50)
	fillUp(t, s, 5)
	r := statetest.DetailsRequest("video-00001")
	a := statetest.Reserve(t, s, ledger.Purchase{Run: "run-1"}, r)
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() { settled <- a.Settle(statetest.AnswerTo(r, noise(300_000)), outlier.Charged) }()
	pruneTo(t, s, 40)
	if err := <-settled; err != nil {
		t.Errorf("after pruning: %v", err)
	}
	giveBack(t, s)
	if left := statetest.Entries(t, s, 40); len(left) != 11 {
		t.Errorf("%d whole answers are left, want 11", len(left))
	}
	if _, err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
