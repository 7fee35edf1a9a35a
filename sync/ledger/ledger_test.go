package ledger_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestReservationBeyondCapIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	day, cycle := ledger.Day(now, time.UTC), ledger.Cycle(now, time.UTC, 1)
	for _, c := range []ledger.Cap{
		{Scope: ledger.ScopeRun, Period: "run-1", Max: 5},
		{Scope: ledger.ScopeJobMonth, Period: "ideas/" + cycle, Max: 5},
		{Scope: ledger.ScopeDay, Period: day, Max: 5},
		{Scope: ledger.ScopeMonth, Period: cycle, Max: 5},
	} {
		t.Run(string(c.Scope), func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			p := ledger.Purchase{Run: "run-1", Job: "ideas", Caps: func(time.Time) []ledger.Cap { return []ledger.Cap{c} }}
			request := statetest.SearchRequest("0")
			statetest.Buy(t, s, p, statetest.AnswerTo(request, `{}`), outlier.Charged)
			statetest.Buy(t, s, p, statetest.AnswerTo(request, `{}`), outlier.Charged)
			_, err := s.Ledger.Meter(p).Reserve(t.Context(), request)
			refusal, ok := errors.AsType[*ledger.Exceeded](err)
			if !ok {
				t.Fatalf("the third call got %v, want a refusal", err)
			}
			if want := (ledger.Exceeded{Cap: c, Held: 4, Price: 2}); *refusal != want {
				t.Errorf("refused with %+v, want %+v", *refusal, want)
			}
			statetest.CheckHeld(t, s, c, 4)
		})
	}
}

// The database itself refuses an attempt that would pass a cap.
func TestDatabaseEnforcesCaps(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Buy(t, s, statetest.Capped(3), statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
	insert := `INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		SELECT run, job, step, op, entity, params, attempt, price, 'reserved', day, cycle, '[]', reserved_at, 0, 0, 0, 0, 0, '' FROM attempts`
	statetest.WantText(t, statetest.Shell(t, s, insert), "cap exceeded")
	statetest.CheckHeld(t, s, statetest.Month(), 2)
}

func TestDatabaseItselfKeepsTheBooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, refusal string }{
		"deleting a paid attempt":      {`DELETE FROM attempts`, "is kept"},
		"moving to another time":       {`UPDATE attempts SET counts_at = 1`, "time for which an attempt counts"},
		"changing a price":             {`UPDATE attempts SET price = 0`, "fixed"},
		"moving to another day":        {`UPDATE attempts SET day = '2001-01-01'`, "fixed"},
		"settling again":               {`UPDATE attempts SET state = 'refunded' WHERE state = 'charged'`, "settled once"},
		"refunding without proof":      {`UPDATE attempts SET state = 'refunded', http_status = 200 WHERE state = 'sending'`, "proof"},
		"charging what was never sent": {`UPDATE attempts SET state = 'charged' WHERE state = 'reserved'`, "settled once"},
		"beginning as charged": {`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at,
			sent_at, settled_at, waited, http_status, bytes, error) VALUES ('', '', 0, '', '', '', 1, 2, 'charged', 'd', 'c', '', 0, 0, 0, 0, 0, 0, '')`, "begins as reserved"},
		"a negative price": {`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at,
			sent_at, settled_at, waited, http_status, bytes, error) VALUES ('', '', 0, '', '', '', 1, -2, 'reserved', 'd', 'c', '', 0, 0, 0, 0, 0, 0, '')`, "CHECK"},
		"changing an answer": {`UPDATE responses SET body = x'00'`, "never changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			p, request := statetest.Capped(100), statetest.SearchRequest("0")
			statetest.Buy(t, s, p, statetest.AnswerTo(request, `{}`), outlier.Charged)
			statetest.Reserve(t, s, p, request)
			sending := statetest.Reserve(t, s, p, request)
			if err := sending.Sending(); err != nil {
				t.Fatal(err)
			}
			statetest.WantText(t, statetest.Shell(t, s, c.statement), c.refusal)
			statetest.CheckHeld(t, s, statetest.Month(), 6)
		})
	}
}

