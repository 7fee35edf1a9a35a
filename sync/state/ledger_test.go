package state

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

func TestReservationIsRefusedWhenACapWouldBePassed(t *testing.T) {
	now := time.Now()
	day, cycle := credit.Day(now, time.UTC), credit.Cycle(now, time.UTC, 1)
	for _, c := range []credit.Cap{
		{Scope: credit.Run, Period: "run-1", Max: 5},
		{Scope: credit.JobMonth, Period: "ideas/" + cycle, Max: 5},
		{Scope: credit.AllDay, Period: day, Max: 5},
		{Scope: credit.AllMonth, Period: cycle, Max: 5},
	} {
		t.Run(string(c.Scope), func(t *testing.T) {
			s := open(t, t.TempDir())
			p := Purchase{Run: "run-1", Job: "ideas", Caps: func(time.Time) []credit.Cap { return []credit.Cap{c} }}
			request := searchRequest("0")
			buy(t, s, p, answerTo(request, `{}`), outlier.Charged)
			buy(t, s, p, answerTo(request, `{}`), outlier.Charged)
			_, err := s.Meter(p).Reserve(t.Context(), request)
			refusal, ok := errors.AsType[*credit.Exceeded](err)
			if !ok {
				t.Fatalf("the third call got %v, want a refusal", err)
			}
			if want := (credit.Exceeded{Cap: c, Held: 4, Price: 2}); *refusal != want {
				t.Errorf("refused with %+v, want %+v", *refusal, want)
			}
			checkHeld(t, s, c, 4)
		})
	}
}

func TestDatabaseItselfRefusesToPassACap(t *testing.T) {
	s := open(t, t.TempDir())
	buy(t, s, capped(3), answerTo(searchRequest("0"), `{}`), outlier.Charged)
	insert := `INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		SELECT run, job, step, op, entity, params, attempt, price, 'reserved', day, cycle, '[]', reserved_at, 0, 0, 0, 0, 0, '' FROM attempts`
	wantText(t, shell(t, s, insert), "cap exceeded")
	wantText(t, shell(t, s, `UPDATE periods SET held = held + 2 WHERE scope = 'month'`), "cap exceeded")
	checkHeld(t, s, month(), 2)
}

func TestDatabaseItselfKeepsTheBooks(t *testing.T) {
	for name, c := range map[string]struct{ statement, refusal string }{
		"deleting a paid attempt":       {`DELETE FROM attempts`, "is kept"},
		"deleting a period":             {`DELETE FROM periods`, "is kept"},
		"beginning a period in advance": {`INSERT INTO periods (scope, period, held) VALUES ('day', 'x', 9)`, "nothing held"},
		"changing a price":              {`UPDATE attempts SET price = 0`, "fixed"},
		"moving to another day":         {`UPDATE attempts SET day = '2001-01-01'`, "fixed"},
		"settling again":                {`UPDATE attempts SET state = 'refunded' WHERE state = 'charged'`, "settled once"},
		"refunding without proof":       {`UPDATE attempts SET state = 'refunded', http_status = 200 WHERE state = 'sending'`, "proof"},
		"charging what was never sent":  {`UPDATE attempts SET state = 'charged' WHERE state = 'reserved'`, "settled once"},
		"beginning as charged": {`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at,
			sent_at, settled_at, waited, http_status, bytes, error) VALUES ('', '', 0, '', '', '', 1, 2, 'charged', 'd', 'c', '', 0, 0, 0, 0, 0, 0, '')`, "begins as reserved"},
		"a negative price": {`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps, reserved_at,
			sent_at, settled_at, waited, http_status, bytes, error) VALUES ('', '', 0, '', '', '', 1, -2, 'reserved', 'd', 'c', '', 0, 0, 0, 0, 0, 0, '')`, "CHECK"},
		"changing an answer": {`UPDATE responses SET body = x'00'`, "never changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			p, request := capped(100), searchRequest("0")
			buy(t, s, p, answerTo(request, `{}`), outlier.Charged)
			reserve(t, s, p, request)
			sending := reserve(t, s, p, request)
			if err := sending.Sending(); err != nil {
				t.Fatal(err)
			}
			wantText(t, shell(t, s, c.statement), c.refusal)
			checkHeld(t, s, month(), 6)
		})
	}
}

