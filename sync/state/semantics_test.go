package state

import "testing"

// TestIdsOfTheJournalAreNeverUsedAgain, not even those of its last answers.
func TestIdsOfTheJournalAreNeverUsedAgain(t *testing.T) {
	s := open(t, t.TempDir())
	free(t, s, 3)
	if err := s.DB.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := shell(t, s, `DELETE FROM responses WHERE id > 1`); err != nil {
		t.Fatal(err)
	}
	free(t, s, 1)
	if got := entries(t, s, 0); len(got) != 2 || got[1].ID != 4 {
		t.Errorf("the journal holds %v, want the next answer to be number 4", got)
	}
}
