package state_test

import (
	"bufio"
	"context"
	stdsql "database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestMain lets the test binary play the other process: with STATE_TEST_DIR set it
// opens that folder and does what STATE_TEST_ROLE says.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STATE_TEST_DIR"); dir != "" {
		otherProcess(dir, os.Getenv("STATE_TEST_ROLE"))
		return
	}
	// Each check of a model costs a database; ask for more with -rapid.checks.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	testenv.Prepare()
	os.Exit(m.Run())
}

// otherProcess opens the folder, performs its role, and waits to be killed, or for its input to end.
func otherProcess(dir, role string) {
	s, err := state.Open(context.Background(), dir, statetest.Options())
	if err != nil {
		os.Stdout.WriteString("error " + err.Error() + "\n")
		return
	}
	if role == "buy" {
		buyForEver(s)
	}
	os.Stdout.WriteString("open\n")
	bufio.NewReader(os.Stdin).ReadString('\n') //nolint:errcheck // the end of the input is what is waited for
}

// startOther starts the other process and returns it with its first line.
func startOther(t *testing.T, dir, role string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STATE_TEST_DIR="+dir, "STATE_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// A second process is refused with the process that holds the folder.
func TestHeldFolderNamesItsProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startOther(t, dir, "hold")
	if line, err := out.ReadString('\n'); line != "open\n" {
		t.Fatalf("the other process printed %q (error %v)", line, err)
	}
	_, err := state.Open(t.Context(), dir, statetest.Options())
	held, ok := errors.AsType[*store.HeldError](err)
	if !ok {
		t.Fatalf("Open: %v, want a HeldError", err)
	}
	if held.PID != cmd.Process.Pid || held.Dir != dir || time.Since(held.Since) > time.Minute {
		t.Errorf("held by %+v, want process %d", held, cmd.Process.Pid)
	}
	statetest.WantText(t, err, filepath.Base(os.Args[0]), dir)

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed process ended well")
	}
	statetest.Open(t, dir)
}

func TestFolderIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "state")
	s := statetest.Open(t, dir)
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	for name, want := range map[string]fs.FileMode{"": 0o700, "state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has mode %o, want %o", name, got, want)
		}
	}
}

func TestFolderIsBoundToItsService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mistyped := statetest.Options()
	mistyped.Service = "https://servce.test"
	s := statetest.OpenWith(t, dir, mistyped)
	never := statetest.AnswerTo(statetest.SearchRequest("0"), `<html></html>`)
	never.Status = 404
	statetest.Buy(t, s, ledger.Purchase{}, never, outlier.Unknown)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = statetest.Open(t, dir) // nothing has ever answered there: the address may be put right
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := statetest.Options()
	o.Service = "sim://"
	_, err := state.Open(t.Context(), dir, o)
	if bound, ok := errors.AsType[*state.BoundError](err); !ok || bound.Have != "https://service.test" || bound.Want != "sim://" {
		t.Errorf("Open: %v, want a BoundError that names both services", err)
	}
	o.Service = ""
	if err := statetest.OpenWith(t, dir, o).Close(); err != nil {
		t.Error(err)
	}
	statetest.Open(t, dir)
}

func TestNewerStateVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	if err := statetest.Shell(t, s, `PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	_, err := state.Open(t.Context(), statetest.CopyFolder(t, dir), statetest.Options())
	statetest.WantText(t, err, "version 99", fmt.Sprint("versions up to ", len(state.Migrations)), "outlierd v1", "later")
}

func TestForeignFilesAreRefused(t *testing.T) {
	t.Parallel()
	garbage := strings.Repeat("this is no database ", 1000)
	for name, make := range map[string]func(path string) error{
		"text": func(path string) error { return os.WriteFile(path, []byte(garbage), 0o600) },
		"the database of another program": func(path string) error {
			db, err := stdsql.Open("sqlite", path)
			if err != nil {
				return err
			}
			_, err = db.Exec(`CREATE TABLE songs (title TEXT)`)
			return errors.Join(err, db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := make(filepath.Join(dir, "state.db")); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(dir, "state.db"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = state.Open(t.Context(), dir, statetest.Options())
			if _, ok := errors.AsType[*store.CorruptError](err); !ok {
				t.Errorf("Open: %v, want a CorruptError", err)
			}
			if name == "text" {
				after, err := os.ReadFile(filepath.Join(dir, "state.db"))
				if err != nil || string(after) != string(before) {
					t.Errorf("the file was changed (%v)", err)
				}
			}
		})
	}
}

func TestDatabaseSettingsAreDurable(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "trusted_schema": "0",
		"busy_timeout": "0", "cell_size_check": "1",
	} {
		var got string
		err := s.DB.Update(func(tx *store.Tx) error { _, err := store.Scan(tx, []any{&got}, `PRAGMA `+pragma); return err })
		if err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", pragma, got, err, want)
		}
	}
}

func TestUnusablePathsAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := state.Open(t.Context(), filepath.Join(blocked, "state"), statetest.Options())
	statetest.WantText(t, err, blocked, "create the state folder")

	if err := os.Mkdir(filepath.Join(dir, "state.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = state.Open(t.Context(), dir, statetest.Options())
	statetest.WantText(t, err, filepath.Join(dir, "state.db"), "open the state")
}

func TestClosedStoreReturnsAnError(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.Context(), t.TempDir(), statetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runs.List(runs.Filter{}, 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Runs after Close: %v", err)
	}
	if err := s.DB.Update(func(*store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Update after Close: %v", err)
	}
}
