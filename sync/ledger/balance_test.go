package ledger_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// A balance has the spent, reserved, unknown, adjusted and refunded credits of its period.
func TestBalanceSumsPeriodByOutcome(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Buy(t, s, statetest.Capped(100), statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
	statetest.Buy(t, s, statetest.Capped(100), statetest.Lost(statetest.SearchRequest("1")), outlier.Unknown)
	statetest.Buy(t, s, statetest.Capped(100), statetest.ErrorTo(statetest.SearchRequest("2"), 500, outlier.Failed), outlier.Refunded)
	statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("3"))
	if err := s.Ledger.Adjust(7, "a search by hand"); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger.Adjust(-3, "a voucher"); err != nil {
		t.Fatal(err)
	}
	want := ledger.Balance{Spent: 2, Reserved: 2, Unknown: 2, Adjusted: 4, Refunded: 2}
	got, err := s.Ledger.Balance(statetest.Month())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	statetest.CheckHeld(t, s, statetest.Month(), got.Held())

	want.Adjusted = 0 // elsewhere was spent in the cycle, and not by this job
	got, err = s.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle("ideas", statetest.Month().Period)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of the job: -want +got:\n%s", diff)
	}
	adjustments, err := s.Ledger.Adjustments(statetest.Month().Period)
	if err != nil {
		t.Fatal(err)
	}
	if len(adjustments) != 2 || adjustments[0].Credits != 7 || adjustments[1].Why != "a voucher" || adjustments[0].At.IsZero() {
		t.Errorf("adjustments %+v", adjustments)
	}
}

// TestExtraCreditsAddRoomOnly: credits bought in addition can be spent, and never make the taken credits
// negative.
func TestExtraCreditsAddRoomOnly(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	spend := func(most outlier.Credits) error {
		t.Helper()
		_, err := s.Ledger.Meter(statetest.Capped(most)).Reserve(t.Context(), statetest.SearchRequest("0"))
		return err
	}
	for _, step := range []struct{ adjust, taken, bought outlier.Credits }{
		{-10, 0, 10}, {4, 0, 6}, {7, 1, 0}, {-1, 0, 0}, {-3, 0, 3},
	} {
		if err := s.Ledger.Adjust(step.adjust, "a test"); err != nil {
			t.Fatal(err)
		}
		b, err := s.Ledger.Balance(statetest.Month())
		if err != nil || b.Taken() != step.taken || b.Bought() != step.bought || b.Held() != step.taken-step.bought {
			t.Errorf("after %+d: %d taken, %d bought, %d held (%v), want %d and %d", step.adjust, b.Taken(), b.Bought(), b.Held(), err, step.taken, step.bought)
		}
	}
	if err := spend(0); err != nil { // of the 3 that were bought
		t.Error(err)
	}
	err := spend(0)
	if refused, ok := errors.AsType[*ledger.Exceeded](err); !ok || refused.Held != 2 || refused.Bought != 3 {
		t.Errorf("refused with %+v", err)
	}
	statetest.WantText(t, err, "2 of 0 credits (plus 3 bought in addition) are held and this call costs 2")
	statetest.CheckHeld(t, s, statetest.Month(), -1)
	statetest.CheckBooks(t, s)
}

// pageCalls returns the calls for page one of the step.
func pageCalls(s *state.Store) (calls []ledger.Call, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		calls, err = ledger.CallsOfPage(tx, "run-1", 1, 0)
		return err
	})
	return calls, err
}

// TestLaterAnswerGivesNothingBack: the request whose answer was lost is made again, and both attempts count.
func TestLaterAnswerGivesNothingBack(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	run := runs.Run{ID: "run-1", Job: "ideas", Status: runs.Running}
	if err := s.Runs.Begin(run, nil); err != nil {
		t.Fatal(err)
	}
	other := statetest.Lost(statetest.SearchRequest("1"))
	p := statetest.Capped(100)
	p.Step = 1
	statetest.Buy(t, s, p, statetest.Lost(statetest.SearchRequest("0")), outlier.Unknown)
	statetest.Buy(t, s, p, other, outlier.Unknown)
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
	calls, err := pageCalls(s)
	if err != nil {
		t.Fatal(err)
	}
	if part, all, err := s.Calls.PartOfRun(calls[0].Run, 1, 1); err != nil || all != 3 || len(part) != 1 || part[0].ID != calls[0].ID+1 {
		t.Errorf("the second of %d calls is %+v (%v), want that of 3 which follows the first", all, part, err)
	}
	var told []any
	for _, c := range calls {
		told = append(told, []any{c.Outcome, c.Response})
	}
	want := []any{[]any{outlier.Unknown, int64(0)}, []any{outlier.Charged, int64(1)}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err := s.Ledger.Balance(statetest.Month())
	if err != nil || got.Unknown != 4 || got.Held() != 6 {
		t.Errorf("balance %+v, error %v; an answer gives nothing back", got, err)
	}
}

// TestTruncatedAnswerIsJournaled: the part that arrived is a row of its own, beside that of the repeated
// call.
func TestTruncatedAnswerIsJournaled(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	cut := statetest.Lost(statetest.SearchRequest("0"))
	cut.Status, cut.Body = 200, []byte(`{"hi`)
	p := statetest.Capped(100)
	p.Step = 1
	statetest.Buy(t, s, p, cut, outlier.Unknown)
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("0"), `{"hits":[]}`), outlier.Charged)
	calls, err := pageCalls(s)
	if err != nil || calls[0].Response != 1 || calls[1].Response != 2 {
		t.Errorf("calls %+v, error %v", calls, err)
	}
}
