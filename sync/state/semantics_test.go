package state_test

import (
	"testing"

	"outlierd/sync/state/statetest"
)

// TestJournalIDsAreNeverReused, not even those of its last answers.
func TestJournalIDsAreNeverReused(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Free(t, s, 3)
	if err := statetest.Shell(t, s, `DELETE FROM responses WHERE id > 1`); err != nil {
		t.Fatal(err)
	}
	statetest.Free(t, s, 1)
	if got := statetest.Entries(t, s, 0); len(got) != 2 || got[1].ID != 4 {
		t.Errorf("the journal holds %v, want the next answer to be number 4", got)
	}
}
