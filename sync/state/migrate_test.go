package state_test

import (
	"testing"

	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// TestDevelopmentVersionIsRefused: versions count from the first release, so the number of such a state may
// be higher or the same.
func TestDevelopmentVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := statetest.Shell(t, statetest.Open(t, dir), `PRAGMA application_id = 0; PRAGMA user_version = 24`); err != nil {
		t.Fatal(err)
	}
	dir = statetest.CopyFolder(t, dir)
	before := statetest.Ask(t, dir, `SELECT name FROM sqlite_schema`)
	_, opened := state.Open(t.Context(), dir, statetest.Options())
	_, peeked := state.Peek(t.Context(), dir, statetest.Options())
	for _, err := range []error{opened, peeked} {
		statetest.WantText(t, err, "state.db", "before 0.1.0", "budget adjust")
	}
	if after := statetest.Ask(t, dir, `SELECT name FROM sqlite_schema`); len(after) != len(before) {
		t.Errorf("the schema has changed from %d objects to %d", len(before), len(after))
	}
}

func TestColumnsHaveConditions(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, source := range []string{"runs", "steps", "attempts", "limits"} {
		if err := statetest.Shell(t, s, `INSERT INTO ops_changes (source, id) VALUES ('`+source+`', 9)`); err != nil {
			t.Errorf("a change of %s: %v", source, err)
		}
	}
	err := statetest.Shell(t, s, `INSERT INTO ops_changes (source, id) VALUES ('queue', 9)`)
	statetest.WantText(t, err, "CHECK constraint failed", "source = 'runs'")
	const attempt = `INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error, state)
		VALUES ('', '', 0, 'details', '', '', 1, 0, '', '', '', 0, 1, 1, 0, 200, 0, '', '`
	for _, outcome := range []string{"reserved", "sending", "charged", "refunded", "unknown"} {
		if err := statetest.Shell(t, s, attempt+outcome+`')`); err != nil {
			t.Errorf("an attempt that is %s: %v", outcome, err)
		}
	}
	statetest.WantText(t, statetest.Shell(t, s, attempt+`lost')`), "CHECK constraint failed", "state = 'reserved'")
}
