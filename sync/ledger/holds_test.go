package ledger_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestReadingDrawsTheHoldDown(t *testing.T) {
	t.Parallel()
	s, step := statetest.Scanned(t)
	for _, want := range []outlier.Credits{8, 6, 4, 2, 0} {
		statetest.Buy(t, s, statetest.Reading(step, 60), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
		statetest.CheckHold(t, s, step.ID, want)
		statetest.CheckHeld(t, s, statetest.Month(), 60)
		statetest.CheckBooks(t, s)
	}
	_, err := s.Ledger.Meter(statetest.Reading(step, 61)).Reserve(t.Context(), statetest.SearchRequest("0"))
	if refusal, ok := errors.AsType[*ledger.Exceeded](err); !ok || refusal.Held != 60 || refusal.Hold != 0 {
		t.Errorf("beyond the hold: %v, want an ordinary refusal", err)
	}
	statetest.Buy(t, s, statetest.Reading(step, 62), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	statetest.CheckHeld(t, s, statetest.Month(), 62)
	if spend, err := s.Ledger.Spent(step.Run); err != nil || spend.Charged != 62 || spend.Held != 0 {
		t.Errorf("spent %+v (%v)", spend, err)
	}
}

func TestReadingFromHoldIgnoresCaps(t *testing.T) {
	t.Parallel()
	s, step := statetest.Scanned(t)
	for _, most := range []outlier.Credits{60, 20, 0} { // caps are lowered meanwhile
		other := statetest.Capped(most)
		if _, err := s.Ledger.Meter(other).Reserve(t.Context(), statetest.SearchRequest("0")); err == nil {
			t.Errorf("another call fits under a cap of %d", most)
		}
		statetest.Buy(t, s, statetest.Reading(step, most), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
		statetest.CheckHeld(t, s, statetest.Month(), 60)
	}
	statetest.CheckHold(t, s, step.ID, 4)
}

// Reading a scan counts for the day and the caps of its start, even weeks later.
func TestReadingCountsOnScanDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
		step, intent := statetest.Begin(t, s)
		statetest.Lead(t, s, step, intent, runs.ScanRunning)
		first := ledger.Day(time.Now(), time.UTC)
		time.Sleep(40 * 24 * time.Hour)
		var asked time.Time
		p := statetest.Reading(step, 100)
		p.Caps = func(now time.Time) []ledger.Cap {
			asked = now
			return []ledger.Cap{{Scope: ledger.ScopeDay, Period: ledger.Day(now, time.UTC), Max: 1}}
		}
		statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
		if got := ledger.Day(asked, time.UTC); got != first {
			t.Errorf("caps were asked for %s, want %s", got, first)
		}
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: first}, 60)
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(time.Now(), time.UTC)}, 0)
		statetest.CheckBooks(t, s)
	})
}

// A refund of reading goes back to the hold of its scan, unless the hold was released.
func TestRefundedReadingReturnsToHold(t *testing.T) {
	t.Parallel()
	s, step := statetest.Scanned(t)
	limited := statetest.ErrorTo(statetest.SearchRequest("0"), http.StatusTooManyRequests, outlier.Limited)
	statetest.Buy(t, s, statetest.Reading(step, 60), limited, outlier.Refunded)
	statetest.CheckHold(t, s, step.ID, 10)
	statetest.CheckHeld(t, s, statetest.Month(), 60)

	late := statetest.Reserve(t, s, statetest.Reading(step, 60), statetest.SearchRequest("0"))
	if err := late.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.CheckHold(t, s, step.ID, 8)
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Release(tx, step.ID) })
	statetest.CheckHeld(t, s, statetest.Month(), 52)
	if err := late.Settle(limited, outlier.Refunded); err != nil {
		t.Fatal(err)
	}
	statetest.CheckHold(t, s, step.ID, 0)
	statetest.CheckHeld(t, s, statetest.Month(), 50)
	statetest.CheckBooks(t, s)
}

