package ledger_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func TestPeriodIsFixedAtReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		time.Sleep(24*time.Hour - time.Second) // the bubble begins at midnight
		before := ledger.Day(time.Now(), time.UTC)
		a := statetest.Reserve(t, s, statetest.Capped(100), statetest.SearchRequest("0"))
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		after := ledger.Day(time.Now(), time.UTC)
		if err := a.Settle(statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged); err != nil {
			t.Fatal(err)
		}
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: before}, 2)
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: after}, 0)
	})
}

// tell lets an answer of the service's own tell a time.
func tell(t *testing.T, s *state.Store, at time.Time) {
	t.Helper()
	answer := statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `{"items":[]}`)
	answer.Header.Set("Date", at.UTC().Format(http.TimeFormat))
	statetest.Buy(t, s, ledger.Purchase{}, answer, outlier.Charged)
}

func TestDaysTurnByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		service := time.Now().Add(36 * time.Hour).Truncate(time.Second)
		tell(t, s, service)
		tell(t, s, service) // a date that is far off has to be told twice
		time.Sleep(time.Hour)
		if got, want := s.Clock.Now(), service.Add(time.Hour); !got.Equal(want) {
			t.Errorf("the service's time is %s, want %s", got, want)
		}
		var asked time.Time
		statetest.Reserve(t, s, ledger.Purchase{Caps: func(now time.Time) []ledger.Cap { asked = now; return nil }}, statetest.SearchRequest("0"))
		if !asked.Equal(s.Clock.Now()) {
			t.Errorf("caps were asked for %s, want the service's time %s", asked, s.Clock.Now())
		}
		statetest.CheckHeld(t, s, ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(service, time.UTC)}, 2)
	})
}

// TestDistantDateNeedsConfirmation by a second answer, ahead or behind and however far, and a near one needs
// none.
func TestDistantDateNeedsConfirmation(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct {
		told []time.Duration // of this machine's clock
		want time.Duration   // in the end
	}{
		{[]time.Duration{ledger.Skew - time.Second}, ledger.Skew - time.Second},
		{[]time.Duration{-ledger.Skew + time.Second}, -ledger.Skew + time.Second},
		{[]time.Duration{ledger.Skew + time.Minute}, 0},
		{[]time.Duration{-ledger.Skew - time.Minute}, 0},
		{[]time.Duration{-10 * 365 * day}, 0},
		{[]time.Duration{10 * 365 * day}, 0},
		{[]time.Duration{-30 * day, -30 * day}, -30 * day},
		{[]time.Duration{30 * day, 30*day + time.Minute}, 30*day + time.Minute},
		{[]time.Duration{30 * day, 31 * day}, 0},                              // which do not agree
		{[]time.Duration{30 * day, time.Second, 30 * day}, time.Second},       // as one server of two
		{[]time.Duration{-30 * day, 0, -30 * day, 0, -30 * day}, 0},           //
		{[]time.Duration{30 * day, 30 * day, 0, 30 * day}, 30 * day},          // the same from the other side
		{[]time.Duration{30 * day, 30 * day, time.Second, 0}, 0},              // and it is repaired
		{[]time.Duration{-30 * day, -30 * day, 30 * day, 30 * day}, 30 * day}, //
	} {
		synctest.Test(t, func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			if s.Clock.Agreed() {
				t.Error("the clock is confirmed without a Date of the service")
			}
			machine := time.Now()
			for _, off := range test.told {
				tell(t, s, machine.Add(off))
			}
			if got := s.Clock.Now().Sub(machine); got != test.want {
				t.Errorf("told %v, it is taken to be %v off, want %v", test.told, got, test.want)
			}
		})
	}
}

// TestServiceAnswerSetsClock, but an answer of a gateway or a single date that is far off does not.
func TestServiceAnswerSetsClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		page := statetest.AnswerTo(statetest.DetailsRequest("video-00001"), `<html></html>`)
		page.Own = false
		statetest.Buy(t, s, ledger.Purchase{}, page, outlier.Unknown)
		tell(t, s, time.Now().Add(-time.Hour))
		if s.Clock.Agreed() {
			t.Error("a gateway and one date that is far off have told the time")
		}
		tell(t, s, time.Now().Add(-time.Hour))
		if !s.Clock.Agreed() {
			t.Error("two answers that agree have not told the time")
		}
	})
}

