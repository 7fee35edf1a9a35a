package state_test

import (
	"bytes"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// newest is how many answers and runs are checked after a kill.
const newest = 256

// checkedState is a killed state with more answers than are checked after a kill, and
// more paid attempts, of which the older ones count for another day.
func killedState(t *testing.T) (dir string) {
	t.Helper()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	statetest.Free(t, s, newest+50)
	statetest.Buy(t, s, statetest.Capped(100), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	if err := statetest.Shell(t, s, `PRAGMA wal_checkpoint(TRUNCATE); DROP TRIGGER responses_fixed`); err != nil {
		t.Fatal(err)
	}
	return statetest.CopyFolder(t, s.DB.Dir())
}

// damage changes a state without the program, and leaves its log in place.
func damage(t *testing.T, dir, statement string) {
	t.Helper()
	source := statetest.CopyFolder(t, dir)
	db, err := sql.Open("sqlite", filepath.Join(source, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state.db", "state.db-wal"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestChecksAtStart: after a kill the newest rows, after the machine went down
// everything, after a clean end no answer.
func TestChecksAtStart(t *testing.T) {
	t.Parallel()
	const (
		oldAnswer = `UPDATE responses SET body = CAST('{}' AS BLOB) WHERE id = 3`
		newAnswer = `UPDATE responses SET body = CAST('{}' AS BLOB) WHERE id = (SELECT max(id) - 1 FROM responses)`
	)
	for _, test := range []struct {
		name, damage string
		boot         string // present one; the state was last open in "boot-1"
		found        string // "" if the state opens
	}{
		{"no damage", `SELECT 1`, "boot-1", ""},
		{"no damage, and the machine went down", `SELECT 1`, "boot-2", ""},
		{"newest answer", newAnswer, "boot-1", "does not match its checksum"},
		{"old answer", oldAnswer, "boot-1", ""},
		{"old answer, and the machine went down", oldAnswer, "boot-2", "answer 3"},
		{"old answer, and it is not known whether the machine went down", oldAnswer, "", "answer 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := killedState(t)
			var log bytes.Buffer
			o := statetest.Options()
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.BootID = func() string { return "boot-1" }
			statetest.OpenWith(t, dir, o)
			dir = statetest.CopyFolder(t, dir) // killed again, in boot-1
			damage(t, dir, test.damage)
			o.BootID = func() string { return test.boot }
			s, err := state.Open(t.Context(), dir, o)
			if s != nil {
				defer s.Close()
			}
			if test.found == "" && err != nil {
				t.Fatal(err)
			}
			if test.found != "" {
				statetest.WantText(t, err, test.found)
				if _, ok := errors.AsType[*store.CorruptError](err); !ok {
					t.Errorf("Open: %v, want a CorruptError", err)
				}
			}
			told := strings.Count(log.String(), "state check started")
			if want := 1; (test.boot != "boot-1") != (told == 2) || told < want { // the first one is that of a folder without a boot
				t.Errorf("%d checks are in the log, started in boot %q:\n%s", told, test.boot, &log)
			}
		})
	}
}

// TestFoundDamageIsRemembered: closing a damaged state leaves no log behind,
// and the next start must not take it for a sound one.
func TestFoundDamageIsRemembered(t *testing.T) {
	t.Parallel()
	dir := killedState(t)
	damage(t, dir, `UPDATE responses SET body = CAST('{}' AS BLOB) WHERE id = 3`)
	o := statetest.Options()
	o.BootID = func() string { return "boot-2" }
	for attempt := range 3 {
		_, err := state.Open(t.Context(), dir, o)
		if _, ok := errors.AsType[*store.CorruptError](err); !ok {
			t.Errorf("start %d: %v, want a CorruptError", attempt, err)
		}
	}
}

// TestReportedDamageIsCheckedAtStart: once SQLite has reported damage, the next start checks the state before
// anything is written.
func TestReportedDamageIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := state.Open(t.Context(), dir, statetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	statetest.BeginRun(t, s, "run-1")
	statetest.Free(t, s, 200)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(data)
	for at := 4096; at < len(damaged); at += 4096 {
		if !bytes.Contains(data[at:at+4096], []byte("00000000150")) { // in the tables of answers and of attempts, and in indexes
			continue
		}
		for i := range 16 {
			damaged[at+i] ^= 0xff
		}
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = state.Open(t.Context(), dir, statetest.Options()); err != nil {
		t.Fatalf("the damage is old, and the end was clean: %v", err)
	}
	var met error
	for _, err := range s.Journal.After(0) {
		met = err
	}
	if _, ok := errors.AsType[*store.CorruptError](met); !ok {
		t.Fatalf("reading the journal: %v, want a CorruptError", met)
	}
	if err := s.DB.Update(func(*store.Tx) error { return nil }); err == nil {
		t.Error("a damaged state was written")
	}
	_ = s.Close()
	if _, err = state.Open(t.Context(), dir, statetest.Options()); err == nil {
		t.Fatal("the state opens, although damage was reported before")
	}
	if err := os.WriteFile(path, data, 0o600); err != nil { // a backup is brought back
		t.Fatal(err)
	}
	statetest.Open(t, dir)
}

// TestCheckFindsAnyDamage, also beside a process that holds the state.
func TestCheckFindsAnyDamage(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Free(t, s, newest+50)
	statetest.Buy(t, s, statetest.Capped(100), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	check := func() (state.Checked, error) {
		seen, err := state.Peek(t.Context(), s.DB.Dir(), statetest.Options())
		if err != nil {
			t.Fatal(err)
		}
		defer seen.Close()
		return seen.Check(t.Context())
	}
	if checked, err := check(); err != nil || checked.Answers != newest+51 {
		t.Errorf("%+v (%v), want %d answers", checked, err, newest+51)
	}
	damage := `DROP TRIGGER responses_fixed; UPDATE responses SET body = CAST('{}' AS BLOB) WHERE id = 3`
	if err := statetest.Shell(t, s, damage); err != nil {
		t.Fatal(err)
	}
	if _, err := check(); err == nil {
		t.Errorf("no damage was found after %s", damage)
	}
}

// TestCallStatementsAvoidTableScans asks SQLite how it will perform each statement that the starts and the
// calls of this test have used, those of triggers included.
func TestCallStatementsAvoidTableScans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	statetest.BeginRun(t, s, "run-1")
	if err := statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("0")).Sending(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, statetest.CopyFolder(t, dir)) // with an attempt to be settled
	step := statetest.BeginRun(t, s, "run-2")
	p := statetest.Capped(100)
	p.Hold, p.Step = 4, step.ID
	p.Commit = func(tx *store.Tx, k ledger.Kept) error {
		_, err := runs.AddHits(tx, "run-2", step.ID, 0, 0, []runs.Hit{{VideoID: "video-00001", ChannelID: "UC"}})
		return errors.Join(err, runs.SaveStep(tx, step), ledger.Paging(tx, k, 0, 40, 1))
	}
	p.Run = "run-2"
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("1"), `{}`), outlier.Charged)
	p.FromHold, p.Hold = step.ID, 0
	statetest.Buy(t, s, p, statetest.Lost(statetest.SearchRequest("2")), outlier.Unknown)
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("2"), `{}`), outlier.Charged)
	task := queue.Task{Op: outlier.OpDetails, Entity: "video-00001", Run: "run-2", Job: "ideas"}
	statetest.Enqueue(t, s, task)
	statetest.Buy(t, s, ledger.Purchase{Run: "run-2", Job: "ideas", Commit: func(tx *store.Tx, k ledger.Kept) error {
		return queue.Done(tx, task, k.Response, false, k.Answer.ReceivedAt)
	}}, statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{}`), outlier.Charged)
	if _, err := s.Journal.Answered(outlier.OpSearch, "query=x", step.Began, time.Now().Add(ledger.Skew)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ledger.Spent("run-2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ledger.Balance(statetest.Month()); err != nil {
		t.Fatal(err)
	}
	for _, query := range append(triggered(t, s), prepared(s)...) {
		for _, line := range statetest.Plan(t, s, query, strings.Count(query, "?")) {
			if table, scans := strings.CutPrefix(line, "SCAN "); scans && isLarge(table) {
				t.Errorf("%s\nin %s", line, query)
			}
		}
	}
}

// isLarge reports whether what a line of a plan names is a table that grows with every
// call, read without one of the indexes that hold only few of its rows.
func isLarge(scanned string) bool {
	few := []string{"attempts_open", "attempts_holding", "attempts_holding_run", "runs_unfinished", "attempts_newest"} // the last one is read up to a LIMIT
	table, rest, _ := strings.Cut(scanned, " ")
	if slices.ContainsFunc(few, func(index string) bool { return strings.HasSuffix(rest, index) }) {
		return false
	}
	return slices.Contains([]string{"attempts", "responses", "runs", "steps", "seen", "run_hits", "wants", "freshness",
		"holds", "a", "o", "p", "q", "r"}, table)
}

func prepared(s *state.Store) (queries []string) {
	return slices.DeleteFunc(s.DB.Statements(), func(query string) bool {
		return strings.HasPrefix(query, "PRAGMA") || strings.HasPrefix(query, "EXPLAIN")
	})
}

// triggered are the statements and the conditions of all triggers, with parameters in
// the place of the row's columns.
func triggered(t *testing.T, s *state.Store) (queries []string) {
	t.Helper()
	var all []string
	err := s.DB.View(func(tx *store.Tx) (err error) {
		all, err = store.List(tx, func(sql *string) []any { return []any{sql} }, `SELECT sql FROM sqlite_schema WHERE type = 'trigger'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	column := regexp.MustCompile(`\b(NEW|OLD)\.\w+`)
	for _, trigger := range all {
		head, body, _ := strings.Cut(column.ReplaceAllString(trigger, "?"), "\nBEGIN\n")
		if _, condition, ok := strings.Cut(head, " WHEN "); ok {
			queries = append(queries, "SELECT "+condition)
		}
		for statement := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(body), "END"), ";") {
			if statement = strings.TrimSpace(statement); statement != "" && !strings.Contains(statement, "RAISE(") {
				queries = append(queries, statement)
			}
		}
	}
	return queries
}