// A hold that does not cover the price is left as it is, and another run cannot draw from it.
func TestInsufficientHoldIsUntouched(t *testing.T) {
	t.Parallel()
	s, step := statetest.Scanned(t)
	dear := statetest.SearchFor("0", 11)
	statetest.Buy(t, s, statetest.Reading(step, 71), statetest.AnswerTo(dear, `{}`), outlier.Charged)
	statetest.CheckHold(t, s, step.ID, 10)
	statetest.CheckHeld(t, s, statetest.Month(), 71)

	other := statetest.Reading(step, 71)
	other.Run = "run-2"
	if _, err := s.Ledger.Meter(other).Reserve(t.Context(), statetest.SearchRequest("0")); err == nil {
		t.Error("another run draws from the hold")
	}
	statetest.CheckBooks(t, s)
}

func TestHoldIsReleased(t *testing.T) {
	t.Parallel()
	finish := func(status runs.Status) func(*testing.T, *state.Store, runs.Step) {
		return func(t *testing.T, s *state.Store, step runs.Step) { statetest.FinishRun(t, s, step.Run, status) }
	}
	for name, c := range map[string]struct {
		do   func(*testing.T, *state.Store, runs.Step)
		rest outlier.Credits
	}{
		"by hand, and again": {func(t *testing.T, s *state.Store, step runs.Step) {
			for range 2 {
				statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Release(tx, step.ID) })
			}
		}, 0},
		"with its run":                    {finish(runs.Partial), 0},
		"not with a run that may go on":   {finish(runs.PausedBudget), 8},
		"not with a run that failed":      {finish(runs.Failed), 8},
		"not with a run that was stopped": {finish(runs.Running), 8},
		"not when another run begins": {func(t *testing.T, s *state.Store, step runs.Step) {
			finish(runs.PausedBudget)(t, s, step)
			statetest.BeginRun(t, s, "run-2")
		}, 8},
		"when another run takes its place": {func(t *testing.T, s *state.Store, step runs.Step) {
			finish(runs.PausedBudget)(t, s, step)
			statetest.Supersede(t, s, step.Run)
		}, 0},
		"not by a release elsewhere": {func(t *testing.T, s *state.Store, step runs.Step) {
			statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Release(tx, step.ID+1) })
		}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := statetest.Scanned(t)
			statetest.Buy(t, s, statetest.Reading(step, 60), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
			c.do(t, s, step)
			statetest.CheckHold(t, s, step.ID, c.rest)
			statetest.CheckHeld(t, s, statetest.Month(), 52+c.rest)
			statetest.CheckBooks(t, s)
		})
	}
}

// TestUnconfirmedScanHoldOutlivesRun: an unknown price counts as spent, and so does the price of reading,
// until a user has checked.
func TestUnconfirmedScanHoldOutlivesRun(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		do   func(*testing.T, *state.Store, runs.Step)
		over bool // the run cannot go on, so what is adopted is not read
	}{
		"its run ends": {func(t *testing.T, s *state.Store, step runs.Step) { statetest.FinishRun(t, s, step.Run, runs.Partial) }, true},
		"its run is interrupted": {func(t *testing.T, s *state.Store, step runs.Step) {
			statetest.FinishRun(t, s, step.Run, runs.Interrupted)
		}, false},
		"its run fails": {func(t *testing.T, s *state.Store, step runs.Step) { statetest.FinishRun(t, s, step.Run, runs.Failed) }, false},
		"another run begins": {func(t *testing.T, s *state.Store, step runs.Step) {
			statetest.FinishRun(t, s, step.Run, runs.Failed)
			statetest.BeginRun(t, s, "run-2")
		}, false},
		"another run takes its place": {func(t *testing.T, s *state.Store, step runs.Step) {
			statetest.FinishRun(t, s, step.Run, runs.Failed)
			statetest.Supersede(t, s, step.Run)
		}, true},
		"its step lets go": {func(t *testing.T, s *state.Store, step runs.Step) {
			statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Release(tx, step.ID) })
		}, false},
	}
	words := map[string]struct {
		scan       runs.Scan
		held, rest outlier.Credits // while the run may go on
	}{
		"it is adopted":        {runs.Scan{State: runs.ScanRunning, ScanID: statetest.ScanA}, 60, 10},
		"it was never created": {runs.Scan{State: runs.ScanNotCreated}, 0, 0},
	}
	for end, e := range ends {
		for word, w := range words {
			t.Run(end+", and "+word, func(t *testing.T) {
				s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
				step, intent := statetest.Begin(t, s)
				statetest.Lead(t, s, step, intent, runs.ScanUnknown)
				e.do(t, s, step)
				statetest.CheckHold(t, s, step.ID, 10)
				statetest.CheckHeld(t, s, statetest.Month(), 60)
				statetest.CheckBooks(t, s)

				if _, err := s.Scans.Settle(intent, w.scan); err != nil {
					t.Fatal(err)
				}
				if e.over {
					w.held, w.rest = w.held-w.rest, 0
				}
				statetest.CheckHold(t, s, step.ID, w.rest)
				statetest.CheckHeld(t, s, statetest.Month(), w.held)
				statetest.CheckBooks(t, s)
			})
		}
	}
}