// TestBackwardClockAddsNoBudget: spending dated in the future counts as now, and in its own period when that
// comes.
func TestBackwardClockAddsNoBudget(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, scope := range []ledger.Scope{ledger.ScopeDay, ledger.ScopeMonth} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(40 * day) // the clock is set forward
			s := statetest.Open(t, dir)
			statetest.Buy(t, s, ledger.Purchase{}, statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)
		})
		synctest.Test(t, func(t *testing.T) { // and set right: time begins anew
			s := statetest.Open(t, dir)
			if got := s.Clock.Now(); !got.Equal(time.Now()) {
				t.Errorf("it is %s, and taken for %s", time.Now(), got)
			}
			bought := func(want outlier.Credits) {
				t.Helper()
				if got := exhaust(t, s, scope, 4); got != want {
					t.Errorf("on %s a cap of 4 by %s gave %d credits, want %d", s.Clock.Now().Format(time.DateOnly), scope, got, want)
				}
				statetest.CheckBooks(t, s)
			}
			daily := scope == ledger.ScopeDay
			bought(2)
			time.Sleep(day)
			bought(pick(daily, 2, 0))
			time.Sleep(39*day - 2*time.Hour) // the evening before it is as late as was said
			bought(pick(daily, 2, 2))
			time.Sleep(3 * time.Hour)
			bought(pick(daily, 2, 0))
			time.Sleep(30 * day)
			bought(4)
		})
	}
}

func pick(first bool, a, b outlier.Credits) outlier.Credits {
	if first {
		return a
	}
	return b
}

// TestClockThatFlipsMintsNoBudget: however often a service tells now one time and now
// another, no period gives more than its cap, and the earlier one nothing on top of what
// is dated in the future.
func TestClockThatFlipsMintsNoBudget(t *testing.T) {
	t.Parallel()
	for first, most := range map[int]outlier.Credits{0: 8, 1: 4} { // it begins in January, or in February
		synctest.Test(t, func(t *testing.T) {
			s := statetest.Open(t, t.TempDir())
			bought := outlier.Credits(0)
			for i := range 12 {
				at := time.Now().Add(time.Duration((i+first)%2) * 40 * 24 * time.Hour)
				tell(t, s, at)
				tell(t, s, at)
				bought += exhaust(t, s, ledger.ScopeMonth, 4)
				statetest.CheckBooks(t, s)
			}
			if bought != most {
				t.Errorf("%d credits were spent under a cap of 4 a cycle, want %d", bought, most)
			}
		})
	}
}

// exhaust buys what a cap on the present day or cycle leaves.
func exhaust(t *testing.T, s *state.Store, scope ledger.Scope, most outlier.Credits) (bought outlier.Credits) {
	t.Helper()
	period := func(now time.Time) string {
		if scope == ledger.ScopeDay {
			return ledger.Day(now, time.UTC)
		}
		return ledger.Cycle(now, time.UTC, 1)
	}
	for {
		a, err := s.Ledger.Meter(ledger.Purchase{Caps: func(now time.Time) []ledger.Cap {
			return []ledger.Cap{{Scope: scope, Period: period(now), Max: most}}
		}}).Reserve(t.Context(), statetest.SearchRequest("0"))
		if _, full := errors.AsType[*ledger.Exceeded](err); full {
			return bought
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Sending(), a.Settle(statetest.AnswerTo(statetest.SearchRequest("0"), `{}`), outlier.Charged)); err != nil {
			t.Fatal(err)
		}
		bought += 2
	}
}

// TestForwardClockKeepsQueue: calls that were last requested a week ago expire only when the service's clock
// says so, too.
func TestForwardClockKeepsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		statetest.Enqueue(t, s, queue.Task{Op: outlier.OpComments, Entity: "video-00001", Job: "a", Run: "run-1"})
		asked := time.Now()
		time.Sleep(30 * 24 * time.Hour) // the clock is set
		rows := func() (n int) {
			statetest.Update(t, s, func(tx *store.Tx) error {
				return s.Queue.Expire(tx)
			})
			if _, err := store.Scan(s.DB, []any{&n}, `SELECT count(*) FROM tasks`); err != nil {
				t.Error(err)
			}
			return n
		}
		if rows() != 1 {
			t.Error("the queue was emptied before the service has told its time")
		}
		tell(t, s, asked)
		tell(t, s, asked)
		if rows() != 1 {
			t.Error("the queue was emptied although no week has passed at the service")
		}
		s.Clock.Confirm()
		if rows() != 0 {
			t.Error("what has expired stays queued")
		}
	})
}