func TestOutcomeDecidesWhatStaysHeld(t *testing.T) {
	request := searchRequest("0")
	for name, c := range map[string]struct {
		answer  *outlier.Answer
		outcome outlier.Outcome
		held    outlier.Credits
		spend   Spend
	}{
		"charged":  {answerTo(request, `{}`), outlier.Charged, 2, Spend{Charged: 2, Requests: 1}},
		"refunded": {errorTo(request, http.StatusBadRequest, outlier.Invalid), outlier.Refunded, 0, Spend{Refunded: 2, Requests: 1}},
		"unknown":  {lost(request), outlier.Unknown, 2, Spend{Unknown: 2, Requests: 1}},
		"unsent":   {&outlier.Answer{Request: request, Err: &outlier.Error{Kind: outlier.Unsent}}, outlier.Refunded, 0, Spend{Refunded: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			buy(t, s, capped(100), c.answer, c.outcome)
			checkHeld(t, s, month(), c.held)
			got, err := s.Spent("run-1")
			if err != nil {
				t.Fatal(err)
			}
			if got != c.spend {
				t.Errorf("spent %+v, want %+v", got, c.spend)
			}
		})
	}
}

func TestLostAnswerIsNotRefundedWithoutProof(t *testing.T) {
	s := open(t, t.TempDir())
	a := reserve(t, s, capped(100), searchRequest("0"))
	if err := a.Sending(); err != nil {
		t.Fatal(err)
	}
	wantText(t, a.Settle(lost(searchRequest("0")), outlier.Refunded), "proof")
	checkHeld(t, s, month(), 2)
}

func TestChangedCapsApplyAtOnceAndForgetNothing(t *testing.T) {
	s := open(t, t.TempDir())
	request := searchRequest("0")
	buy(t, s, Purchase{Run: "run-1", Job: "ideas"}, answerTo(request, `{}`), outlier.Charged)
	buy(t, s, capped(4), answerTo(request, `{}`), outlier.Charged)
	if _, err := s.Meter(capped(5)).Reserve(t.Context(), request); err == nil {
		t.Error("a cap of 5 let 6 credits through: what was spent before it was set is not counted")
	}
	buy(t, s, capped(6), answerTo(request, `{}`), outlier.Charged)
	if _, err := s.Meter(capped(1)).Reserve(t.Context(), request); err == nil {
		t.Error("a cap below what is held let a call through")
	}
	buy(t, s, Purchase{Run: "run-1", Job: "ideas"}, answerTo(request, `{}`), outlier.Charged)
	checkHeld(t, s, month(), 8)
}

func TestCapForAnotherPeriodIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	p := Purchase{Caps: func(time.Time) []credit.Cap {
		return []credit.Cap{{Scope: credit.AllMonth, Period: "1999-01-01", Max: 10}}
	}}
	_, err := s.Meter(p).Reserve(t.Context(), searchRequest("0"))
	wantText(t, err, "1999-01-01", "cannot hold")
}

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

func TestNothingIsBoughtWhenSpaceIsLow(t *testing.T) {
	free := uint64(1 << 40)
	o := options()
	o.FreeSpace = func(string) (uint64, error) { return free, nil }
	s := openWith(t, t.TempDir(), o)
	free = o.MinFree - 1
	for _, request := range []*outlier.Request{searchRequest("0"), detailsRequest("video-00001")} {
		_, err := s.Meter(Purchase{}).Reserve(t.Context(), request)
		if _, ok := errors.AsType[*LowSpaceError](err); !ok {
			t.Errorf("%s: got %v, want a LowSpaceError", request.Op, err)
		}
	}
	free = 1 << 40
	buy(t, s, Purchase{}, answerTo(searchRequest("0"), `{}`), outlier.Charged)
}

