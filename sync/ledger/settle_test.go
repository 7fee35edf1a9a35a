package ledger_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestOperatorSettlesAnUnknownScan(t *testing.T) {
	t.Parallel()
	adopted := runs.Scan{State: runs.ScanRunning, ScanID: statetest.ScanA, Status: "Running", Created: statetest.Noon}
	disowned := runs.Scan{State: runs.ScanNotCreated}
	lostAnswer := func(t *testing.T, s *state.Store, step runs.Step, intent int64) {
		statetest.Lead(t, s, step, intent, runs.ScanUnknown)
	}
	unreadable := func(t *testing.T, s *state.Store, step runs.Step, intent int64) {
		statetest.Buy(t, s, statetest.Starting(step, intent, 100), statetest.AnswerTo(statetest.ScanRequest(), `{}`), outlier.Charged)
	}
	gateway := func(t *testing.T, s *state.Store, step runs.Step, intent int64) {
		statetest.Buy(t, s, statetest.Starting(step, intent, 100), statetest.ErrorTo(statetest.ScanRequest(), http.StatusBadGateway, outlier.Foreign), outlier.Unknown)
	}
	for name, c := range map[string]struct {
		before     func(*testing.T, *state.Store, runs.Step, int64)
		as         runs.Scan
		spend      ledger.Spend
		words      string // of the ledger
		hold, held outlier.Credits
	}{
		"a lost answer is adopted":           {lostAnswer, adopted, ledger.Spend{Charged: 50, Held: 10, Requests: 1}, "operator: adopted", 10, 60},
		"a lost answer started nothing":      {lostAnswer, disowned, ledger.Spend{Refunded: 50, Requests: 1}, "operator: not created", 0, 0},
		"a gateway's answer is adopted":      {gateway, adopted, ledger.Spend{Charged: 50, Held: 10, Requests: 1}, "operator: adopted", 10, 60},
		"a gateway's answer started nothing": {gateway, disowned, ledger.Spend{Refunded: 50, Requests: 1}, "operator: not created", 0, 0},
		"an unreadable answer is adopted":    {unreadable, adopted, ledger.Spend{Charged: 50, Held: 10, Requests: 1}, "", 10, 60},
		"an unreadable answer is given up":   {unreadable, disowned, ledger.Spend{Charged: 50, Requests: 1}, "", 0, 50},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			step, intent := statetest.Begin(t, s)
			c.before(t, s, step, intent)
			statetest.CheckScan(t, s, step.ID, runs.ScanUnknown)
			if _, err := s.Scans.Settle(intent, c.as); err != nil {
				t.Fatal(err)
			}
			scan := statetest.CheckScan(t, s, step.ID, c.as.State)
			if scan.ScanID != c.as.ScanID || !scan.Deadline.Equal(statetest.Niche(step).Deadline) {
				t.Errorf("it became %+v", scan)
			}
			if spend, err := s.Ledger.Spent("run-1"); err != nil || spend != c.spend {
				t.Errorf("spent %+v (%v), want %+v", spend, err, c.spend)
			}
			var words string
			if _, err := store.Scan(s.DB, []any{&words}, `SELECT error FROM attempts`); err != nil || words != c.words {
				t.Errorf("the ledger says %q (%v), want %q", words, err, c.words)
			}
			statetest.CheckHold(t, s, step.ID, c.hold)
			statetest.CheckHeld(t, s, statetest.Month(), c.held)
			statetest.CheckBooks(t, s)
			statetest.WantText(t, settled(s, intent, c.as), string(c.as.State), "only an unconfirmed one can be resolved")
		})
	}
}

func TestOperatorsMistakesAreRefused(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	statetest.WantText(t, settled(s, 99, runs.Scan{State: runs.ScanNotCreated}), "99", "no scan has this intent")
	statetest.WantText(t, settled(s, intent, runs.Scan{State: runs.ScanNotCreated}), "it is intended")
	a := statetest.Reserve(t, s, statetest.Starting(step, intent, 1000), statetest.ScanRequest())
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.WantText(t, settled(s, intent, runs.Scan{State: runs.ScanNotCreated}), "right now")
	if err := a.Settle(statetest.Lost(statetest.ScanRequest()), outlier.Unknown); err != nil {
		t.Fatal(err)
	}
	statetest.WantText(t, settled(s, intent, runs.Scan{State: runs.ScanRunning}), "an id")
	statetest.WantText(t, settled(s, intent, runs.Scan{State: runs.ScanUnknown, ScanID: statetest.ScanA}), "one of the states")

	other := statetest.Niche(step)
	other.Job, other.Mode = "rivals", "standard"
	p := statetest.Running(statetest.Starting(step, statetest.Intend(t, s, other), 1000), statetest.ScanB)
	p.Hold = 0
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.ScanRequest(), `{}`), outlier.Charged)
	statetest.WantText(t, settled(s, intent, runs.Scan{State: runs.ScanRunning, ScanID: statetest.ScanB}), statetest.ScanB, "already belongs to intent 2")
	statetest.CheckHeld(t, s, statetest.Month(), 110)
}

// TestSettledScanChangesOnlyItsRow: rows that came after an unknown scan are not sent to the sinks again.
func TestSettledScanChangesOnlyItsRow(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	statetest.Lead(t, s, step, intent, runs.ScanUnknown)
	statetest.Buy(t, s, statetest.Capped(1000), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	news, err := ops.Since(s.DB, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Scans.Settle(intent, runs.Scan{State: runs.ScanNotCreated}); err != nil {
		t.Fatal(err)
	}
	if ids := statetest.Column(t, s, "ops.credits", "id", news.Version); !slices.Equal(ids, []any{int64(1)}) {
		t.Errorf("rows %v of the ledger have changed, want the scan's", ids)
	}
}

// A scan is refused unless its price and the price of reading it fit under every cap together.
func TestScanReservesItsReadingToo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cycle := ledger.Cycle(now, time.UTC, 1)
	for _, c := range []ledger.Cap{
		{Scope: ledger.ScopeRun, Period: "run-1"}, {Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle("ideas", cycle)},
		{Scope: ledger.ScopeDay, Period: ledger.Day(now, time.UTC)}, {Scope: ledger.ScopeMonth, Period: cycle},
	} {
		for _, most := range []outlier.Credits{49, 50, 59, 60} {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			step, intent := statetest.Begin(t, s)
			p := statetest.Starting(step, intent, 0)
			c.Max = most
			p.Caps = func(time.Time) []ledger.Cap { return []ledger.Cap{c} }
			_, err := s.Ledger.Meter(p).Reserve(t.Context(), statetest.ScanRequest())
			refusal, refused := errors.AsType[*ledger.Exceeded](err)
			held := outlier.Credits(0)
			switch {
			case most == 60:
				if err != nil {
					t.Errorf("a cap of %d for the %s: %v", most, c.Scope, err)
				}
				held = 60
			case !refused:
				t.Errorf("a cap of %d for the %s: %v, want a refusal", most, c.Scope, err)
			case *refusal != ledger.Exceeded{Cap: c, Price: 50, Hold: 10}:
				t.Errorf("refused with %+v", *refusal)
			}
			statetest.CheckHeld(t, s, c, held)
			statetest.CheckBooks(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// settled is the error of a word about a scan.
func settled(s *state.Store, intent int64, sc runs.Scan) error {
	_, err := s.Scans.Settle(intent, sc)
	return err
}
