package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// TestLedgerFollowsTheModel performs random attempts, now and then on a store as a
// kill leaves it, beside a model of what each period must hold.
func TestLedgerFollowsTheModel(t *testing.T) {
	b := &books{t: t, s: hasty(t, open(t, t.TempDir()))}
	rapid.Check(t, func(r *rapid.T) {
		b.checks++
		b.job = fmt.Sprint("job-", b.checks) // a job of its own for every check
		b.held, b.alive = map[string]outlier.Credits{}, nil
		b.limit = drawLimit(r)
		r.Repeat(map[string]func(*rapid.T){
			"reserve": b.reserve, "send": b.send, "settle": b.settle, "kill": b.kill, "": b.check,
			"change the cap": func(r *rapid.T) { b.limit = drawLimit(r) },
		})
	})
}

func drawLimit(r *rapid.T) outlier.Credits {
	return outlier.Credits(rapid.IntRange(0, 20).Draw(r, "limit"))
}

// books are a store and what is known of it.
type books struct {
	t      *testing.T
	s      *Store
	checks int

	job   string
	limit outlier.Credits            // of the job in the cycle
	held  map[string]outlier.Credits // per run; "" is the whole job
	alive []live
}

// live is an attempt that has not been settled.
type live struct {
	outlier.Attempt
	run  string
	sent bool
}

func (b *books) cap() credit.Cap {
	return credit.Cap{Scope: credit.JobMonth, Period: credit.JobCycle(b.job, credit.Cycle(time.Now(), time.UTC, 1)), Max: b.limit}
}

func (b *books) book(run string, amount outlier.Credits) {
	b.held[run] += amount
	b.held[""] += amount
}

func (b *books) reserve(r *rapid.T) {
	p := Purchase{Job: b.job, Run: b.job + rapid.SampledFrom([]string{"-a", "-b"}).Draw(r, "run")}
	p.Caps = func(time.Time) []credit.Cap { return []credit.Cap{b.cap()} }
	a, err := b.s.Meter(p).Reserve(b.t.Context(), searchRequest("0"))
	_, refused := errors.AsType[*credit.Exceeded](err)
	if refused != (b.held[""]+2 > b.limit) || refused != (err != nil) {
		r.Fatalf("holding %d of %d, a call for 2 got %v", b.held[""], b.limit, err)
	}
	if err == nil {
		b.book(p.Run, 2)
		b.alive = append(b.alive, live{a, p.Run, false})
	}
}

// take picks an attempt that is alive, nil if there is none.
func (b *books) take(r *rapid.T) *live {
	if len(b.alive) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(b.alive)-1).Draw(r, "which")
	l := b.alive[i]
	b.alive = append(b.alive[:i], b.alive[i+1:]...)
	return &l
}

func (b *books) send(r *rapid.T) {
	l := b.take(r)
	if l == nil {
		return
	}
	if err := l.Sending(); (err != nil) != l.sent {
		r.Fatalf("Sending, marked before: %v, got %v", l.sent, err)
	}
	l.sent = true
	b.alive = append(b.alive, *l)
}

func (b *books) settle(r *rapid.T) {
	l := b.take(r)
	if l == nil {
		return
	}
	request := searchRequest("0")
	answer, outcome := &outlier.Answer{Request: request}, outlier.Refunded
	if l.sent {
		switch rapid.SampledFrom([]outlier.Outcome{outlier.Charged, outlier.Refunded, outlier.Unknown}).Draw(r, "outcome") {
		case outlier.Charged:
			answer, outcome = answerTo(request, `{}`), outlier.Charged
		case outlier.Refunded:
			answer = errorTo(request, 429, outlier.Limited)
		case outlier.Unknown:
			answer, outcome = lost(request), outlier.Unknown
		}
	}
	if err := l.Settle(answer, outcome); err != nil {
		r.Fatalf("Settle: %v", err)
	}
	if outcome == outlier.Refunded {
		b.book(l.run, -2)
	}
}

// kill goes on with the store as another process would find it: what was never
// marked as sent comes back, what was stays held.
func (b *books) kill(r *rapid.T) {
	if rapid.IntRange(0, 9).Draw(r, "rarely") > 0 {
		return // opening takes longer than all else together
	}
	killed := copyFolder(b.t, b.s.dir)
	if err := b.s.Close(); err != nil {
		r.Fatal(err)
	}
	b.s = hasty(b.t, open(b.t, killed))
	for _, l := range b.alive {
		if !l.sent {
			b.book(l.run, -2)
		}
	}
	b.alive = nil
}

func (b *books) check(r *rapid.T) {
	for run, want := range b.held {
		period := b.cap()
		if run != "" {
			period = credit.Cap{Scope: credit.Run, Period: run}
			spend, err := b.s.Spent(run)
			if sum := spend.Charged + spend.Unknown + spend.Reserved; err != nil || sum != want {
				r.Fatalf("%s spent %+v (%v), want a sum of %d", run, spend, err, want)
			}
		}
		if got, err := b.s.Held(period); err != nil || got != want {
			r.Fatalf("%s %s holds %d (%v), want %d", period.Scope, period.Period, got, err, want)
		}
	}
	if err := b.s.view(func() error { return (&Tx{s: b.s}).audit() }); err != nil {
		r.Fatal(err)
	}
}
