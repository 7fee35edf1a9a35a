package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/ledger"
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
	if err := s.DB.View(func(tx *store.Tx) error { return tx.Row(`PRAGMA page_count`).Scan(&now) }); err != nil {
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

func TestFullDiskLosesNothingThatWasAccepted(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	fillUp(t, s, 30)
	accepted := 0
	var err error
	for err == nil && accepted < store.GroupSize {
		a := statetest.Reserve(t, s, ledger.Purchase{Run: "run-1"}, statetest.DetailsRequest(fmt.Sprintf("%011d", accepted)))
		if err = a.Settle(statetest.AnswerTo(statetest.DetailsRequest("video-00001"), noise(20_000)), outlier.Charged); err == nil {
			accepted++
		}
	}
	if _, ok := errors.AsType[*store.FullError](err); !ok || accepted == 0 {
		t.Fatalf("after %d answers Settle returned %v, want a FullError", accepted, err)
	}
	statetest.WantText(t, err, "no space left", s.DB.Dir(), "free some space")
	if got := len(statetest.Entries(t, s, 0)); got != accepted {
		t.Errorf("%d answers are left in the open group, want the %d accepted ones", got, accepted)
	}

	makeSpace(t, s)
	statetest.Free(t, s, 3)
	if err := s.DB.Flush(); err != nil {
		t.Fatal(err)
	}
	got := statetest.Entries(t, statetest.Open(t, statetest.CopyFolder(t, s.DB.Dir())), 0)
	if len(got) != accepted+3 {
		t.Fatalf("%d answers are durable, want %d", len(got), accepted+3)
	}
	for i, e := range got[:accepted] {
		if e.ID != int64(i+1) || e.Entity != fmt.Sprintf("%011d", i) || string(e.Body) != noise(20_000) {
			t.Errorf("answer %d is that of %s", e.ID, e.Entity)
		}
	}
}

func TestPaidAnswerCanBeSettledAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	step := statetest.BeginRun(t, s, "run-1")
	p := statetest.Capped(10)
	p.Commit = func(tx *store.Tx, _ ledger.Kept) error {
		step.Next = 1
		return runs.SaveStep(tx, step)
	}
	a := statetest.Reserve(t, s, p, statetest.SearchRequest("0"))
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.Free(t, s, 2)
	fillUp(t, s, 5)
	answer := statetest.AnswerTo(statetest.SearchRequest("0"), noise(200_000))
	err := a.Settle(answer, outlier.Charged)
	if _, ok := errors.AsType[*store.FullError](err); !ok {
		t.Fatalf("Settle: %v, want a FullError", err)
	}
	if _, err := s.Ledger.Meter(p).Reserve(t.Context(), statetest.SearchRequest("1")); err == nil {
		statetest.CheckHeld(t, s, statetest.Month(), 4) // a reservation is small and may still find room
	} else {
		statetest.CheckHeld(t, s, statetest.Month(), 2)
	}
	makeSpace(t, s)
	if err := a.Settle(answer, outlier.Charged); err != nil {
		t.Fatal(err)
	}
	if got := len(statetest.Entries(t, s, 0)); got != 3 {
		t.Errorf("%d answers are kept, want the paid one and the 2 free ones", got)
	}
	if spend, err := s.Ledger.Spent("run-1"); err != nil || spend.Charged != 2 {
		t.Errorf("spent %+v (%v), want 2 credits charged", spend, err)
	}
}

// A disk that is really full behaves unlike a limit: the statements succeed and the
// commit fails. The other process of this test lives in a name space of its own,
// where it may mount a disk of 4 MiB; where that is forbidden, the test is skipped.
func TestBallastMakesRoomForTheAnswerInHand(t *testing.T) {
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
		t.Skip("part of TestBallastMakesRoomForTheAnswerInHand")
	}
	dir := filepath.Join(disk, "state")
	o := statetest.Options()
	o.MinFree, o.FreeSpace = 4<<20, func(string) (uint64, error) { return 1 << 40, nil } // the disk fills up unnoticed
	s := statetest.OpenWith(t, dir, o)
	statetest.BeginRun(t, s, "run-1")
	p := statetest.Capped(1000)
	a := statetest.Reserve(t, s, p, statetest.SearchRequest("0"))
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.Free(t, s, 5)
	plug := filepath.Join(disk, "plug")
	if err := takeAllSpace(plug); err != nil {
		t.Fatal(err)
	}

	answer := statetest.AnswerTo(statetest.SearchRequest("0"), noise(200_000))
	if err := a.Settle(answer, outlier.Charged); err != nil {
		t.Fatalf("the ballast was there for this answer: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ballast")); err == nil {
		t.Error("the ballast is still there: the disk was not full, and this test shows nothing")
	}
	if got := len(statetest.Entries(t, s, 0)); got != 6 {
		t.Errorf("%d answers are kept, want 6", got)
	}

	if err := takeAllSpace(plug + "2"); err != nil {
		t.Fatal(err)
	}
	statetest.Free(t, s, 3)
	err := s.Runs.Begin(runs.Run{ID: "run-2", Plan: []byte(noise(400_000))}, nil)
	if _, ok := errors.AsType[*store.FullError](err); !ok {
		t.Fatalf("Begin without any room: %v, want a FullError", err)
	}
	for _, name := range []string{plug, plug + "2"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DB.Flush(); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if got := len(statetest.Entries(t, s, 0)); got != 9 {
		t.Errorf("%d answers are kept after the second time, want 9", got)
	}
	statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeRun, Period: "run-1"}, 2)
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

func TestBallastIsLoadedAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	ballast := filepath.Join(dir, "ballast")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	info, err := os.Stat(ballast)
	if err != nil || info.Size() != int64(statetest.Options().MinFree/8) {
		t.Errorf("ballast after a purchase: %v (%v)", info, err)
	}
}

// TestFileSystemWithoutNumbersIsNotFull: /proc says of all its numbers that they are 0, as some remote file systems do.
func TestFileSystemWithoutNumbersIsNotFull(t *testing.T) {
	room, err := store.FreeSpace("/proc")
	files, wrong := store.FreeFiles("/proc")
	if err != nil || wrong != nil || room != store.Unknown || files != store.Unknown {
		t.Errorf("%d bytes and %d files are free, %v, %v", room, files, err, wrong)
	}
}
