package ledger_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/internal/durable"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// patience is how long a unit of work waits for a lock.
const patience = 10 * time.Second

// lockedBy lets another program lock the database until unlock is called.
func lockedBy(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	other, err := stdsql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(context.Background(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}

// inHand are the files that keep answers in a state folder.
func inHand(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, statetest.SpoolPrefix+"*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func stateOf(t *testing.T, s *state.Store, attempt int64) (state string) {
	t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT state FROM attempts WHERE id = ?`, attempt).Scan(&state)
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestNothingIsSentWhileTheDatabaseIsLocked: before money is spent, a lock is waited for
// and then refused by name.
func TestNothingIsSentWhileTheDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		a := statetest.Reserve(t, s, ledger.Purchase{}, statetest.SearchRequest("0"))
		unlock := lockedBy(t, s.DB.Dir())
		began := time.Now()
		_, err := s.Ledger.Meter(ledger.Purchase{}).Reserve(t.Context(), statetest.SearchRequest("1"))
		statetest.WantText(t, err, s.DB.Path(), "locked by another program")
		statetest.WantText(t, a.Sending(), s.DB.Path(), "locked by another program")
		if waited := time.Since(began); waited < patience || waited > patience+time.Second {
			t.Errorf("both gave up after %v, want %v: the second has nothing left to wait for", waited, patience)
		}
		time.Sleep(time.Minute) // which makes this another lock
		time.AfterFunc(patience/2, unlock)
		if err := a.Sending(); err != nil {
			t.Errorf("the lock was gone in time: %v", err)
		}
	})
}

// TestAnAnswerWaitsForALockedDatabase: a purchase whose answer meets a lock is settled
// when the lock is gone, however late that is, and is in a file meanwhile.
func TestAnAnswerWaitsForALockedDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		step := statetest.BeginRun(t, s, "run-1")
		p := statetest.Capped(100)
		p.Step = step.ID
		p.Commit = func(tx *store.Tx, _ ledger.Kept) error {
			next := step
			next.Next = 1
			return runs.SaveStep(tx, next)
		}
		a := statetest.Reserve(t, s, p, statetest.SearchRequest("0"))
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		unlock := lockedBy(t, s.DB.Dir())
		settled := make(chan error)
		go func() {
			settled <- a.Settle(statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-settled:
			t.Fatalf("Settle returned while the database was locked: %v", err)
		default:
		}
		files := inHand(t, s.DB.Dir())
		if len(files) != 1 {
			t.Fatalf("%d answers are in files, want 1", len(files))
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v (%v), want 0600", info.Mode(), err)
		}
		unlock()
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
		if files := inHand(t, s.DB.Dir()); len(files) != 0 {
			t.Errorf("%v is left", files)
		}
		steps, err := s.Steps.OfRun("run-1")
		if err != nil || steps[0].Next != 1 || stateOf(t, s, 1) != "charged" || len(statetest.Entries(t, s, 0)) != 1 {
			t.Errorf("step at %d (%v), attempt %s, want 1 and charged", steps[0].Next, err, stateOf(t, s, 1))
		}
	})
}

// TestAnAnswerOutlivesItsProcess: where the process ends before the lock does, or is
// killed at any moment of the way, the next one settles what the answer says.
func TestAnAnswerOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	missing := statetest.ErrorTo(statetest.DetailsRequest("video-00001"), http.StatusNotFound, outlier.NotFound)
	for _, test := range []struct {
		name    string
		answer  *outlier.Answer
		outcome outlier.Outcome
		follows bool // the step or the task still has to
	}{
		{"page", statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged, true},
		{"refused page", statetest.ErrorTo(statetest.SearchRequest("0"), http.StatusInternalServerError, outlier.Failed), outlier.Refunded, false},
		{"lost page", statetest.Lost(statetest.SearchRequest("0")), outlier.Unknown, false},
		{"data call", statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{"items":[]}`), outlier.Charged, true},
		{"missing video", missing, outlier.Refunded, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := statetest.Open(t, t.TempDir())
				step := statetest.BeginRun(t, s, "run-1")
				p := statetest.Capped(100)
				p.Commit = func(*store.Tx, ledger.Kept) error { return nil }
				if test.answer.Request.Paid() {
					p.Step = step.ID
				}
				ctx, stop := context.WithCancel(t.Context())
				a, err := s.Ledger.Meter(p).Reserve(ctx, test.answer.Request)
				if err == nil {
					err = a.Sending()
				}
				if err != nil {
					t.Fatal(err)
				}
				unlock := lockedBy(t, s.DB.Dir())
				stop() // the process is asked to stop while the answer is in hand
				err = a.Settle(test.answer, test.outcome)
				files := inHand(t, s.DB.Dir())
				if len(files) != 1 {
					t.Fatalf("%d answers are in files, want 1", len(files))
				}
				statetest.WantText(t, err, "locked by another program", "next start", files[0])
				killed := statetest.CopyFolder(t, s.DB.Dir())
				unlock()

				next := statetest.Open(t, killed)
				checkOutlived(t, next, test.answer, test.outcome, p, test.follows)
				// Killed between the commit and the end of the file: nothing is settled twice.
				again := statetest.CopyFolder(t, killed)
				text, err := os.ReadFile(files[0])
				if err == nil {
					err = os.WriteFile(filepath.Join(again, filepath.Base(files[0])), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				checkOutlived(t, statetest.Open(t, again), test.answer, test.outcome, p, false)
			})
		})
	}
}

