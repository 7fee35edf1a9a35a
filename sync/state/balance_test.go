package state

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func TestBalanceTellsWhatBecameOfThePeriod(t *testing.T) {
	s := open(t, t.TempDir())
	buy(t, s, capped(100), answerTo(searchRequest("0"), `{"hits":[]}`), outlier.Charged)
	buy(t, s, capped(100), lost(searchRequest("1")), outlier.Unknown)
	buy(t, s, capped(100), errorTo(searchRequest("2"), 500, outlier.Failed), outlier.Refunded)
	reserve(t, s, capped(100), searchRequest("3"))
	if err := s.Ledger.Adjust(7, "a search by hand"); err != nil {
		t.Fatal(err)
	}
	if err := s.Ledger.Adjust(-3, "a voucher"); err != nil {
		t.Fatal(err)
	}
	want := ledger.Balance{Spent: 2, Reserved: 2, Unknown: 2, Adjusted: 4, Refunded: 2}
	got, err := s.Ledger.Balance(month())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	checkHeld(t, s, month(), got.Held())

	want.Adjusted = 0 // elsewhere was spent in the cycle, and not by this job
	got, err = s.Ledger.Balance(ledger.Cap{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle("ideas", month().Period)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of the job: -want +got:\n%s", diff)
	}
	adjustments, err := s.Ledger.Adjustments(month().Period)
	if err != nil {
		t.Fatal(err)
	}
	if len(adjustments) != 2 || adjustments[0].Credits != 7 || adjustments[1].Why != "a voucher" || adjustments[0].At.IsZero() {
		t.Errorf("adjustments %+v", adjustments)
	}
}

// TestWhatWasBoughtOnTopIsRoomAndNoDebt: nothing less than nothing is held.
func TestWhatWasBoughtOnTopIsRoomAndNoDebt(t *testing.T) {
	s := open(t, t.TempDir())
	spend := func(most outlier.Credits) error {
		t.Helper()
		_, err := s.Ledger.Meter(capped(most)).Reserve(t.Context(), searchRequest("0"))
		return err
	}
	for _, step := range []struct{ adjust, taken, bought outlier.Credits }{
		{-10, 0, 10}, {4, 0, 6}, {7, 1, 0}, {-1, 0, 0}, {-3, 0, 3},
	} {
		if err := s.Ledger.Adjust(step.adjust, "a test"); err != nil {
			t.Fatal(err)
		}
		b, err := s.Ledger.Balance(month())
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
	wantText(t, err, "2 of 0 credits (and 3 bought on top) are held and this call costs 2")
	checkHeld(t, s, month(), -1)
	checkBooks(t, s)
}

// TestLaterAnswerExplainsAnUnknownOne: the request whose answer was lost is made
// again, and charged.
// pageCalls are the attempts at page one of step 1.
func pageCalls(s *Store) (calls []ledger.Call, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		calls, err = ledger.CallsOfPage(tx, "run-1", 1, 0)
		return err
	})
	return calls, err
}

func TestLaterAnswerExplainsAnUnknownOne(t *testing.T) {
	s := open(t, t.TempDir())
	run := runs.Run{ID: "run-1", Job: "ideas", Status: runs.Running}
	if err := s.Runs.Begin(run, nil); err != nil {
		t.Fatal(err)
	}
	other := lost(searchRequest("1"))
	p := capped(100)
	p.Step = 1
	buy(t, s, p, lost(searchRequest("0")), outlier.Unknown)
	buy(t, s, p, other, outlier.Unknown)
	buy(t, s, p, answerTo(searchRequest("0"), `{"hits":[]}`), outlier.Charged)
	calls, err := pageCalls(s)
	if err != nil {
		t.Fatal(err)
	}
	var told []any
	for _, c := range calls {
		told = append(told, []any{c.Outcome, c.Response, c.Explained})
	}
	want := []any{[]any{outlier.Unknown, int64(1), true}, []any{outlier.Charged, int64(1), false}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err := s.Ledger.Balance(month())
	if err != nil || got.Unknown != 4 || got.Explained != 2 || got.Held() != 6 {
		t.Errorf("balance %+v, error %v; an explanation gives nothing back", got, err)
	}
}

// TestWhatIsLeftOfAnAnswerIsNoExplanation: it is in the journal as what it is.
func TestWhatIsLeftOfAnAnswerIsNoExplanation(t *testing.T) {
	s := open(t, t.TempDir())
	cut := lost(searchRequest("0"))
	cut.Status, cut.Body = 200, []byte(`{"hi`)
	p := capped(100)
	p.Step = 1
	buy(t, s, p, cut, outlier.Unknown)
	buy(t, s, p, answerTo(searchRequest("0"), `{"hits":[]}`), outlier.Charged)
	calls, err := pageCalls(s)
	if err != nil || calls[0].Response != 1 || calls[0].Explained || calls[1].Response != 2 {
		t.Errorf("calls %+v, error %v", calls, err)
	}
}
