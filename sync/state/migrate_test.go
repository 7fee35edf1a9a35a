package state_test

import (
	stdsql "database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// stateOfVersion makes a state folder of an earlier schema version and performs a
// statement on it.
func stateOfVersion(t *testing.T, version int, statement string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	o := statetest.Options().ForStore()
	o.Migrations, o.Latest = state.Migrations[:version], ""
	made, err := store.Open(t.Context(), dir, o)
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := stdsql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

var update = flag.Bool("update", false, "write migrations/latest.sql anew")

// TestNewFileHasWhatAllMigrationsLeadTo compares the file that is created at once with one that took each step:
// its tables, indexes, views and triggers in the same order, and every row.
func TestNewFileHasWhatAllMigrationsLeadTo(t *testing.T) {
	t.Parallel()
	migrated := stateOfVersion(t, len(state.Migrations), "")
	const objects = `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY rowid`
	want := statetest.Ask(t, migrated, objects)
	if *update {
		want := append(want, statetest.Ask(t, migrated, `SELECT printf('INSERT INTO sqlite_sequence VALUES (%Q, %d)', name, seq) FROM sqlite_sequence`)...)
		text := "-- What all migrations lead to, written by `go test ./sync/state -run NewFile -update`.\n" + strings.Join(want, ";\n\n") + ";\n"
		if err := os.WriteFile("migrations/latest.sql", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("written")
	}
	atOnce := t.TempDir()
	made, err := store.Open(t.Context(), atOnce, statetest.Options().ForStore())
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, statetest.Ask(t, atOnce, objects)); diff != "" {
		t.Errorf("run this test with -update (-migrated +at once):\n%s", diff)
	}
	rows := func(dir, table string) []string { return dump(t, dir, columnsOf(t, dir, table), table) }
	tables := statetest.Ask(t, migrated, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
	if len(tables) == 0 {
		t.Fatal("no tables: this test shows nothing")
	}
	for _, table := range tables {
		if diff := cmp.Diff(rows(migrated, table), rows(atOnce, table)); diff != "" {
			t.Errorf("rows of %s (-migrated +at once):\n%s", table, diff)
		}
	}
	const version = `PRAGMA user_version`
	if diff := cmp.Diff(statetest.Ask(t, migrated, version), statetest.Ask(t, atOnce, version)); diff != "" {
		t.Error(diff)
	}
}

// columnsOf are the columns of a table, blobs in hex.
func columnsOf(t *testing.T, dir, table string) string {
	t.Helper()
	return strings.Join(statetest.Ask(t, dir, `SELECT iif(type = 'BLOB', 'hex(' || name || ')', '"' || name || '"') FROM pragma_table_info('`+table+`')`), ", ")
}

// dump is every row of a table, with the given columns.
func dump(t *testing.T, dir, columns, table string) []string {
	t.Helper()
	return statetest.Ask(t, dir, `SELECT json_array(`+columns+`) FROM `+table)
}

// gone is what later versions do not keep: a step's credits follow from the ledger.
var gone = map[string]string{"steps": `, "credits"`}

// TestStateOfTheFirstVersionOpensAndKeepsEverything compares the columns that the
// first version had, table by table, before and after.
func TestStateOfTheFirstVersionOpensAndKeepsEverything(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := stateOfVersion(t, 1, string(first))
	tables := []string{"meta", "runs", "steps", "attempts", "responses", "seen", "run_hits", "queue", "freshness", "limits"}
	before, columns := map[string][]string{}, map[string]string{}
	for _, table := range tables {
		columns[table] = strings.TrimSuffix(columnsOf(t, dir, table), gone[table])
		before[table] = dump(t, dir, columns[table], table)
		if len(before[table]) == 0 {
			t.Errorf("%s has no rows: this test shows nothing", table)
		}
	}

	s := statetest.Open(t, dir)
	if err := s.DB.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		after := slices.DeleteFunc(dump(t, dir, columns[table], table), func(row string) bool {
			return table == "meta" && strings.Contains(row, "calendar") // which the first version did not note
		})
		if diff := cmp.Diff(before[table], after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", table, diff)
		}
	}

	cycle := ledger.Cap{Scope: ledger.ScopeJobMonth, Period: "ideas/2026-11-01"}
	statetest.CheckHeld(t, s, cycle, 4)
	steps, err := s.Runs.Steps("run-2")
	if err != nil || len(steps) != 1 || steps[0].Left != -1 || steps[0].Watermark != "" || !steps[0].Began.IsZero() {
		t.Errorf("steps %+v (%v)", steps, err)
	}
	if kept := statetest.Entries(t, s, 0); len(kept) != 1 || string(kept[0].Body) != `{"hits":[]}` {
		t.Errorf("the journal has %+v", kept)
	}
	entry, err := s.Journal.Answered(outlier.OpSearch, "from=0&query=chess&size=40", time.Unix(0, 0), time.Now().Add(ledger.Skew))
	if err != nil || entry == nil {
		t.Errorf("an earlier answer is not found (%v)", err)
	}
	statetest.Rename(t, s, "ideas", "coffee")
	statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeJobMonth, Period: "coffee/2026-11-01"}, 4)
}