func TestOutcomeDecidesWhatStaysHeld(t *testing.T) {
	t.Parallel()
	request := statetest.SearchRequest("0")
	for name, c := range map[string]struct {
		answer  *outlier.Answer
		outcome outlier.Outcome
		held    outlier.Credits
		spend   ledger.Spend
	}{
		"charged":  {statetest.AnswerTo(request, `{}`), outlier.Charged, 2, ledger.Spend{Charged: 2, Requests: 1}},
		"refunded": {statetest.ErrorTo(request, http.StatusBadRequest, outlier.Invalid), outlier.Refunded, 0, ledger.Spend{Refunded: 2, Requests: 1}},
		"unknown":  {statetest.Lost(request), outlier.Unknown, 2, ledger.Spend{Unknown: 2, Requests: 1}},
		"unsent":   {&outlier.Answer{Request: request, Err: &outlier.Error{Kind: outlier.Unsent}}, outlier.Refunded, 0, ledger.Spend{Refunded: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			statetest.Buy(t, s, statetest.Capped(100), c.answer, c.outcome)
			statetest.CheckHeld(t, s, statetest.Month(), c.held)
			got, err := s.Ledger.Spent("run-1")
			if err != nil {
				t.Fatal(err)
			}
			if got != c.spend {
				t.Errorf("spent %+v, want %+v", got, c.spend)
			}
		})
	}
}

func TestLostAnswerRefundNeedsProof(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	a := statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("0"))
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	statetest.WantText(t, a.Settle(statetest.Lost(statetest.SearchRequest("0")), outlier.Refunded), "proof")
	statetest.CheckHeld(t, s, statetest.Month(), 2)
}

func TestAttemptIsSettledOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, request := range []*outlier.Request{statetest.SearchRequest("0"), statetest.DetailsRequest("video-00001")} {
		a := statetest.Reserve(t, s, ledger.Purchase{}, request)
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(statetest.AnswerTo(request, `{}`), outlier.Charged); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(statetest.AnswerTo(request, `{}`), outlier.Charged); err == nil || !strings.Contains(err.Error(), "settled before") {
			t.Errorf("%s was settled twice: %v", request.Op(), err)
		}
	}
	if got := len(statetest.Entries(t, s, 0)); got != 2 {
		t.Errorf("%d answers are kept, want 2", got)
	}
}

// TestTextThatIsCutStaysText: the cut falls within a letter.
func TestTextThatIsCutStaysText(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	long := "x" + strings.Repeat("é", statetest.MaxErrorText)
	task := queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "ideas"}
	statetest.Enqueue(t, s, task)
	statetest.Update(t, s, func(tx *store.Tx) error {
		if err := ledger.SetBlock(tx, ledger.BlockKey, "key", long, time.Time{}); err != nil {
			return err
		}
		return queue.Fail(tx, task, time.Now(), long, time.Time{})
	})
	if err := s.Ledger.Adjust(1, long); err != nil {
		t.Fatal(err)
	}
	block, err := s.Blocks.Get(ledger.BlockKey, "key")
	if err != nil {
		t.Fatal(err)
	}
	waiting := statetest.Listed(t, s, queue.Filter{})
	adjusted, err := s.Ledger.Adjustments(statetest.Month().Period)
	if err != nil {
		t.Fatal(err)
	}
	want := "x" + strings.Repeat("é", (statetest.MaxErrorText-1)/2)
	for name, got := range map[string]string{"block": block.Reason, "task": waiting[0].Reason, "adjustment": adjusted[0].Why, "error": store.Bounded(long)} {
		if got != want {
			t.Errorf("%s: %d bytes, ending in %q", name, len(got), got[max(0, len(got)-4):])
		}
	}
}

// Changed caps apply at once, and earlier spending counts for them.
func TestChangedCapsApplyAtOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	request := statetest.SearchRequest("0")
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, statetest.AnswerTo(request, `{}`), outlier.Charged)
	statetest.Buy(t, s, statetest.Capped(4), statetest.AnswerTo(request, `{}`), outlier.Charged)
	if _, err := s.Ledger.Meter(statetest.Capped(5)).Reserve(t.Context(), request); err == nil {
		t.Error("a cap of 5 let 6 credits through: what was spent before it was set is not counted")
	}
	statetest.Buy(t, s, statetest.Capped(6), statetest.AnswerTo(request, `{}`), outlier.Charged)
	if _, err := s.Ledger.Meter(statetest.Capped(1)).Reserve(t.Context(), request); err == nil {
		t.Error("a cap below what is held let a call through")
	}
	statetest.Buy(t, s, ledger.Purchase{Run: "run-1", Job: "ideas"}, statetest.AnswerTo(request, `{}`), outlier.Charged)
	statetest.CheckHeld(t, s, statetest.Month(), 8)
}

