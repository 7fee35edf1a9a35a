package state_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// Peek reads one snapshot beside the process that holds the folder.
func TestPeekReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	statetest.Buy(t, s, statetest.Capped(100), statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
	seen := statetest.Peek(t, dir, statetest.Options())
	statetest.CheckHeld(t, seen, statetest.Month(), 2)
	statetest.Buy(t, s, statetest.Capped(100), statetest.AnswerTo(statetest.SearchRequest("1"), `{"hits":[]}`), outlier.Charged)
	statetest.CheckHeld(t, s, statetest.Month(), 4)
	statetest.CheckHeld(t, seen, statetest.Month(), 2)
	statetest.CheckHeld(t, statetest.Peek(t, dir, statetest.Options()), statetest.Month(), 4)
}

func TestPeekWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	seen := statetest.Peek(t, dir, statetest.Options())
	if err := seen.Ledger.Adjust(5, "nobody should"); err == nil {
		t.Error("a store that was opened to read has been written to")
	}
	if err := seen.Runs.Begin(runs.Run{ID: "run-9", Job: "ideas"}, nil); err == nil {
		t.Error("a store that was opened to read has begun a run")
	}
	statetest.CheckHeld(t, s, statetest.Month(), 0)
}

// TestPeekSettlesNothing: the next process that runs settles what a killed one left open.
func TestPeekSettlesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := state.Open(t.Context(), dir, statetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("0"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := statetest.Peek(t, dir, statetest.Options())
	if b, err := seen.Ledger.Balance(statetest.Month()); err != nil || b.Reserved != 2 {
		t.Errorf("balance %+v, error %v; want 2 reserved", b, err)
	}
	if now := seen.Clock.Now(); now.IsZero() || time.Until(now) > time.Hour {
		t.Errorf("the service's time is %s", now)
	}
}

func TestPeekRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	if _, err := state.Peek(t.Context(), t.TempDir(), statetest.Options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: error %v, want that there is no state", err)
	}
	dir := t.TempDir()
	s, err := state.Open(t.Context(), dir, statetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	other := statetest.Options()
	other.Service = "https://elsewhere.test"
	if _, err := state.Peek(t.Context(), dir, other); err == nil {
		t.Error("the state of another service has been opened")
	} else if _, ok := errors.AsType[*state.BoundError](err); !ok {
		t.Errorf("another service: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := statetest.Options().ForStore()
	later.Migrations = append(slices.Clip(later.Migrations), `SELECT 1`)
	_, err = store.Peek(t.Context(), dir, later)
	statetest.WantText(t, err, fmt.Sprintf("has schema version %d and this program needs %d", len(state.Migrations), len(state.Migrations)+1))
	if err := os.WriteFile(filepath.Join(dir, "state.db"), []byte("this is no database at all, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = state.Peek(t.Context(), dir, statetest.Options()); err == nil {
		t.Error("a file that is no database has been opened")
	} else if _, ok := errors.AsType[*store.CorruptError](err); !ok {
		t.Errorf("no database: %v", err)
	}
}

func TestLiftEndsBlocksOfOneKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	err := s.DB.Update(func(tx *store.Tx) error {
		return errors.Join(
			ledger.SetBlock(tx, ledger.BlockCredits, "mine", "no credits", time.Now().Add(time.Hour)),
			ledger.SetBlock(tx, ledger.BlockCredits, "another's", "no credits", time.Now().Add(time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	lifted, err := s.Blocks.Liftable("mine")
	if err != nil || len(lifted) != 1 || lifted[0].Reason != "no credits" {
		t.Fatalf("liftable %+v, error %v", lifted, err)
	}
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Lift(tx, "mine") })
	for key, stands := range map[string]bool{"mine": false, "another's": true} {
		if block, err := s.Blocks.Get(ledger.BlockCredits, key); err != nil || (block != nil) != stands {
			t.Errorf("the block of %s is %+v, error %v", key, block, err)
		}
	}
	if again, err := s.Blocks.Liftable("mine"); err != nil || again != nil {
		t.Errorf("liftable again: %+v, error %v", again, err)
	}
}
