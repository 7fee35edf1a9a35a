package state

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// reading is the purchase of one page of the results of a step's scan, under a cap
// for the billing cycle.
func reading(step runs.Step, most outlier.Credits) ledger.Purchase {
	p := capped(most)
	p.Run, p.Step, p.FromHold = step.Run, step.ID, step.ID
	return p
}

// scanned is a store whose step has a running scan and holds 10 credits for reading
// it; 60 are held in all.
func scanned(t testing.TB) (*Store, runs.Step) {
	t.Helper()
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	lead(t, s, step, intent, runs.ScanRunning)
	return s, step
}

func TestReadingDrawsTheHoldDown(t *testing.T) {
	s, step := scanned(t)
	for _, want := range []outlier.Credits{8, 6, 4, 2, 0} {
		buy(t, s, reading(step, 60), answerTo(searchRequest("0"), `{}`), outlier.Charged)
		checkHold(t, s, step.ID, want)
		checkHeld(t, s, month(), 60)
		checkBooks(t, s)
	}
	_, err := s.Ledger.Meter(reading(step, 61)).Reserve(t.Context(), searchRequest("0"))
	if refusal, ok := errors.AsType[*ledger.Exceeded](err); !ok || refusal.Held != 60 || refusal.Hold != 0 {
		t.Errorf("beyond the hold: %v, want an ordinary refusal", err)
	}
	buy(t, s, reading(step, 62), answerTo(searchRequest("0"), `{}`), outlier.Charged)
	checkHeld(t, s, month(), 62)
	if spend, err := s.Ledger.Spent(step.Run); err != nil || spend.Charged != 62 || spend.Held != 0 {
		t.Errorf("spent %+v (%v)", spend, err)
	}
}

func TestReadingFromTheHoldMeetsNoCap(t *testing.T) {
	s, step := scanned(t)
	for _, most := range []outlier.Credits{60, 20, 0} { // caps are lowered meanwhile
		other := capped(most)
		if _, err := s.Ledger.Meter(other).Reserve(t.Context(), searchRequest("0")); err == nil {
			t.Errorf("another call fits under a cap of %d", most)
		}
		buy(t, s, reading(step, most), answerTo(searchRequest("0"), `{}`), outlier.Charged)
		checkHeld(t, s, month(), 60)
	}
	checkHold(t, s, step.ID, 4)
}

func TestReadingCountsForTheDayOfItsScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hasty(t, open(t, t.TempDir()))
		step, intent := begin(t, s)
		lead(t, s, step, intent, runs.ScanRunning)
		first := ledger.Day(time.Now(), time.UTC)
		time.Sleep(40 * 24 * time.Hour)
		var asked time.Time
		p := reading(step, 100)
		p.Caps = func(now time.Time) []ledger.Cap {
			asked = now
			return []ledger.Cap{{Scope: ledger.ScopeDay, Period: ledger.Day(now, time.UTC), Max: 1}}
		}
		buy(t, s, p, answerTo(searchRequest("0"), `{}`), outlier.Charged)
		if got := ledger.Day(asked, time.UTC); got != first {
			t.Errorf("caps were asked for %s, want %s", got, first)
		}
		checkHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: first}, 60)
		checkHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(time.Now(), time.UTC)}, 0)
		checkBooks(t, s)
	})
}

func TestRefundedReadingGoesBackToTheHold(t *testing.T) {
	s, step := scanned(t)
	limited := errorTo(searchRequest("0"), http.StatusTooManyRequests, outlier.Limited)
	buy(t, s, reading(step, 60), limited, outlier.Refunded)
	checkHold(t, s, step.ID, 10)
	checkHeld(t, s, month(), 60)

	late := reserve(t, s, reading(step, 60), searchRequest("0"))
	if err := late.Sending(); err != nil {
		t.Fatal(err)
	}
	checkHold(t, s, step.ID, 8)
	update(t, s, func(tx *store.Tx) error { return runs.Release(tx, step.ID) })
	checkHeld(t, s, month(), 52)
	if err := late.Settle(limited, outlier.Refunded); err != nil {
		t.Fatal(err)
	}
	checkHold(t, s, step.ID, 0)
	checkHeld(t, s, month(), 50)
	checkBooks(t, s)
}

