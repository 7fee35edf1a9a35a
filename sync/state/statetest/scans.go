package statetest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Reading is the purchase of one page of the results of a step's scan, under a cap
// for the billing cycle.
func Reading(step runs.Step, most outlier.Credits) ledger.Purchase {
	p := Capped(most)
	p.Run, p.Step, p.FromHold = step.Run, step.ID, step.ID
	return p
}

// Scanned is a store whose step has a running scan and holds 10 credits for reading
// it; 60 are held in all.
func Scanned(t testing.TB) (*state.Store, runs.Step) {
	t.Helper()
	s := Hasty(t, Open(t, t.TempDir()))
	step, intent := Begin(t, s)
	Lead(t, s, step, intent, runs.ScanRunning)
	return s, step
}

// FinishRun ends a run.
func FinishRun(t testing.TB, s *state.Store, run string, status runs.Status) {
	t.Helper()
	if err := s.Finish(runs.Run{ID: run, Status: status}); err != nil {
		t.Fatal(err)
	}
}

// Supersede ends a run that another one takes the place of.
func Supersede(t testing.TB, s *state.Store, run string) {
	t.Helper()
	rows, err := s.Runs.List(runs.Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(rows, func(r runs.Run) bool { return r.ID == run })
	if err := s.Supersede(rows[at]); err != nil {
		t.Fatal(err)
	}
}

// Ids of scans, as the service gives them.
const (
	ScanA = "11111111-1111-4111-8111-111111111111"
	ScanB = "22222222-2222-4222-8222-222222222222"
)

// ScanRequest asks for a scan of 50 credits.
func ScanRequest() *outlier.Request {
	return ScanFor(50)
}

// ScanFor asks for a scan of the given price.
func ScanFor(price outlier.Credits) *outlier.Request {
	return Must(outlier.NewRequest(outlier.OpStartScan, url.Values{"query": {"chess"}},
		outlier.Prices{"scan_fast": price}))
}

// Niche is the scan that most tests want.
func Niche(step runs.Step) runs.Scan {
	return runs.Scan{
		Run: step.Run, Job: "ideas", Step: step.ID, FindBy: "query", Mode: "fast", Queries: []string{"chess", "go"},
		Price: 50, Deadline: Noon.Add(24 * time.Hour),
	}
}

// Intend records a scan that is about to be asked for.
func Intend(t testing.TB, s *state.Store, scan runs.Scan) (intent int64) {
	t.Helper()
	err := s.DB.Update(func(tx *store.Tx) (err error) {
		intent, err = s.Scans.Intend(tx, scan)
		return err
	})
	if err != nil {
		t.Fatalf("IntendScan: %v", err)
	}
	return intent
}

// Starting is the purchase of an intent's scan together with five pages of reading,
// under a cap for the billing cycle.
func Starting(step runs.Step, intent int64, most outlier.Credits) ledger.Purchase {
	p := Capped(most)
	p.Run, p.Step, p.Intent, p.Hold = step.Run, step.ID, intent, 10
	return p
}

// Running settles as an answer that tells the scan's id does.
func Running(p ledger.Purchase, id string) ledger.Purchase {
	p.Commit = func(tx *store.Tx, k ledger.Kept) error {
		if k.Outcome != outlier.Charged {
			return nil
		}
		return runs.SaveScan(tx, runs.Scan{Intent: p.Intent, State: runs.ScanRunning, ScanID: id,
			Status: "Running", Created: Noon, NextPoll: Noon.Add(time.Minute)})
	}
	return p
}

// Begin starts a run with a step, and intends its scan.
func Begin(t testing.TB, s *state.Store) (runs.Step, int64) {
	t.Helper()
	step := BeginRun(t, s, "run-1")
	return step, Intend(t, s, Niche(step))
}

// Lose goes through an attempt whose answer never comes.
func Lose(t testing.TB, s *state.Store, p ledger.Purchase) {
	t.Helper()
	Buy(t, s, p, Lost(ScanRequest()), outlier.Unknown)
}

// CheckScan checks the state of the scan of a step, and returns the scan.
func CheckScan(t testing.TB, s *state.Store, step int64, want runs.ScanState) *runs.Scan {
	t.Helper()
	scan, err := s.Scans.OfStep(step)
	if err != nil || scan == nil {
		t.Fatalf("ScanOf: %v %v", scan, err)
	}
	if scan.State != want {
		t.Errorf("the scan is %s, want %s", scan.State, want)
	}
	return scan
}

// CheckHold checks what is held for a step.
func CheckHold(t testing.TB, s *state.Store, step int64, want outlier.Credits) {
	t.Helper()
	if got, err := s.Ledger.HoldOf(step); err != nil || got != want {
		t.Errorf("step %d holds %d (%v), want %d", step, got, err, want)
	}
}

// CheckBooks is [CompareBooks] for a test.
func CheckBooks(t testing.TB, s *state.Store) {
	t.Helper()
	if err := CompareBooks(s); err != nil {
		t.Error(err)
	}
}

// CompareBooks checks that what the database compares with the caps in force is what the ledger says is held.
func CompareBooks(s *state.Store) error {
	type sum struct {
		ledger.Cap
		held outlier.Credits
	}
	var sums []sum
	err := s.DB.View(func(tx *store.Tx) (err error) {
		sums, err = store.List(tx, func(s *sum) []any { return []any{&s.Scope, &s.Period, &s.held} },
			`SELECT scope, iif(scope = 'job_month', coalesce((SELECT job FROM jobs WHERE jobs.account = cap_sums.account), account)
				|| substr(period, length(account) + 1), period), held FROM cap_sums`)
		return err
	})
	for _, sum := range sums {
		got, failed := s.Ledger.Held(sum.Cap)
		if err = errors.Join(err, failed); got != sum.held {
			err = errors.Join(err, fmt.Errorf("%s %s holds %d credits, and %d by the sums of the database",
				sum.Scope, sum.Period, got, sum.held))
		}
	}
	return err
}

// Lead brings the scan of an intent into a state the way it comes there.
func Lead(t testing.TB, s *state.Store, step runs.Step, intent int64, to runs.ScanState) {
	t.Helper()
	p := Starting(step, intent, 100)
	save := func(scan runs.Scan) {
		t.Helper()
		scan.Intent = intent
		if err := s.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, scan) }); err != nil {
			t.Fatal(err)
		}
	}
	switch to {
	case runs.ScanIntended:
	case runs.ScanRefused:
		Buy(t, s, p, ErrorTo(ScanRequest(), http.StatusBadRequest, outlier.Invalid), outlier.Refunded)
		save(runs.Scan{State: runs.ScanRefused})
	case runs.ScanUnknown:
		Lose(t, s, p)
	case runs.ScanNotCreated:
		Lose(t, s, p)
		if _, err := s.Scans.Settle(intent, runs.Scan{State: runs.ScanNotCreated}); err != nil {
			t.Fatal(err)
		}
	default:
		Buy(t, s, Running(p, ScanA), AnswerTo(ScanRequest(), `{}`), outlier.Charged)
		save(runs.Scan{State: to, ScanID: ScanA})
	}
}
