package store_test

import (
	"strings"
	"testing"

	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// TestCompactRefusesBesideAReader: a program that reads the file keeps its old content, which must not count
// as erased.
func TestCompactRefusesBesideAReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	reader, err := state.Peek(t.Context(), dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Runs.Jobs(); err != nil { // from here on it reads what the file has now
		t.Fatal(err)
	}
	bulky(t, s, 1)
	if err := s.DB.Compact(t.Context()); err == nil || !strings.Contains(err.Error(), "another program reads it") {
		t.Errorf("beside a reader: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.DB.Compact(t.Context()); err != nil {
		t.Error(err)
	}
}