// TestAdjustmentOfAnEarlierVersionCountsOnce: it booked an adjustment when cycles
// began on another day.
func TestAdjustmentOfAnEarlierVersionCountsOnce(t *testing.T) {
	t.Parallel()
	const at = "1794830400000000" // the 16th of November 2026
	row := func(values string) string {
		return `INSERT INTO attempts (run, job, account, step, op, attempt, params, entity, price, state, day, cycle, adjustment, error, caps, reserved_at, sent_at,
			settled_at, waited, http_status, bytes) VALUES (` + values + `, '[]', ` + at + `, ` + at + `, ` + at + `, 0, 200, 1);`
	}
	dir := stateOfVersion(t, 5, row(`'run-1', 'ideas', 'ideas', 1, 'search', 1, '', '', 4, 'reserved', '2026-11-16', '2026-11-14', NULL, ''`)+
		`UPDATE attempts SET state = 'sending'; UPDATE attempts SET state = 'charged';`+
		row(`'', '', '', 0, 'adjustment', 0, '', '', 0, 'charged', '2026-11-16', '2026-11-14', 3, 'elsewhere'`)+
		row(`'', '', '', 0, 'adjustment', 0, '', 'carried over', 0, 'charged', '2026-11-16', '2026-11-15', 7, 'carried'`))
	for _, renews := range []int{15, 14} {
		o := statetest.Options()
		o.Renews = renews
		s, err := state.Open(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		cycle := fmt.Sprint("2026-11-", renews)
		got, err := s.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeMonth, Period: cycle})
		if diff := cmp.Diff(ledger.Balance{Spent: 4, Adjusted: 3}, got); diff != "" || err != nil {
			t.Errorf("the cycle from %s (%v): -want +got:\n%s", cycle, err, diff)
		}
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeJobMonth, Period: "ideas/" + cycle}, 4)
		if all, err := s.Ledger.Adjustments(cycle); err != nil || len(all) != 1 {
			t.Errorf("adjustments %+v (%v)", all, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgradeKeepsTheConditionsOfColumns: step 24 changes the text of two of them in the schema.
func TestUpgradeKeepsTheConditionsOfColumns(t *testing.T) {
	t.Parallel()
	dir := stateOfVersion(t, 23, `INSERT INTO limits (observed_at) VALUES (1)`)
	for _, s := range []*state.Store{statetest.Open(t, dir), statetest.Open(t, t.TempDir())} {
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
		if found := statetest.Ask(t, s.DB.Dir(), `PRAGMA integrity_check`); !slices.Equal(found, []string{"ok"}) {
			t.Errorf("integrity_check finds %q", found)
		}
	}
	if kept := statetest.Ask(t, dir, `SELECT observed_at FROM limits`); !slices.Equal(kept, []string{"1"}) {
		t.Errorf("limits have %q", kept)
	}
}

func TestInterruptedMigrationLeavesTheOldVersion(t *testing.T) {
	t.Parallel()
	dir := stateOfVersion(t, 1, `CREATE TABLE holds (id INTEGER)`) // which stands in the way of the second
	_, err := state.Open(t.Context(), dir, statetest.Options())
	statetest.WantText(t, err, "from schema version 1 to ", "step to 2")
	if got := statetest.Ask(t, dir, `PRAGMA user_version`); got[0] != "1" {
		t.Errorf("the version is %s, want 1", got)
	}
	if got := columnsOf(t, dir, "watermarks"); got != "" {
		t.Errorf("half of the second version is there: watermarks (%s)", got)
	}
	if _, ok := errors.AsType[*store.CorruptError](err); ok {
		t.Error("it is called damaged")
	}
}

// TestScansThatEarlierVersionsStartedTwiceStayLive, and no other is started beside them.
func TestScansThatEarlierVersionsStartedTwiceStayLive(t *testing.T) {
	t.Parallel()
	dir := stateOfVersion(t, 11, `
		INSERT INTO scans (run, job, due, step, find_by, mode, queries, wanted, price, state, scan, status, intended, created, polled, next_poll, deadline, polls)
		VALUES ('r1', 'a', 0, 1, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r2', 'b', 0, 2, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r3', 'c', 0, 3, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r4', 'd', 0, 4, 'query', 'fast', '["x"]', '["x"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0),
			('r5', 'e', 0, 5, 'query', 'fast', '["y"]', '["y"]', 50, 'intended', '', '', 1, 0, 0, 0, 0, 0);
		UPDATE scans SET state = 'unknown';
		UPDATE scans SET state = 'ended', scan = 's1' WHERE id = 1;
		UPDATE scans SET state = 'running', scan = 's2' WHERE id = 2;
		UPDATE scans SET state = 'running', scan = 's4' WHERE id = 4;`)
	s := statetest.Open(t, dir)
	err := s.DB.Update(func(tx *store.Tx) error {
		_, err := s.Runs.IntendScan(tx, runs.Scan{Run: "r6", Job: "f", Step: 6, FindBy: "query", Mode: "fast", Queries: []string{"x"}, Again: true})
		return err
	})
	if live, ok := errors.AsType[*runs.LiveScanError](err); !ok || live.Scan.Intent != 3 {
		t.Errorf("another one got %v, want a refusal for the one that is not confirmed", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 ended 0", "2 running 0", "3 unknown 1", "4 running 2", "5 unknown 0"}
	if got := statetest.Ask(t, dir, `SELECT id || ' ' || state || ' ' || again FROM scans ORDER BY id`); !slices.Equal(got, want) {
		t.Errorf("scans %q, want %q", got, want)
	}
}
