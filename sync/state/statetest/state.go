// Package statetest creates state folders for tests: an empty one, the records of runs, calls and
// scans, and a large one for benchmarks, with as many answers and queued calls as an installation
// collects in a year.
package statetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Plenty is a disk with room, so that no test depends on the machine's.
func Plenty(string) (uint64, error) { return 1 << 40, nil }

// SameQuery compares queries as values.
var SameQuery = cmpopts.EquateComparable(outlier.Query{})

// Options are those of a state that binds itself to a service, on a disk with room.
func Options() state.Options {
	return state.Options{Service: "https://service.test", Version: "v1", Options: store.Options{MinFree: 1 << 16, FreeSpace: Plenty}}
}

// Open opens a store in dir that is closed when the test ends.
func Open(t testing.TB, dir string) *state.Store {
	t.Helper()
	return OpenWith(t, dir, Options())
}

// OpenWith is [Open] with options.
func OpenWith(t testing.TB, dir string, o state.Options) *state.Store {
	t.Helper()
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	s, err := state.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// Blank is the file of a state in which nothing has happened. To copy it is much faster than
// to make it.
var Blank = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "blank")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := state.Open(context.Background(), dir, state.Options{Options: store.Options{MinFree: 1 << 16, FreeSpace: Plenty}})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "state.db"))
})

// Prepare lays the blank state into a folder without one.
func Prepare(dir string) error {
	path := filepath.Join(dir, "state.db")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	content, err := Blank()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	return err
}

// SearchRequest asks for a page of 2 credits.
func SearchRequest(page string) *outlier.Request {
	return SearchFor(page, 2)
}

// SearchFor asks for a page of the given price.
func SearchFor(page string, price outlier.Credits) *outlier.Request {
	params := url.Values{"query": {"chess"}, "from": {page}, "size": {"40"}}
	return Must(outlier.NewRequest(outlier.OpSearch, params, outlier.Prices{"search": price}))
}

// Must is a request that a constructor did not refuse.
func Must(r *outlier.Request, err error) *outlier.Request {
	if err != nil {
		panic(err)
	}
	return r
}

// DetailsRequest asks for the details of a video.
func DetailsRequest(video string) *outlier.Request {
	return Must(outlier.DataRequest(outlier.OpDetails, video))
}

// AnswerTo is a whole answer with a JSON body, as it arrives now.
func AnswerTo(r *outlier.Request, body string) *outlier.Answer {
	now := time.Now()
	return &outlier.Answer{
		Request: r, Status: http.StatusOK, Header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}},
		Body: []byte(body), SentAt: now, ReceivedAt: now, Own: true,
	}
}

// ErrorTo is a documented error answer.
func ErrorTo(r *outlier.Request, status int, kind outlier.Kind) *outlier.Answer {
	a := AnswerTo(r, `{"status":"error","error":{"message":"no"}}`)
	a.Status = status
	a.Err = &outlier.Error{Kind: kind, Op: r.Op(), Entity: r.Entity(), Status: status, Message: "no"}
	return a
}

// Lost is what is known when a request was sent and nothing came back.
func Lost(r *outlier.Request) *outlier.Answer {
	now := time.Now()
	return &outlier.Answer{Request: r, SentAt: now, ReceivedAt: now,
		Err: &outlier.Error{Kind: outlier.Lost, Op: r.Op()}}
}

// Reserve makes a reservation that must succeed.
func Reserve(t testing.TB, s *state.Store, p ledger.Purchase, r *outlier.Request) outlier.Attempt {
	t.Helper()
	a, err := s.Ledger.Meter(p).Reserve(t.Context(), r)
	if err != nil {
		t.Fatalf("Reserve: %v", err)
	}
	return a
}