// TestRowKeepsPriceCapsAndPeriods in force at the call, whatever the job file says later.
func TestRowKeepsPriceCapsAndPeriods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, o := t.TempDir(), statetest.Options()
		of := func(most outlier.Credits, reserve outlier.Credits) ledger.Purchase {
			return ledger.Purchase{Run: "run-1", Job: "ideas", Caps: func(at time.Time) (caps []ledger.Cap) {
				for _, p := range ledger.Periods("run-1", "ideas", ledger.Day(at, o.Location), ledger.Cycle(at, o.Location, o.Renews)) {
					most++
					caps = append(caps, ledger.Cap{Scope: p.Scope, Period: p.Key, Max: most})
				}
				caps[1].Reserve = reserve // of the cycle
				return caps
			}}
		}
		spend := func(price outlier.Credits, p ledger.Purchase) {
			s, err := state.Open(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			request := statetest.SearchFor("0", price)
			statetest.Buy(t, s, p, statetest.AnswerTo(request, `{}`), outlier.Charged)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Hour) // the 1st of January, which is the 2nd five hours to the east
		o.Location, o.Renews = time.UTC, 1
		spend(2, of(100, 5))
		o.Location, o.Renews = time.FixedZone("far", 5*3600), 2
		spend(3, of(50, 0))

		s := statetest.OpenWith(t, dir, o)
		for name, want := range map[string][]any{
			"price": {int64(2), int64(3)}, "day": {"2000-01-01", "2000-01-02"}, "month": {"2000-01-01", "2000-01-02"},
			"cap_day": {int64(101), int64(51)}, "cap_month": {int64(102), int64(52)}, "cap_job_month": {int64(103), int64(53)},
			"cap_run": {int64(104), int64(54)}, "reserve": {int64(5), nil},
		} {
			if got := statetest.Column(t, s, "ops.credits", name, 0); !gocmp.Equal(got, want) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

func TestCapForAnotherPeriodIsRefused(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	p := ledger.Purchase{Caps: func(time.Time) []ledger.Cap {
		return []ledger.Cap{{Scope: ledger.ScopeMonth, Period: "1999-01-01", Max: 10}}
	}}
	_, err := s.Ledger.Meter(p).Reserve(t.Context(), statetest.SearchRequest("0"))
	statetest.WantText(t, err, "1999-01-01", "cannot hold")
}

// An adjustment changes the credits that remain in the cycle.
func TestAdjustmentChangesRemainingCredits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	adjust := func(credits outlier.Credits, why string) {
		t.Helper()
		if err := s.Ledger.Adjust(credits, why); err != nil {
			t.Fatal(err)
		}
	}
	fits := func(want bool) {
		t.Helper()
		a, err := s.Ledger.Meter(statetest.Capped(4)).Reserve(t.Context(), statetest.SearchRequest("0"))
		if (err == nil) != want {
			t.Errorf("a call for 2 under a cap of 4 got %v", err)
		}
		if err == nil {
			if err := a.Settle(&outlier.Answer{Request: statetest.SearchRequest("0")}, outlier.Refunded); err != nil {
				t.Error(err)
			}
		}
	}
	adjust(3, "spent in the browser") // before anything else in the cycle
	fits(false)
	statetest.CheckHeld(t, s, statetest.Month(), 3)
	adjust(-1, "it was 2")
	fits(true)
	adjust(900, "spent in the browser") // beyond the cap: it is a fact
	statetest.CheckHeld(t, s, statetest.Month(), 902)
	adjust(-1000, "bought on top")
	statetest.CheckHeld(t, s, statetest.Month(), -98)
	fits(true)
	statetest.WantText(t, s.Ledger.Adjust(0, "nothing"), "an amount and a reason")
	statetest.WantText(t, s.Ledger.Adjust(1, ""), "an amount and a reason")

	got := statetest.Column(t, s, "ops.credits", "price", 0)
	if diff := gocmp.Diff([]any{int64(3), int64(-1), int64(2), int64(900), int64(-1000), int64(2)}, got); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
	if got := statetest.Column(t, s, "ops.requests", "operation", 0); len(got) != 2 {
		t.Errorf("adjustments are taken for requests: %v", got)
	}
	statetest.WantText(t, statetest.Shell(t, s, `DELETE FROM attempts WHERE op = 'adjustment'`), "is kept")
	statetest.WantText(t, statetest.Shell(t, s, `UPDATE attempts SET adjustment = 0`), "fixed")
	statetest.CheckBooks(t, s)
}

// Low disk space refuses paid and free calls alike.
func TestLowSpaceRefusesCalls(t *testing.T) {
	t.Parallel()
	free := uint64(1 << 40)
	o := statetest.Options()
	o.FreeSpace = func(string) (uint64, error) { return free, nil }
	s := statetest.OpenWith(t, t.TempDir(), o)
	free = o.MinFree - 1
	for _, request := range []*outlier.Request{statetest.SearchRequest("0"), statetest.DetailsRequest("video-00001")} {
		_, err := s.Ledger.Meter(ledger.Purchase{}).Reserve(t.Context(), request)
		if _, ok := errors.AsType[*store.LowSpaceError](err); !ok {
			t.Errorf("%s: got %v, want a LowSpaceError", request.Op(), err)
		}
	}
	free = 1 << 40
	statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
}