// TestLedgerFollowsTheModel performs random attempts on a store that is now and
// then killed and reopened, beside a model of a few lines.
func TestLedgerFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		s := hasty(t, open(t, dir))
		limit := outlier.Credits(rapid.IntRange(0, 20).Draw(r, "limit"))
		held := map[string]outlier.Credits{} // per run
		var total outlier.Credits
		type live struct {
			a    outlier.Attempt
			run  string
			sent bool
		}
		var alive []live
		request := searchRequest("0")
		take := func(r *rapid.T) (live, bool) {
			if len(alive) == 0 {
				return live{}, false
			}
			i := rapid.IntRange(0, len(alive)-1).Draw(r, "which")
			l := alive[i]
			alive = append(alive[:i], alive[i+1:]...)
			return l, true
		}
		settle := func(l live, answer *outlier.Answer, o outlier.Outcome) {
			if err := l.a.Settle(answer, o); err != nil {
				r.Fatalf("Settle: %v", err)
			}
			if o == outlier.Refunded {
				held[l.run] -= 2
				total -= 2
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"reserve": func(r *rapid.T) {
				p := capped(limit)
				p.Run = rapid.SampledFrom([]string{"run-1", "run-2"}).Draw(r, "run")
				a, err := s.Meter(p).Reserve(t.Context(), request)
				_, refused := errors.AsType[*credit.Exceeded](err)
				if refused != (total+2 > limit) {
					r.Fatalf("holding %d of %d a call for 2 got %v", total, limit, err)
				}
				if err == nil {
					held[p.Run] += 2
					total += 2
					alive = append(alive, live{a: a, run: p.Run})
				}
			},
			"send": func(r *rapid.T) {
				if l, ok := take(r); ok {
					if err := l.a.Sending(); (err == nil) == l.sent {
						r.Fatalf("Sending, sent before: %v, got %v", l.sent, err)
					}
					l.sent = true
					alive = append(alive, l)
				}
			},
			"settle": func(r *rapid.T) {
				l, ok := take(r)
				switch {
				case !ok:
				case !l.sent:
					settle(l, &outlier.Answer{Request: request}, outlier.Refunded)
				case rapid.Bool().Draw(r, "error"):
					settle(l, errorTo(request, 429, outlier.Limited), outlier.Refunded)
				case rapid.Bool().Draw(r, "lost"):
					settle(l, lost(request), outlier.Unknown)
				default:
					settle(l, answerTo(request, `{}`), outlier.Charged)
				}
			},
			"change the cap": func(r *rapid.T) { limit = outlier.Credits(rapid.IntRange(0, 20).Draw(r, "limit")) },
			"kill": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "rarely") > 0 {
					return // opening a store takes longer than all else together
				}
				s = hasty(t, open(t, copyFolder(t, s.dir)))
				for _, l := range alive {
					if !l.sent {
						held[l.run] -= 2
						total -= 2
					}
				}
				alive = nil
			},
			"": func(r *rapid.T) {
				checkSums(r, s, held, total)
			},
		})
	})
}

func checkSums(r *rapid.T, s *Store, held map[string]outlier.Credits, total outlier.Credits) {
	if got, err := s.Held(month()); err != nil || got != total {
		r.Fatalf("the cycle holds %d (%v), want %d", got, err, total)
	}
	for run, want := range held {
		got, err := s.Held(credit.Cap{Scope: credit.Run, Period: run})
		if err != nil || got != want {
			r.Fatalf("%s holds %d (%v), want %d", run, got, err, want)
		}
		spend, err := s.Spent(run)
		if sum := spend.Charged + spend.Unknown + spend.Reserved; err != nil || sum != want {
			r.Fatalf("%s spent %+v (%v), want a sum of %d", run, spend, err, want)
		}
	}
	if err := s.Update(func(tx *Tx) error { return tx.audit() }); err != nil {
		r.Fatal(err)
	}
}

func TestAuditFindsABookThatWasTamperedWith(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	buy(t, s, capped(100), answerTo(searchRequest("0"), `{}`), outlier.Charged)
	if err := shell(t, s, `UPDATE periods SET held = 0 WHERE scope = 'day'`); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), copyFolder(t, dir), options())
	damage, ok := errors.AsType[*CorruptError](err)
	if !ok {
		t.Fatalf("Open: %v, want a CorruptError", err)
	}
	wantText(t, damage, "0 credits for day", "add up to 2", "backup")
}

func TestPeriodsOfTheDatabaseAreThoseOfTheArithmetic(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	for _, p := range []Purchase{{Run: "run-1", Job: "ideas"}, {Run: "run-1"}, {Job: "ideas"}, {}} {
		buy(t, s, p, answerTo(searchRequest("0"), `{}`), outlier.Charged)
		var got []credit.Period
		err := s.view(func() (err error) {
			got, err = list(s, func(p *credit.Period) []any { return []any{&p.Scope, &p.Key} },
				`SELECT scope, period FROM attempt_periods WHERE id = (SELECT max(id) FROM attempts)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := credit.Periods(p.Run, p.Job, credit.Day(now, time.UTC), credit.Cycle(now, time.UTC, 1))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("a call of run %q and job %q counts for %v in the database, want %v", p.Run, p.Job, got, want)
		}
	}
}