// Buy goes through a whole attempt.
func Buy(t testing.TB, s *state.Store, p ledger.Purchase, answer *outlier.Answer, o outlier.Outcome) {
	t.Helper()
	a := Reserve(t, s, p, answer.Request)
	if err := a.Sending(); err != nil {
		t.Fatalf("Sending: %v", err)
	}
	if err := a.Settle(answer, o); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// Capped is a purchase under one cap for all jobs in the billing cycle.
func Capped(most outlier.Credits) ledger.Purchase {
	return ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1, Caps: func(now time.Time) []ledger.Cap {
		return []ledger.Cap{{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, time.UTC, 1), Max: most}}
	}}
}

// Month is the cap that is asked about, of whatever size.
func Month() ledger.Cap {
	return ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(time.Now(), time.UTC, 1)}
}

// CheckHeld checks what is held against a cap.
func CheckHeld(t testing.TB, s *state.Store, c ledger.Cap, want outlier.Credits) {
	t.Helper()
	got, err := s.Ledger.Held(c)
	if err != nil {
		t.Fatalf("Held: %v", err)
	}
	if got != want {
		t.Errorf("%s %s holds %d credits, want %d", c.Scope, c.Period, got, want)
	}
}

// BeginRun records an open run with one step and returns the step.
func BeginRun(t testing.TB, s *state.Store, id string) runs.Step {
	t.Helper()
	run := runs.Run{ID: id, Job: "ideas", Trigger: "manual", Started: time.Now(), Status: runs.Running,
		Plan: &plan.Stored{}}
	step := runs.Step{Query: outlier.UncheckedQuery(outlier.OpSearch, "query=chess"),
		Queries: []string{"chess"}, Total: -1}
	if err := s.Runs.Begin(run, []runs.Step{step}); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Steps.OfRun(id)
	if err != nil {
		t.Fatal(err)
	}
	return steps[0]
}

// Entries reads the journal after an id, whole.
func Entries(t testing.TB, s *state.Store, after int64) []journal.Entry {
	t.Helper()
	var all []journal.Entry
	for e, err := range s.Journal.After(after) {
		if err != nil {
			t.Fatalf("Journal: %v", err)
		}
		all = append(all, *e)
	}
	return all
}

// Shell executes statements outside of transactions, as a user with a shell would.
func Shell(t testing.TB, s *state.Store, statement string) error {
	t.Helper()
	return s.DB.Execute(statement)
}

// Hasty stops waiting for the disk, for tests that commit thousands of times and
// pull no plug.
func Hasty(t testing.TB, s *state.Store) *state.Store {
	t.Helper()
	if err := Shell(t, s, `PRAGMA synchronous = off`); err != nil {
		t.Fatal(err)
	}
	return s
}

// CopyFolder is what a process would find that starts after this one was killed
// now: the kernel keeps what was written, so the files are as a kill leaves them.
func CopyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	held, err := filepath.Glob(filepath.Join(from, SpoolPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(held, filepath.Join(from, "state.db"), filepath.Join(from, "state.db-wal"),
		filepath.Join(from, "lock")) {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(path)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// WantText checks that an error says all parts.
func WantText(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// Peek opens a state to read it, until the test ends.
func Peek(t *testing.T, dir string, o state.Options) *state.Store {
	t.Helper()
	s, err := state.Peek(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("Peek: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// Durable counts the answers that would survive a kill now.
func Durable(t *testing.T, s *state.Store) int {
	t.Helper()
	return len(Entries(t, Open(t, CopyFolder(t, s.DB.Dir())), 0))
}

// Free journals n free answers.
func Free(t testing.TB, s *state.Store, n int) {
	t.Helper()
	for i := range n {
		Buy(t, s, ledger.Purchase{}, AnswerTo(DetailsRequest(fmt.Sprintf("%011d", i)), `{"n":1}`), outlier.Charged)
	}
}

// What tests know of the packages that the state is made of.
const (
	SpoolPrefix  = "answer-" // of files that keep an answer in hand
	MaxErrorText = 500       // bytes that are kept of a text
)

// Rename gives a job another name.
func Rename(t *testing.T, s *state.Store, old, new string) {
	t.Helper()
	if err := s.Rename(old, new); err != nil {
		t.Fatal(err)
	}
}

// Noon is an instant for tests in which it does not matter which.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 123000, time.UTC)