// TestFutureDatedKnowledgeIsStale, whether it is an answer or the absence of one.
func TestFutureDatedKnowledgeIsStale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tasks := []queue.Task{
		{Op: outlier.OpDetails, Entity: "video-00001", Job: "a", Run: "run-1", MaxAge: time.Hour},
		{Op: outlier.OpTranscript, Entity: "video-00001", Job: "a", Run: "run-1", MaxAge: time.Hour},
	}
	known := func(s *state.Store) (n int) {
		for _, task := range tasks {
			fresh, err := s.Queue.Fresh(task.Op, []string{task.Entity}, time.Now().Add(-task.MaxAge), time.Now())
			if err != nil {
				t.Error(err)
			}
			n += fresh
		}
		return n
	}
	learn := func(s *state.Store) {
		statetest.Update(t, s, func(tx *store.Tx) error {
			return errors.Join(queue.Done(tx, tasks[0], 0, false, time.Time{}), queue.Done(tx, tasks[1], 0, true, time.Now().Add(24*time.Hour)))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 24 * time.Hour) // the clock is set forward
		s := statetest.Open(t, dir)
		learn(s)
		if n := known(s); n != 2 {
			t.Errorf("%d of 2 answers are fresh", n)
		}
		failed := queue.Task{Op: outlier.OpComments, Entity: "video-00002", Job: "a", Run: "run-1"}
		statetest.Enqueue(t, s, failed)
		statetest.Update(t, s, func(tx *store.Tx) error {
			return queue.Fail(tx, failed, time.Now(), "no answer", time.Now().Add(time.Hour))
		})
		step := statetest.BeginRun(t, s, "run-2")
		statetest.Update(t, s, func(tx *store.Tx) error {
			return tx.Exec(`UPDATE steps SET watermark = 'key', began = ?, pages = 1 WHERE id = ?`, store.Micros(time.Now()), step.ID)
		})
		if at, err := s.Watermarks.LastSearched("ideas", "key"); at.IsZero() || err != nil {
			t.Errorf("it was last searched at %s (%v)", at, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and set right
		s := statetest.Open(t, dir)
		if n := known(s); n != 0 {
			t.Errorf("%d answers from the future are fresh", n)
		}
		if task := statetest.Next(t, s, queue.Filter{}); task == nil || task.Entity != "video-00002" {
			t.Errorf("the next task is %v, want the one that is to wait until February", task)
		}
		statetest.Enqueue(t, s, tasks...)
		if n, err := s.Queue.Queued(queue.Filter{}); n != 3 || err != nil {
			t.Errorf("%d of 3 tasks are queued (%v)", n, err)
		}
		if at, err := s.Watermarks.LastSearched("ideas", "key"); !at.IsZero() || err != nil {
			t.Errorf("it was last searched at %s, which is in the future (%v)", at, err)
		}
		learn(s)
		if n := known(s); n != 2 {
			t.Errorf("%d of 2 answers of today are fresh", n)
		}
	})
}

// TestLiftedBlockKeepsClockConfirmation as it was: to have credits again says nothing of the time.
func TestLiftedBlockKeepsClockConfirmation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := statetest.Open(t, dir)
	given := time.Now().Add(-30 * 24 * time.Hour)
	err := s.DB.Update(func(tx *store.Tx) error {
		return errors.Join(ledger.SetBlock(tx, ledger.BlockClock, "", "who tells the time", given), ledger.SetBlock(tx, ledger.BlockCredits, "key", "no credits", time.Now().Add(time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if lifted, err := s.Blocks.Liftable("key"); err != nil || len(lifted) != 1 {
		t.Errorf("%v can be lifted, want the one of the credits (%v)", lifted, err)
	}
	statetest.Update(t, s, func(tx *store.Tx) error { return ledger.Lift(tx, "key") })
	if l, err := s.Blocks.Get(ledger.BlockClock, ""); err != nil || l.Until.After(given) {
		t.Errorf("the word of %s is one of %s (%v)", given, l.Until, err)
	}
}

// TestAnswerDoesNotAgreeWithItself: one that could not be kept as it was meant is kept again.
func TestAnswerDoesNotAgreeWithItself(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	request := statetest.DetailsRequest("video-00001")
	answer := statetest.AnswerTo(request, `{}`)
	answer.Header.Set("Date", time.Now().Add(40*24*time.Hour).UTC().Format(http.TimeFormat))
	a, err := s.Ledger.Meter(ledger.Purchase{Commit: func(*store.Tx, ledger.Kept) error { return errors.New("no room") }}).Reserve(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Sending(), a.Settle(answer, outlier.Charged)); err == nil {
		t.Fatal("the answer was kept as it was meant")
	}
	if ahead := time.Until(s.Clock.Now()); ahead > time.Hour {
		t.Errorf("one answer has set the clock %s ahead", ahead)
	}
}