func TestHoldThatDoesNotCoverThePriceIsLeftAlone(t *testing.T) {
	s, step := scanned(t)
	dear := searchFor("0", 11)
	buy(t, s, reading(step, 71), answerTo(dear, `{}`), outlier.Charged)
	checkHold(t, s, step.ID, 10)
	checkHeld(t, s, month(), 71)

	stranger := reading(step, 71)
	stranger.Run = "run-2"
	if _, err := s.Ledger.Meter(stranger).Reserve(t.Context(), searchRequest("0")); err == nil {
		t.Error("another run draws from the hold")
	}
	checkBooks(t, s)
}

func TestHoldIsReleased(t *testing.T) {
	finish := func(status runs.Status) func(*testing.T, *Store, runs.Step) {
		return func(t *testing.T, s *Store, step runs.Step) { finishRun(t, s, step.Run, status) }
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, *Store, runs.Step)
		rest outlier.Credits
	}{
		"by hand, and again": {func(t *testing.T, s *Store, step runs.Step) {
			for range 2 {
				update(t, s, func(tx *store.Tx) error { return runs.Release(tx, step.ID) })
			}
		}, 0},
		"with its run":                    {finish(runs.Partial), 0},
		"not with a run that may go on":   {finish(runs.PausedBudget), 8},
		"not with a run that failed":      {finish(runs.Failed), 8},
		"not with a run that was stopped": {finish(runs.Running), 8},
		"not when another run begins": {func(t *testing.T, s *Store, step runs.Step) {
			finish(runs.PausedBudget)(t, s, step)
			beginRun(t, s, "run-2")
		}, 8},
		"when another run takes its place": {func(t *testing.T, s *Store, step runs.Step) {
			finish(runs.PausedBudget)(t, s, step)
			supersede(t, s, step.Run)
		}, 0},
		"not by a release elsewhere": {func(t *testing.T, s *Store, step runs.Step) {
			update(t, s, func(tx *store.Tx) error { return runs.Release(tx, step.ID+1) })
		}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := scanned(t)
			buy(t, s, reading(step, 60), answerTo(searchRequest("0"), `{}`), outlier.Charged)
			c.do(t, s, step)
			checkHold(t, s, step.ID, c.rest)
			checkHeld(t, s, month(), 52+c.rest)
			checkBooks(t, s)
		})
	}
}

// TestHoldOfAScanThatNobodyKnowsOfOutlivesItsRun: unknown counts as spent, and so does
// what was to be spent on reading it, until somebody has looked.
func TestHoldOfAScanThatNobodyKnowsOfOutlivesItsRun(t *testing.T) {
	ends := map[string]struct {
		do   func(*testing.T, *Store, runs.Step)
		over bool // the run cannot go on, so nobody reads what is adopted
	}{
		"its run ends":           {func(t *testing.T, s *Store, step runs.Step) { finishRun(t, s, step.Run, runs.Partial) }, true},
		"its run is interrupted": {func(t *testing.T, s *Store, step runs.Step) { finishRun(t, s, step.Run, runs.Interrupted) }, false},
		"its run fails":          {func(t *testing.T, s *Store, step runs.Step) { finishRun(t, s, step.Run, runs.Failed) }, false},
		"another run begins": {func(t *testing.T, s *Store, step runs.Step) {
			finishRun(t, s, step.Run, runs.Failed)
			beginRun(t, s, "run-2")
		}, false},
		"another run takes its place": {func(t *testing.T, s *Store, step runs.Step) {
			finishRun(t, s, step.Run, runs.Failed)
			supersede(t, s, step.Run)
		}, true},
		"its step lets go": {func(t *testing.T, s *Store, step runs.Step) {
			update(t, s, func(tx *store.Tx) error { return runs.Release(tx, step.ID) })
		}, false},
	}
	words := map[string]struct {
		scan       runs.Scan
		held, rest outlier.Credits // while the run may go on
	}{
		"it is adopted":        {runs.Scan{State: runs.ScanRunning, ScanID: scanA}, 60, 10},
		"it was never created": {runs.Scan{State: runs.ScanNotCreated}, 0, 0},
	}
	for end, e := range ends {
		for word, w := range words {
			t.Run(end+", and "+word, func(t *testing.T) {
				s := hasty(t, open(t, t.TempDir()))
				step, intent := begin(t, s)
				lead(t, s, step, intent, runs.ScanUnknown)
				e.do(t, s, step)
				checkHold(t, s, step.ID, 10)
				checkHeld(t, s, month(), 60)
				checkBooks(t, s)

				if _, err := s.Runs.SettleScan(intent, w.scan); err != nil {
					t.Fatal(err)
				}
				if e.over {
					w.held, w.rest = w.held-w.rest, 0
				}
				checkHold(t, s, step.ID, w.rest)
				checkHeld(t, s, month(), w.held)
				checkBooks(t, s)
			})
		}
	}
}

