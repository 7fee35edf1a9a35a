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
		_, err := store.Scan(tx, []any{&state}, `SELECT state FROM attempts WHERE id = ?`, attempt)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestLockedDatabasePreventsSending: before credits are spent, a call waits for the lock and is then refused
// with its name.
func TestLockedDatabasePreventsSending(t *testing.T) {
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

// TestAnswerWaitsForLockedDatabase: the answer is in a file meanwhile, and its purchase is settled when the
// lock is gone, however late that is.
func TestAnswerWaitsForLockedDatabase(t *testing.T) {
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
	}{
		{"page", statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged},
		{"refused page", statetest.ErrorTo(statetest.SearchRequest("0"), http.StatusInternalServerError, outlier.Failed), outlier.Refunded},
		{"lost page", statetest.Lost(statetest.SearchRequest("0")), outlier.Unknown},
		{"data call", statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{"items":[]}`), outlier.Charged},
		{"missing video", missing, outlier.Refunded},
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

				checkOutlived(t, killed, test.answer, test.outcome, p, 1)
				// Killed between the commit and the end of the file: nothing is settled twice.
				again := statetest.CopyFolder(t, killed)
				text, err := os.ReadFile(files[0])
				if err == nil {
					err = os.WriteFile(filepath.Join(again, filepath.Base(files[0])), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				checkOutlived(t, again, test.answer, test.outcome, p, 0)
			})
		})
	}
}

// checkOutlived compares what a process that starts in a folder makes of an answer with what it says, and how often
// it is told what follows.
func checkOutlived(
	t *testing.T, dir string, answer *outlier.Answer, o outlier.Outcome, p ledger.Purchase, follows int,
) {
	t.Helper()
	var left []ledger.Kept
	with := statetest.Options()
	with.Apply = func(_ *state.Store, _ *store.Tx, of ledger.Kept) error {
		left = append(left, of)
		return nil
	}
	s := statetest.OpenWith(t, dir, with)
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
	if len(left) != follows {
		t.Fatalf("%d answers were applied, want %d", len(left), follows)
	}
	for _, got := range left {
		body, err := got.Body()
		if err != nil || string(body) != string(answer.Body) || got.Outcome != o || kindOf(got.Answer.Err) != kindOf(answer.Err) {
			t.Errorf("the answer is %q (%v, %s), want %q", body, err, got.Outcome, answer.Body)
		}
		if len(kept) > 0 && got.Response != kept[0].ID {
			t.Errorf("it is answer %d of the journal, want %d", got.Response, kept[0].ID)
		}
		if got.Step != p.Step || got.Op != answer.Request.Op() {
			t.Errorf("the answer is to %s of step %d", got.Op, got.Step)
		}
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
		with := statetest.Options()
		with.Apply = func(_ *state.Store, tx *store.Tx, left ledger.Kept) error {
			_, _, err := runs.RecordStart(tx, left.Intent, left.Answer, left.Outcome)
			return err
		}
		next := statetest.OpenWith(t, killed, with)
		scan, err := next.Scans.OfStep(step.ID)
		if err != nil || scan == nil || scan.ScanID != id || scan.State != runs.ScanRunning {
			t.Errorf("the scan is %+v (%v), want %s running", scan, err, id)
		}
	})
}

// TestDamagedAnswerFileIsRenamed and not used, and the program starts.
func TestDamagedAnswerFileIsRenamed(t *testing.T) {
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
