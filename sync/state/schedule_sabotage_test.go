package state_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"outlierd/outlier"
)

// sabotage is a programming mistake. The zero value has none.
type sabotage struct {
	name  string
	meter func(outlier.Meter) outlier.Meter // stands before the store's; nil: nothing does

	again   bool // a scan whose answer is lost is started again
	alone   bool // a job takes the scan of another for another one
	guesses bool // the local clock is believed

	first uint64 // the seed that is played first, since it caught this when last looked

	counts string // the condition without which a day or a cycle does not count what was spent
}

var sabotages = []sabotage{
	{name: "the intent is written together with the outcome", meter: func(m outlier.Meter) outlier.Meter { return late{m} }},
	{name: "what is unknown is refunded", meter: func(m outlier.Meter) outlier.Meter { return forging{m, unknownAsUnsent} }},
	{name: "a scan is tried again", first: 68, again: true},
	{name: "each job buys the same scan", first: 7, alone: true},
	{name: "a time-out is taken for a failure", first: 13, meter: func(m outlier.Meter) outlier.Meter { return forging{m, timeoutAsFailure} }},
	{name: "the local clock is believed", first: 8, guesses: true},
	{name: "the day begins afresh in another time zone", first: 39, counts: `caps.scope <> 'day' OR day = caps.period`},
}

// TestEverySabotageIsCaught checks that schedules find known mistakes.
func TestEverySabotageIsCaught(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes hundreds of schedules")
	}
	fresh := newFolder(t)
	for _, bug := range sabotages {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			fresh := fresh
			if bug.counts != "" {
				fresh = fresh.forgetting(t, bug.counts)
			}
			for i := range uint64(1000) {
				seed := (bug.first + i) % 1000
				s := play(t, fresh, seed, bug)
				if wrong, ok := errors.AsType[*broken](s.wrong); ok {
					t.Logf("caught by seed %d: %v", seed, wrong)
					return
				}
				if s.wrong != nil {
					t.Fatalf("%v\n%s", s.wrong, s.story())
				}
			}
			t.Error("1,000 schedules did not catch it")
		})
	}
}

// late writes later what it should write first.
type late struct{ outlier.Meter }

func (m late) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	if !r.Paid() {
		return m.Meter.Reserve(ctx, r)
	}
	return lateAttempt{m, ctx, r}, nil
}

type lateAttempt struct {
	late
	ctx context.Context
	r   *outlier.Request
}

func (a lateAttempt) Sending() error { return nil }

func (a lateAttempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	attempt, err := a.Meter.Reserve(a.ctx, a.r)
	if err != nil {
		return nil // what does not fit is not written down
	}
	if !answer.SentAt.IsZero() {
		if err := attempt.Sending(); err != nil {
			return err
		}
	}
	return attempt.Settle(answer, o)
}

// forging refunds credits without a proof of the service: it gives the database, which requires one, a forged proof.
type forging struct {
	outlier.Meter
	proof func(*outlier.Answer, outlier.Outcome) (outlier.Answer, outlier.Outcome)
}

func (m forging) Reserve(ctx context.Context, r *outlier.Request) (outlier.Attempt, error) {
	attempt, err := m.Meter.Reserve(ctx, r)
	return forgingAttempt{attempt, m}, err
}

type forgingAttempt struct {
	outlier.Attempt
	forging
}

func (a forgingAttempt) Settle(answer *outlier.Answer, o outlier.Outcome) error {
	forged, o := a.proof(answer, o)
	return a.Attempt.Settle(&forged, o)
}

// unknownAsUnsent says of all that is not known that it was never sent.
func unknownAsUnsent(a *outlier.Answer, o outlier.Outcome) (outlier.Answer, outlier.Outcome) {
	forged := *a
	if o == outlier.Unknown {
		forged.SentAt, forged.Status, forged.Body, o = time.Time{}, 0, nil, outlier.Refunded
	}
	return forged, o
}

// timeoutAsFailure says of a call that took too long that the service refused it.
func timeoutAsFailure(a *outlier.Answer, o outlier.Outcome) (outlier.Answer, outlier.Outcome) {
	forged := *a
	if o == outlier.Unknown && errors.Is(a.Err, context.DeadlineExceeded) {
		forged.Status, o = http.StatusGatewayTimeout, outlier.Refunded
	}
	return forged, o
}
