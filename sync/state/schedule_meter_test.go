package state_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// call is a request to the service in progress.
type call struct {
	run, job     string
	account      string // the name with which the job began
	step, intent int64
	at           time.Time       // the service's time under which the ledger books it
	charged      outlier.Credits // by the service

	paid, sent, settled bool
}

// errNoTime refuses a purchase while only the local clock says that a new day has begun.
var errNoTime = errors.New("the service sends no time")

// buy makes a paid call, once the service's time is agreed on.
func (j *job) buy(run *runs.Run, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	j.pause("about to reserve")
	if err := j.proveTime(run); err != nil {
		return nil, err
	}
	return j.do(run, r, p)
}

// proveTime makes sure that the service's time is agreed on. A date that is far from what was
// believed has to be told twice. Where the service tells none, a local clock that claims no
// later day is trusted.
func (j *job) proveTime(run *runs.Run) error {
	for range 3 {
		if j.store.Clock.Agreed() || j.dead || j.bug.guesses {
			return nil
		}
		if err := j.askTime(run); err != nil {
			return err
		}
	}
	newest, err := j.store.Ledger.Newest()
	if err != nil {
		return err
	}
	if !newest.IsZero() && ledger.Day(time.Now(), j.options.Location) > ledger.Day(newest, j.options.Location) {
		j.saw("the service sent no time")
		return errNoTime
	}
	j.store.Clock.Confirm()
	return nil
}

// askTime makes a free request, for the date of its answer.
func (j *job) askTime(run *runs.Run) error {
	j.saw("the time was asked for")
	r, err := outlier.DataRequest(outlier.OpDetails, "dQw4w9WgXcQ")
	if err != nil {
		return err
	}
	answer, err := j.do(run, r, ledger.Purchase{})
	if answer == nil || answer.Status == 0 {
		return err
	}
	return nil
}

// do makes one call.
func (j *job) do(run *runs.Run, r *outlier.Request, p ledger.Purchase) (*outlier.Answer, error) {
	c := &call{run: run.ID, job: j.name, account: j.account, step: p.Step, intent: p.Intent, paid: r.Paid()}
	p.Run, p.Job = run.ID, j.name
	p.Caps = func(at time.Time) []ledger.Cap {
		c.at = at
		return j.caps.of(j.periodsOf(c))
	}
	var books outlier.Meter = j.store.Ledger.Meter(p)
	if j.bug.meter != nil {
		books = j.bug.meter(books)
	}
	j.call = c
	defer func() { j.call = nil }()
	return j.http.Do(j.t.Context(), r, pausing{j, c, books})
}

func (j *job) roundTrip(r *http.Request) (*http.Response, error) {
	resp, err := j.deliver(r, j.call)
	if err == nil && j.call.paid {
		j.pause("at the service")
	}
	return resp, err
}

// pausing stops before and after every write of a paid call.
type pausing struct {
	*job
	c     *call
	books outlier.Meter
}

// Reserve implements [outlier.Meter].
func (m pausing) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if m.dead {
		return nil, errKilled
	}
	now := m.store.Clock.Now().Truncate(time.Microsecond)
	m.c.at = now
	attempt, err := m.books.Reserve(ctx, r)
	if e, ok := errors.AsType[*ledger.Exceeded](err); ok {
		m.saw("refused by " + string(e.Cap.Scope))
		if e.Cap.Scope == ledger.ScopeDay && m.caps[ledger.ScopeMonth] == roomy {
			m.saw("the day was spent in a roomy month")
		}
	} else if err != nil {
		m.fail(err)
	}
	if err != nil || !m.c.paid {
		return pausingAttempt{m, attempt}, err
	}
	if now.After(m.newest) {
		m.newest = now
	}
	m.spend(spending{m.c.run, m.c.account, m.c.at, 0}) // what its periods hold matters, also if they have no cap yet
	m.note("reserved %d for %s, booked for %s", r.Price(), r.Op(), m.c.at.Format("01-02 15:04:05"))
	m.breaks(m.checkDay(m.c))
	m.pause("reserved")
	return pausingAttempt{m, attempt}, nil
}

type pausingAttempt struct {
	pausing
	attempt outlier.Attempt
}

// Sending implements [outlier.Attempt].
func (a pausingAttempt) Sending() error {
	if a.dead {
		return errKilled
	}
	if err := a.attempt.Sending(); err != nil {
		a.fail(err)
		return err
	}
	if !a.c.paid {
		return nil
	}
	a.c.sent = true
	if !slices.ContainsFunc(a.jobs, func(j *job) bool { return j.call == nil || !j.call.sent || j.call.settled }) {
		a.saw("two calls on their way")
	}
	a.pause("marked as sent")
	if a.dead {
		return errKilled
	}
	return nil
}

// Settle implements [outlier.Attempt].
func (a pausingAttempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	if a.c.paid {
		a.pause("answered")
	}
	if a.dead {
		return nil
	}
	if err := a.attempt.Settle(answer, o); err != nil {
		a.fail(err)
		return err
	}
	a.c.settled = true
	a.heed(answer)
	if a.c.paid {
		a.saw("settled as " + string(o))
		a.note("settled as %s: %v", o, answer.Err)
		a.breaks(checkRefund(a.c, o))
		a.pause("settled")
	}
	return nil
}
