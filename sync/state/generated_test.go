package state_test

import (
	"context"
	"path/filepath"
	"testing"

	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestGeneratedStateIsValid opens a small one, whose ledger is added up then, and reads its journal, whose
// checksums are verified.
func TestGeneratedStateIsValid(t *testing.T) {
	options := state.Options{Service: "https://service.test", Version: "test", Options: store.Options{MinFree: 1 << 16}}
	dir := filepath.Join(t.TempDir(), "state")
	statetest.LargeOf(t, dir, 2000, 300, func(dir string) error {
		s, err := state.Open(context.Background(), dir, options)
		if err != nil {
			return err
		}
		return s.Close()
	})
	s, err := state.Open(t.Context(), dir, options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	for entry, err := range s.Journal.After(0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(entry.Body) == 0 {
			t.Fatalf("answer %d has no body", entry.ID)
		}
		n++
	}
	queued, err := s.Queue.Queued(queue.Filter{})
	if err != nil || n != 2000 || queued != 300 {
		t.Errorf("%d answers and %d queued calls (%v), want 2000 and 300", n, queued, err)
	}
}
