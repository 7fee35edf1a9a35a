package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestMovedStateEndsCalls: paid ones at once, free ones within 50 ms.
func TestMovedStateEndsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := statetest.Open(t, dir)
		refused := func(r *outlier.Request) bool {
			t.Helper()
			_, err := s.Ledger.Meter(ledger.Purchase{}).Reserve(t.Context(), r)
			_, moved := errors.AsType[*store.MovedError](err)
			if err != nil && !moved {
				t.Fatal(err)
			}
			return moved
		}
		free, paid := statetest.DetailsRequest("dQw4w9WgXcQ"), statetest.SearchRequest("0")
		move := func(from, to string) {
			t.Helper()
			if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
				t.Fatal(err)
			}
		}
		if refused(free) || refused(paid) {
			t.Fatal("a call was refused while the state was in its place")
		}

		move("state.db", "aside")
		if !refused(free) || !refused(paid) {
			t.Error("a call was made after the state was moved")
		}
		move("aside", "state.db")
		if refused(free) || refused(paid) {
			t.Error("a call was refused although the state is back")
		}
	})
}
