package state

import (
	"bytes"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"outlierd/outlier"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// space that is always there, so that no test depends on the machine's disk.
func plenty(string) (uint64, error) { return 1 << 40, nil }

func options() Options {
	return Options{Service: "https://service.test", Version: "v1", MinFree: 1 << 16, FreeSpace: plenty}
}

// open opens a store in dir that is closed when the test ends.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	return openWith(t, dir, options())
}

func openWith(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, o)
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

func searchRequest(page string) *outlier.Request {
	return searchFor(page, 2)
}

func searchFor(page string, price outlier.Credits) *outlier.Request {
	params := url.Values{"query": {"chess"}, "from": {page}, "size": {"40"}}
	return must(outlier.NewRequest(outlier.OpSearch, params, outlier.Prices{"search": price}))
}

func must(r *outlier.Request, err error) *outlier.Request {
	if err != nil {
		panic(err)
	}
	return r
}

func detailsRequest(video string) *outlier.Request {
	return must(outlier.DataRequest(outlier.OpDetails, video))
}

// answerTo is a whole answer with a JSON body, as it arrives now.
func answerTo(r *outlier.Request, body string) *outlier.Answer {
	now := time.Now()
	return &outlier.Answer{
		Request: r, Status: http.StatusOK, Header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}},
		Body: []byte(body), SentAt: now, ReceivedAt: now, Own: true,
	}
}

// errorTo is a documented error answer.
func errorTo(r *outlier.Request, status int, kind outlier.Kind) *outlier.Answer {
	a := answerTo(r, `{"status":"error","error":{"message":"no"}}`)
	a.Status = status
	a.Err = &outlier.Error{Kind: kind, Op: r.Op(), Entity: r.Entity(), Status: status, Message: "no"}
	return a
}

// lost is what is known when a request was sent and nothing came back.
func lost(r *outlier.Request) *outlier.Answer {
	now := time.Now()
	return &outlier.Answer{Request: r, SentAt: now, ReceivedAt: now, Err: &outlier.Error{Kind: outlier.Lost, Op: r.Op()}}
}

// reserve makes a reservation that must succeed.
func reserve(t testing.TB, s *Store, p ledger.Purchase, r *outlier.Request) outlier.Attempt {
	t.Helper()
	a, err := s.Ledger.Meter(p).Reserve(t.Context(), r)
	if err != nil {
		t.Fatalf("Reserve: %v", err)
	}
	return a
}

// buy goes through a whole attempt.
func buy(t testing.TB, s *Store, p ledger.Purchase, answer *outlier.Answer, o outlier.Outcome) {
	t.Helper()
	a := reserve(t, s, p, answer.Request)
	if err := a.Sending(); err != nil {
		t.Fatalf("Sending: %v", err)
	}
	if err := a.Settle(answer, o); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// capped is a purchase under one cap for all jobs in the billing cycle.
func capped(most outlier.Credits) ledger.Purchase {
	return ledger.Purchase{Run: "run-1", Job: "ideas", Attempt: 1, Caps: func(now time.Time) []ledger.Cap {
		return []ledger.Cap{{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, time.UTC, 1), Max: most}}
	}}
}

// month is the cap that is asked about, of whatever size.
func month() ledger.Cap {
	return ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(time.Now(), time.UTC, 1)}
}

func checkHeld(t testing.TB, s *Store, c ledger.Cap, want outlier.Credits) {
	t.Helper()
	got, err := s.Ledger.Held(c)
	if err != nil {
		t.Fatalf("Held: %v", err)
	}
	if got != want {
		t.Errorf("%s %s holds %d credits, want %d", c.Scope, c.Period, got, want)
	}
}

// beginRun records an open run with one step and returns the step.
func beginRun(t testing.TB, s *Store, id string) runs.Step {
	t.Helper()
	run := runs.Run{ID: id, Job: "ideas", Trigger: "manual", Started: time.Now(), Status: runs.Running, Plan: []byte(`{}`)}
	if err := s.Runs.Begin(run, []runs.Step{{Op: outlier.OpSearch, Queries: []string{"chess"}, Params: "query=chess", Total: -1}}); err != nil {
		t.Fatal(err)
	}
	steps, err := s.Runs.Steps(id)
	if err != nil {
		t.Fatal(err)
	}
	return steps[0]
}

// entries reads the journal after an id, whole. Bodies are copied.
func entries(t testing.TB, s *Store, after int64) []journal.Entry {
	t.Helper()
	var all []journal.Entry
	for e, err := range s.Journal.After(after) {
		if err != nil {
			t.Fatalf("Journal: %v", err)
		}
		one := *e
		one.Body = bytes.Clone(e.Body)
		all = append(all, one)
	}
	return all
}

// shell performs statements behind the store's back, as somebody with a shell would.
func shell(t testing.TB, s *Store, statement string) error {
	t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		var unused any
		return tx.Row(statement).Scan(&unused)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// hasty stops waiting for the disk, for tests that commit thousands of times and
// pull no plug.
func hasty(t testing.TB, s *Store) *Store {
	t.Helper()
	if err := shell(t, s, `PRAGMA synchronous = off`); err != nil {
		t.Fatal(err)
	}
	return s
}

func gzipped(t testing.TB, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// copyFolder is what a process would find that starts after this one was killed
// now: the kernel keeps what was written, so the files are as a kill leaves them.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	held, err := filepath.Glob(filepath.Join(from, heldPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(held, filepath.Join(from, "state.db"), filepath.Join(from, "state.db-wal"), filepath.Join(from, "lock"), filepath.Join(from, "sending.json")) {
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

func wantText(t testing.TB, err error, parts ...string) {
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
