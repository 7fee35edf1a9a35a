package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func peek(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Peek(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("Peek: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestPeekShowsOneMomentBesideTheHolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	buy(t, s, capped(100), answerTo(searchRequest("0"), `{"hits":[]}`), outlier.Charged)
	seen := peek(t, dir, options())
	checkHeld(t, seen, month(), 2)
	buy(t, s, capped(100), answerTo(searchRequest("1"), `{"hits":[]}`), outlier.Charged)
	checkHeld(t, s, month(), 4)
	checkHeld(t, seen, month(), 2)
	checkHeld(t, peek(t, dir, options()), month(), 4)
}

func TestPeekWritesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	seen := peek(t, dir, options())
	if err := seen.Ledger.Adjust(5, "nobody should"); err == nil {
		t.Error("a store that was opened to read has been written to")
	}
	if err := seen.Runs.Begin(runs.Run{ID: "run-9", Job: "ideas"}, nil); err == nil {
		t.Error("a store that was opened to read has begun a run")
	}
	checkHeld(t, s, month(), 0)
}

// TestPeekSettlesNothing: what a killed process left open is for the next one that runs.
func TestPeekSettlesNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, options())
	if err != nil {
		t.Fatal(err)
	}
	reserve(t, s, capped(100), searchRequest("0"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := peek(t, dir, options())
	if b, err := seen.Ledger.Balance(month()); err != nil || b.Reserved != 2 {
		t.Errorf("balance %+v, error %v; want 2 reserved", b, err)
	}
	if now := seen.Ledger.ServiceTime(); now.IsZero() || time.Until(now) > time.Hour {
		t.Errorf("the service's time is %s", now)
	}
}

func TestPeekRefusesWhatItCannotRead(t *testing.T) {
	if _, err := Peek(t.Context(), t.TempDir(), options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: error %v, want that there is no state", err)
	}
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, options())
	if err != nil {
		t.Fatal(err)
	}
	buy(t, s, ledger.Purchase{}, answerTo(searchRequest("0"), `{}`), outlier.Charged)
	other := options()
	other.Service = "https://elsewhere.test"
	if _, err := Peek(t.Context(), dir, other); err == nil {
		t.Error("the state of another service has been opened")
	} else if _, ok := errors.AsType[*BoundError](err); !ok {
		t.Errorf("another service: %v", err)
	}
	if err := shell(t, s, `PRAGMA user_version = 1`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Peek(t.Context(), dir, options())
	if older, ok := errors.AsType[*store.OlderError](err); !ok || older.Have != 1 || older.Want != len(migrations) {
		t.Errorf("an older state: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.db"), []byte("this is no database at all, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Peek(t.Context(), dir, options()); err == nil {
		t.Error("a file that is no database has been opened")
	} else if _, ok := errors.AsType[*store.CorruptError](err); !ok {
		t.Errorf("no database: %v", err)
	}
}

func TestLiftWorksBesideTheHolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	err := s.DB.Update(func(tx *store.Tx) error {
		return errors.Join(
			ledger.SetBlock(tx, ledger.BlockCredits, "mine", "no credits", time.Now().Add(time.Hour)),
			ledger.SetBlock(tx, ledger.BlockCredits, "another's", "no credits", time.Now().Add(time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	lifted, err := Lift(t.Context(), dir, options(), "mine")
	if err != nil || len(lifted) != 1 || lifted[0].Reason != "no credits" {
		t.Fatalf("lifted %+v, error %v", lifted, err)
	}
	for key, stands := range map[string]bool{"mine": false, "another's": true} {
		if latch, err := s.Ledger.Block(ledger.BlockCredits, key); err != nil || (latch != nil) != stands {
			t.Errorf("the latch of %s is %+v, error %v", key, latch, err)
		}
	}
	if again, err := Lift(t.Context(), dir, options(), "mine"); err != nil || again != nil {
		t.Errorf("lifted again: %+v, error %v", again, err)
	}
}

func TestRenamedTellsWhetherARenameWasCarriedOut(t *testing.T) {
	s := open(t, t.TempDir())
	if done, err := s.Runs.Renamed("old", "new"); err != nil || done {
		t.Errorf("done %v, error %v before", done, err)
	}
	if err := s.Rename(t.Context(), "old", "new"); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Runs.Renamed("old", "new"); err != nil || !done {
		t.Errorf("done %v, error %v after", done, err)
	}
}