// The database itself refuses to release the hold of an unconfirmed scan.
func TestDatabaseProtectsUnconfirmedScanHold(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	step, intent := statetest.Begin(t, s)
	statetest.Lead(t, s, step, intent, runs.ScanUnknown)
	statetest.WantText(t, statetest.Shell(t, s, `UPDATE attempts SET holding = 0`), "is not confirmed")
	statetest.CheckHold(t, s, step.ID, 10)
}

func TestHoldNeedsAStep(t *testing.T) {
	t.Parallel()
	s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
	p := statetest.Capped(100)
	p.Hold = 10
	_, err := s.Ledger.Meter(p).Reserve(t.Context(), statetest.SearchRequest("0"))
	statetest.WantText(t, err, "belongs to a step")
}

func TestDatabaseItselfKeepsHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, refusal string }{
		"changing an amount":             {`UPDATE attempts SET aside = 1`, "terms of an attempt are fixed"},
		"moving to another day":          {`UPDATE attempts SET day = '2001-01-01' WHERE holding`, "terms of an attempt are fixed"},
		"deleting a hold":                {`DELETE FROM attempts WHERE holding`, "a paid attempt is kept"},
		"opening it again":               {`UPDATE attempts SET holding = 0; UPDATE attempts SET holding = 1 WHERE aside > 0`, "stays so"},
		"holding nothing":                {`UPDATE attempts SET holding = 1 WHERE aside = 0`, "stays so"},
		"a second hold of a step":        {holding(`step`, `'reserved'`), "UNIQUE"},
		"a hold without a step":          {holding(`0`, `'reserved'`), "CHECK"},
		"a hold of a settled attempt":    {holding(`9`, `'charged'`), "begins as reserved"},
		"drawing more than it has":       {drawing(`11`, `1`), "does not cover"},
		"drawing from none":              {drawing(`2`, `7`), "does not cover"},
		"drawing what was drawn already": {drawing(`6`, `1`) + `;` + drawing(`6`, `1`), "does not cover"},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := statetest.Scanned(t)
			statetest.Reserve(t, s, ledger.Purchase{Run: step.Run, Job: "ideas", Step: step.ID}, statetest.SearchRequest("1"))
			statetest.WantText(t, statetest.Shell(t, s, c.statement), c.refusal)
			statetest.CheckBooks(t, s)
		})
	}
}

// drawing is a statement that takes a price out of a hold.
func drawing(price, hold string) string {
	return `INSERT INTO attempts (run, job, account, step, op, entity, params, attempt, price, state, day, cycle, caps, hold,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		SELECT run, job, account, step, 'search', '', '', 1, ` + price + `, 'reserved', day, cycle, '', ` + hold + `, 0, 0, 0, 0, 0, 0, '' FROM attempts WHERE op = 'start_scan'`
}

// holding is a statement that inserts an attempt with a hold.
func holding(step, state string) string {
	return `INSERT INTO attempts (op, step, state, day, cycle, caps, reserved_at, aside, holding)
		SELECT 'search', ` + step + `, ` + state + `, day, cycle, '', 0, 1, 1 FROM attempts WHERE op = 'start_scan'`
}
