package state

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

func TestPeriodIsFixedAtReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		time.Sleep(24*time.Hour - time.Second) // the bubble begins at midnight
		before := credit.Day(time.Now(), time.UTC)
		a := reserve(t, s, capped(100), searchRequest("0"))
		if err := a.Sending(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		after := credit.Day(time.Now(), time.UTC)
		if err := a.Settle(answerTo(searchRequest("0"), `{}`), outlier.Charged); err != nil {
			t.Fatal(err)
		}
		checkHeld(t, s, credit.Cap{Scope: credit.AllDay, Period: before}, 2)
		checkHeld(t, s, credit.Cap{Scope: credit.AllDay, Period: after}, 0)
	})
}

func TestDaysTurnByTheServicesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		service := time.Now().Add(36 * time.Hour).Truncate(time.Second)
		answer := answerTo(detailsRequest("video-00001"), `{}`)
		answer.Header.Set("Date", service.Format(http.TimeFormat))
		buy(t, s, Purchase{}, answer, outlier.Charged)
		time.Sleep(time.Hour)
		if got, want := s.ServiceTime(), service.Add(time.Hour); !got.Equal(want) {
			t.Errorf("the service's time is %s, want %s", got, want)
		}
		var asked time.Time
		reserve(t, s, Purchase{Caps: func(now time.Time) []credit.Cap { asked = now; return nil }}, searchRequest("0"))
		if !asked.Equal(s.ServiceTime()) {
			t.Errorf("caps were asked for %s, want the service's time %s", asked, s.ServiceTime())
		}
		checkHeld(t, s, credit.Cap{Scope: credit.AllDay, Period: credit.Day(service, time.UTC)}, 2)
	})
}

func TestClockThatWasSetBackMintsNoFreshBudget(t *testing.T) {
	dir := t.TempDir()
	var future time.Time
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(40 * 24 * time.Hour)
		s := open(t, dir)
		buy(t, s, capped(100), answerTo(searchRequest("0"), `{}`), outlier.Charged)
		future = time.Now().Truncate(time.Microsecond)
	})
	synctest.Test(t, func(t *testing.T) { // time begins anew, 40 days earlier
		s := open(t, dir)
		if got := s.ServiceTime(); !got.Equal(future) {
			t.Errorf("before the first answer it is %s, want the time of the newest reservation %s", got, future)
		}
	})
}

// TestClockThatWasAheadMintsNoFreshBudget: what was bought under a clock that showed the
// next cycle counts there, and the present one, once the service has told the time,
// holds what it held.
func TestClockThatWasAheadMintsNoFreshBudget(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		buy(t, s, capped(2), answerTo(searchRequest("0"), `{}`), outlier.Charged)
		time.Sleep(40 * 24 * time.Hour) // the clock is set
		buy(t, s, capped(2), answerTo(searchRequest("1"), `{}`), outlier.Charged)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and set right
		s := open(t, dir)
		if day, cycle := s.Turned(); !day || !cycle {
			t.Errorf("day turned %v, cycle turned %v: nobody would ask the service for the time", day, cycle)
		}
		full := func(when string) {
			t.Helper()
			cap := Purchase{Caps: func(now time.Time) []credit.Cap {
				return []credit.Cap{{Scope: credit.AllMonth, Period: credit.Cycle(now, time.UTC, 1), Max: 2}}
			}}
			_, err := s.Meter(cap).Reserve(t.Context(), searchRequest("2"))
			if e, ok := errors.AsType[*credit.Exceeded](err); !ok || e.Held != 2 {
				t.Errorf("%s a call got %v", when, err)
			}
		}
		full("before the first answer")
		for _, id := range []string{"video-00001", "video-00002"} { // one date alone is doubted
			answer := answerTo(detailsRequest(id), `{}`)
			answer.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
			buy(t, s, Purchase{}, answer, outlier.Charged)
		}
		if got := credit.Cycle(s.ServiceTime(), time.UTC, 1); got != "2000-01-01" {
			t.Errorf("the service is in the cycle from %s", got)
		}
		full("after it")
		checkBooks(t, s)
	})
}

// TestWordAboutTheClockIsNotRenewedByAnother: to have credits again says nothing of the time.
func TestWordAboutTheClockIsNotRenewedByAnother(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	given := time.Now().Add(-30 * 24 * time.Hour)
	err := s.Update(func(tx *Tx) error {
		return errors.Join(tx.SetLatch(LatchClock, "", "who tells the time", given), tx.SetLatch(LatchCredits, "key", "no credits", time.Now().Add(time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if lifted, err := Lift(t.Context(), dir, options(), "key"); err != nil || len(lifted) != 1 {
		t.Errorf("lifted %v, want the one of the credits (%v)", lifted, err)
	}
	if l, err := s.Latch(LatchClock, ""); err != nil || l.Until.After(given) {
		t.Errorf("the word of %s is one of %s (%v)", given, l.Until, err)
	}
}

// TestAnswerDoesNotAgreeWithItself: one that could not be kept as it was meant is kept again.
func TestAnswerDoesNotAgreeWithItself(t *testing.T) {
	s := open(t, t.TempDir())
	request := detailsRequest("video-00001")
	answer := answerTo(request, `{}`)
	answer.Header.Set("Date", time.Now().Add(40*24*time.Hour).UTC().Format(http.TimeFormat))
	a, err := s.Meter(Purchase{Commit: func(*Tx, Kept) error { return errors.New("no room") }}).Reserve(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Sending(), a.Settle(answer, outlier.Charged)); err == nil {
		t.Fatal("the answer was kept as it was meant")
	}
	if ahead := time.Until(s.ServiceTime()); ahead > time.Hour {
		t.Errorf("one answer has set the clock %s ahead", ahead)
	}
}
