package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// noise is a body that no compression makes smaller.
func noise(n int) string {
	random := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return string(b)
}

// fillUp forbids the file to grow by more than a few pages.
func fillUp(t *testing.T, s *state.Store, pages int) {
	t.Helper()
	var now int
	if _, err := store.Scan(s.DB, []any{&now}, `PRAGMA page_count`); err != nil {
		t.Fatal(err)
	}
	if err := statetest.Shell(t, s, fmt.Sprintf(`PRAGMA max_page_count = %d`, now+pages)); err != nil {
		t.Fatal(err)
	}
}

func makeSpace(t *testing.T, s *state.Store) {
	t.Helper()
	if err := statetest.Shell(t, s, `PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	fillUp(t, s, 30)
	err := s.Runs.Begin(runs.Run{ID: "run-1", Plan: &plan.Stored{Terms: job.Terms{Flags: noise(400_000)}}}, nil)
	if _, ok := errors.AsType[*store.FullError](err); !ok {
		t.Fatalf("Begin: %v, want a FullError", err)
	}
	statetest.WantText(t, err, "no space left", s.DB.Dir(), "free some space")
	makeSpace(t, s)
	if err := s.Runs.Begin(runs.Run{ID: "run-1"}, nil); err != nil {
		t.Error(err)
	}
}

// TestFailedTransactionLeavesNothing: SQLite itself rolls back what a full disk has stopped. What would follow in the
// transaction must not take effect on its own, such as dropping the due time of a run that was not recorded.
func TestFailedTransactionLeavesNothing(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	due := []runs.Due{{Job: "ideas", At: statetest.Noon, Trigger: "schedule"}}
	if err := s.DB.Update(func(tx *store.Tx) error { return runs.NoteDues(tx, due) }); err != nil {
		t.Fatal(err)
	}
	fillUp(t, s, 30)
	run := runs.Run{ID: "run-1", Job: "ideas", Due: statetest.Noon, Key: runs.Key{Request: noise(400_000)}}
	err := s.Runs.Begin(run, []runs.Step{{}})
	if !store.IsFull(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Begin: %v, want a FullError on one line", err)
	}
	rows, err := s.Runs.List(runs.Filter{Job: "ideas"}, 0)
	if dues, failed := s.Schedule.Dues(); len(dues) != 1 || len(rows) > 0 || err != nil || failed != nil {
		t.Errorf("due are %+v and the runs are %+v (%v, %v), want the due time and no run", dues, rows, err, failed)
	}
}

// TestAnswerWaitsForSpace: an answer in hand is settled once there is space, free or paid.
func TestAnswerWaitsForSpace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		step := statetest.BeginRun(t, s, "run-1")
		for i, request := range []*outlier.Request{statetest.SearchRequest("0"), statetest.DetailsRequest("video-00001")} {
			p := statetest.Capped(10)
			p.Commit = func(tx *store.Tx, _ ledger.Kept) error {
				step.Next = i + 1
				return runs.SaveStep(tx, step)
			}
			a := statetest.Reserve(t, s, p, request)
			if err := a.Sending(); err != nil {
				t.Fatal(err)
			}
			fillUp(t, s, 5)
			settled := make(chan error, 1)
			go func() { settled <- a.Settle(statetest.AnswerTo(request, noise(200_000)), outlier.Charged) }()
			time.Sleep(time.Hour)
			select {
			case err := <-settled:
				t.Fatalf("%s: settled without space: %v", request.Op(), err)
			default:
			}
			makeSpace(t, s)
			if err := <-settled; err != nil {
				t.Fatal(err)
			}
			if got := len(statetest.Entries(t, s, 0)); got != i+1 {
				t.Errorf("%d answers are kept, want %d", got, i+1)
			}
			steps, err := s.Steps.OfRun("run-1")
			if err != nil || steps[0].Next != i+1 {
				t.Errorf("the step is at page %d (%v), want %d", steps[0].Next, err, i+1)
			}
		}
		if files, err := filepath.Glob(filepath.Join(s.DB.Dir(), statetest.SpoolPrefix+"*")); len(files) > 0 || err != nil {
			t.Errorf("left %v, %v", files, err)
		}
		statetest.CheckHeld(t, s, statetest.Month(), 2)
	})
}

// A disk that is really full behaves unlike a limit: the statements succeed and the
// commit fails. The other process of this test lives in a name space of its own,
// where it may mount a disk of 4 MiB; where that is forbidden, the test is skipped.
func TestAnswerWaitsForDiskSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c",
		`mount -t tmpfs -o size=4m tmpfs "$0" || exit 77; exec "$1" -test.run='^TestOnSmallDisk$' -test.v`, dir, os.Args[0])
	cmd.Env = append(os.Environ(), "STATE_SMALL_DISK="+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); errors.Is(err, exec.ErrNotFound) || ok && (exit.ExitCode() == 77 || strings.Contains(string(out), "unshare:")) {
		t.Skipf("no disk can be mounted here: %v: %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOnSmallDisk") {
		t.Fatalf("on a small disk: %v\n%s", err, out)
	}
}

func TestOnSmallDisk(t *testing.T) {
	t.Parallel()
	disk := os.Getenv("STATE_SMALL_DISK")
	if disk == "" {
		t.Skip("part of TestAnswerWaitsForDiskSpace")
	}
	waits := make(chan struct{}, 1)
	o := statetest.Options()
	o.MinFree, o.FreeSpace = 4<<20, func(string) (uint64, error) { return 1 << 40, nil } // the disk fills up unnoticed
	o.Log = slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("answer waits")) {
			waits <- struct{}{}
		}
	}), nil))
	s := statetest.OpenWith(t, filepath.Join(disk, "state"), o)
	statetest.BeginRun(t, s, "run-1")
	a := statetest.Reserve(t, s, statetest.Capped(1000), statetest.SearchRequest("0"))
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	plug := filepath.Join(disk, "plug")
	if err := takeAllSpace(plug); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() {
		settled <- a.Settle(statetest.AnswerTo(statetest.SearchRequest("0"), noise(200_000)), outlier.Charged)
	}()
	<-waits
	if err := os.Remove(plug); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatalf("with space again: %v", err)
	}
	if got := len(statetest.Entries(t, s, 0)); got != 1 {
		t.Errorf("%d answers are kept, want 1", got)
	}
	statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeRun, Period: "run-1"}, 2)
}

type writer func([]byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

// takeAllSpace writes until the disk is full.
func takeAllSpace(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !strings.Contains(err.Error(), "no space left") {
		return err
	}
	return file.Close()
}