// checkOutlived compares what a process that has just started knows of an answer with
// what it says.
func checkOutlived(
	t *testing.T, s *state.Store, answer *outlier.Answer, o outlier.Outcome, p ledger.Purchase, follows bool,
) {
	t.Helper()
	if files := inHand(t, s.DB.Dir()); len(files) != 0 {
		t.Errorf("%v is left", files)
	}
	if got := stateOf(t, s, 1); got != string(o) {
		t.Errorf("the attempt is %s, want %s", got, o)
	}
	kept := statetest.Entries(t, s, 0)
	if want := min(len(answer.Body), 1); o != outlier.Refunded && len(kept) != want {
		t.Fatalf("%d answers are in the journal, want %d", len(kept), want)
	}
	left, err := s.Ledger.Recovered()
	if !follows {
		if len(left) > 0 || err != nil {
			t.Errorf("%v (%v) is to be processed, want nothing", left, err)
		}
		return
	}
	if len(left) != 1 || err != nil || kindOf(left[0].Kept.Answer.Err) != kindOf(answer.Err) {
		t.Fatalf("%v (%v) is to be processed, want the answer", left, err)
	}
	got := left[0].Kept
	body, err := got.Body()
	if err != nil || string(body) != string(answer.Body) || got.Outcome != o || got.Response != kept[0].ID {
		t.Errorf("the answer is %q (%v), want %q as answer %d", body, err, answer.Body, kept[0].ID)
	}
	if left[0].Step != p.Step || left[0].Op != answer.Request.Op() {
		t.Errorf("the answer is to %s of step %d", left[0].Op, left[0].Step)
	}
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.DropRecovered(tx, got.Response) })
	if left, err := s.Ledger.Recovered(); len(left) > 0 || err != nil {
		t.Errorf("%v (%v) is processed and still listed", left, err)
	}
}

func kindOf(err error) outlier.Kind {
	if e, ok := errors.AsType[*outlier.Error](err); ok {
		return e.Kind
	}
	return ""
}

// TestAStartedScanOutlivesItsProcess: its id is all that 50 credits have bought so far.
func TestAStartedScanOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		step := statetest.BeginRun(t, s, "run-1")
		wish := runs.Scan{Run: "run-1", Job: "ideas", Step: step.ID, FindBy: "outlierVideos", Mode: "fast", Queries: []string{"tea"}, Price: 50}
		err := s.DB.Update(func(tx *store.Tx) (err error) {
			wish.Intent, err = s.Scans.Intend(tx, wish)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		request := statetest.ScanRequest()
		p := statetest.Capped(100)
		p.Step, p.Intent, p.Commit = step.ID, wish.Intent, func(*store.Tx, ledger.Kept) error { return nil }
		ctx, stop := context.WithCancel(t.Context())
		a, err := s.Ledger.Meter(p).Reserve(ctx, request)
		if err == nil {
			err = a.Sending()
		}
		if err != nil {
			t.Fatal(err)
		}
		unlock := lockedBy(t, s.DB.Dir())
		stop()
		id := "0b2a9c5e-7d1f-4c3a-8e6b-1f2d3c4b5a69"
		err = a.Settle(statetest.AnswerTo(request, fmt.Sprintf(`{"id":%q,"status":"Running","query":["tea"]}`, id)), outlier.Charged)
		statetest.WantText(t, err, "next start")
		killed := statetest.CopyFolder(t, s.DB.Dir())
		unlock()
		next := statetest.Open(t, killed)
		scan, err := next.Scans.OfStep(step.ID)
		if err != nil || scan == nil || scan.ScanID != id || scan.State != runs.ScanRunning {
			t.Errorf("the scan is %+v (%v), want %s running", scan, err, id)
		}
	})
}

// TestADamagedAnswerFileIsSetAside: nothing is believed of it, and the program starts.
func TestADamagedAnswerFileIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	if err := statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("0")).Sending(); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "a[1]") // is found in a folder with any name
	if err := os.Rename(statetest.CopyFolder(t, s.DB.Dir()), dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"answer-1-1.json": `{"attempt":1,"Price":2,"Outcome":"refunded","Answer":{"Status":500,"Body":"e30="}}`, ".answer-2-1.json.1.tmp": `{"att`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := statetest.Open(t, dir)
	if got := stateOf(t, next, 1); got != "unknown" {
		t.Errorf("the attempt is %s, want unknown", got)
	}
	left, err := durable.Match(dir, "*"+statetest.SpoolPrefix+"*")
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "answer-1-1.json.damaged" {
		t.Errorf("left are %v (%v), want the damaged file under that name", left, err)
	}
}
