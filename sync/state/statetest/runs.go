package statetest

import (
	"testing"
	"time"

	"outlierd/sync/state"
)

// Rename gives a job another name.
func Rename(t *testing.T, s *state.Store, old, new string) {
	t.Helper()
	if err := s.Rename(old, new); err != nil {
		t.Fatal(err)
	}
}

// Noon is an instant for tests in which it does not matter which.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 123000, time.UTC)
