package state

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
	"outlierd/sync/store"
)

func TestOperatorSettlesAnUnknownScan(t *testing.T) {
	adopted := runs.Scan{State: runs.ScanRunning, ScanID: scanA, Status: "Running", Created: noon}
	disowned := runs.Scan{State: runs.ScanNotCreated}
	lostAnswer := func(t *testing.T, s *Store, step runs.Step, intent int64) { lead(t, s, step, intent, runs.ScanUnknown) }
	unreadable := func(t *testing.T, s *Store, step runs.Step, intent int64) {
		buy(t, s, starting(step, intent, 100), answerTo(scanRequest(), `{}`), outlier.Charged)
	}
	gateway := func(t *testing.T, s *Store, step runs.Step, intent int64) {
		buy(t, s, starting(step, intent, 100), errorTo(scanRequest(), http.StatusBadGateway, outlier.Foreign), outlier.Unknown)
	}
	for name, c := range map[string]struct {
		before     func(*testing.T, *Store, runs.Step, int64)
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
			s := hasty(t, open(t, t.TempDir()))
			step, intent := begin(t, s)
			c.before(t, s, step, intent)
			checkScan(t, s, step.ID, runs.ScanUnknown)
			if _, err := s.Runs.SettleScan(intent, c.as); err != nil {
				t.Fatal(err)
			}
			scan := checkScan(t, s, step.ID, c.as.State)
			if scan.ScanID != c.as.ScanID || !scan.Deadline.Equal(niche(step).Deadline) {
				t.Errorf("it became %+v", scan)
			}
			if spend, err := s.Ledger.Spent("run-1"); err != nil || spend != c.spend {
				t.Errorf("spent %+v (%v), want %+v", spend, err, c.spend)
			}
			var words string
			if err := s.DB.View(func(tx *store.Tx) error { return tx.Row(`SELECT error FROM attempts`).Scan(&words) }); err != nil || words != c.words {
				t.Errorf("the ledger says %q (%v), want %q", words, err, c.words)
			}
			checkHold(t, s, step.ID, c.hold)
			checkHeld(t, s, month(), c.held)
			checkBooks(t, s)
			wantText(t, settled(s, intent, c.as), string(c.as.State), "only an unknown one can be settled")
		})
	}
}

func TestOperatorsMistakesAreRefused(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	wantText(t, settled(s, 99, runs.Scan{State: runs.ScanNotCreated}), "99", "no such scan")
	wantText(t, settled(s, intent, runs.Scan{State: runs.ScanNotCreated}), "it is intended")
	a := reserve(t, s, starting(step, intent, 1000), scanRequest())
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	wantText(t, settled(s, intent, runs.Scan{State: runs.ScanNotCreated}), "right now")
	if err := a.Settle(lost(scanRequest()), outlier.Unknown); err != nil {
		t.Fatal(err)
	}
	wantText(t, settled(s, intent, runs.Scan{State: runs.ScanRunning}), "an id")
	wantText(t, settled(s, intent, runs.Scan{State: runs.ScanUnknown, ScanID: scanA}), "one of the states")

	other := niche(step)
	other.Job, other.Mode = "rivals", "standard"
	p := running(starting(step, intend(t, s, other), 1000), scanB)
	p.Hold = 0
	buy(t, s, p, answerTo(scanRequest(), `{}`), outlier.Charged)
	wantText(t, settled(s, intent, runs.Scan{State: runs.ScanRunning, ScanID: scanB}), scanB, "intent 2 already")
	checkHeld(t, s, month(), 110)
}

// TestWordOnAnUnknownScanChangesItsRowAlone: what came after it is not told again.
func TestWordOnAnUnknownScanChangesItsRowAlone(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	lead(t, s, step, intent, runs.ScanUnknown)
	buy(t, s, capped(1000), answerTo(searchRequest("0"), `{}`), outlier.Charged)
	news, err := ops.Since(s.DB, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runs.SettleScan(intent, runs.Scan{State: runs.ScanNotCreated}); err != nil {
		t.Fatal(err)
	}
	if ids := column(t, s, "ops.credits", "id", news.Version); !slices.Equal(ids, []any{int64(1)}) {
		t.Errorf("rows %v of the ledger have changed, want the scan's", ids)
	}
}

func TestScanAndItsReadingFitTogetherOrNotAtAll(t *testing.T) {
	now := time.Now()
	cycle := ledger.Cycle(now, time.UTC, 1)
	for _, c := range []ledger.Cap{
		{Scope: ledger.ScopeRun, Period: "run-1"}, {Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle("ideas", cycle)},
		{Scope: ledger.ScopeDay, Period: ledger.Day(now, time.UTC)}, {Scope: ledger.ScopeMonth, Period: cycle},
	} {
		for _, most := range []outlier.Credits{49, 50, 59, 60} {
			s := hasty(t, open(t, t.TempDir()))
			step, intent := begin(t, s)
			p := starting(step, intent, 0)
			c.Max = most
			p.Caps = func(time.Time) []ledger.Cap { return []ledger.Cap{c} }
			_, err := s.Ledger.Meter(p).Reserve(t.Context(), scanRequest())
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
			checkHeld(t, s, c, held)
			checkBooks(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// settled is the error of a word about a scan.
func settled(s *Store, intent int64, sc runs.Scan) error {
	_, err := s.Runs.SettleScan(intent, sc)
	return err
}