func finishRun(t testing.TB, s *Store, run string, status runs.Status) {
	t.Helper()
	if err := s.Finish(runs.Run{ID: run, Status: status}); err != nil {
		t.Fatal(err)
	}
}

func supersede(t testing.TB, s *Store, run string) {
	t.Helper()
	rows, err := s.Runs.List("", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(rows, func(r runs.Run) bool { return r.ID == run })
	if err := s.Supersede(rows[at]); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseItselfKeepsTheHoldOfAScanThatNobodyKnowsOf(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	step, intent := begin(t, s)
	lead(t, s, step, intent, runs.ScanUnknown)
	wantText(t, shell(t, s, `UPDATE holds SET open = 0`), "nobody knows yet")
	checkHold(t, s, step.ID, 10)
}

func TestHoldNeedsAStep(t *testing.T) {
	s := hasty(t, open(t, t.TempDir()))
	p := capped(100)
	p.Hold = 10
	_, err := s.Ledger.Meter(p).Reserve(t.Context(), searchRequest("0"))
	wantText(t, err, "belongs to a step")
}

func TestDatabaseItselfKeepsHolds(t *testing.T) {
	hold := func(values string) string {
		return `INSERT INTO holds (attempt, run, step, account, day, cycle, amount, made_at, open) SELECT ` + values + ` FROM attempts WHERE state = 'reserved'`
	}
	for name, c := range map[string]struct{ statement, refusal string }{
		"changing an amount":             {`UPDATE holds SET amount = 1`, "terms of a hold are fixed"},
		"moving to another day":          {`UPDATE holds SET day = '2001-01-01'`, "terms of a hold are fixed"},
		"deleting a hold":                {`DELETE FROM holds`, "a hold is kept"},
		"opening it again":               {`UPDATE holds SET open = 0; UPDATE holds SET open = 1`, "stays so"},
		"a hold for another step":        {hold(`id, run, 9, account, day, cycle, 1, 0, 1`), "same periods"},
		"a second hold of a step":        {hold(`id, run, step, account, day, cycle, 1, 0, 1`), "UNIQUE"},
		"a hold for another day":         {hold(`id, run, step, account, '2001-01-01', cycle, 1, 0, 1`), "same periods"},
		"a hold of a settled attempt":    {`INSERT INTO holds SELECT 9, id, run, step, account, day, cycle, 1, 0, 1 FROM attempts WHERE state = 'charged'`, "together with a reservation"},
		"drawing more than it has":       {drawing(`11`, `1`), "does not cover"},
		"drawing from none":              {drawing(`2`, `7`), "does not cover"},
		"drawing what was drawn already": {drawing(`6`, `1`) + `;` + drawing(`6`, `1`), "does not cover"},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := scanned(t)
			reserve(t, s, ledger.Purchase{Run: step.Run, Job: "ideas", Step: step.ID}, searchRequest("1"))
			wantText(t, shell(t, s, c.statement), c.refusal)
			checkBooks(t, s)
		})
	}
}

// drawing is a statement that takes a price out of a hold.
func drawing(price, hold string) string {
	return `INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, hold,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		SELECT run, job, account, step, 'search', '', '', 1, ` + price + `, 'reserved', day, cycle, '', ` + hold + `, 0, 0, 0, 0, 0, 0, '' FROM attempts WHERE op = 'start_scan'`
}
