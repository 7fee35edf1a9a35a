package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// # The clock
//
// Days, billing cycles and the ends of search windows follow the service's clock, so that a page is booked
// by the same clock that limits what it covers. The time is agreed on before the first paid call of a
// process, and again if the local clock jumps: see package ledger. If no answer of the service is at hand,
// the service is asked just for its time, which costs one request. Nothing is bought while no two answers
// agree on a time, or while only the service's clock is in another period of a cap, by more than maxApart
// ahead of the local one or behind it: a clock that jumps must not open one period after the other. A person
// can confirm the clock that then decides.

// noVideo is the id of no video. A request for its details is free, and the answer has a date.
const noVideo = "-----------"

// timeAttempts is how often the service is asked for its time until two answers agree.
const timeAttempts = 3

// maxApart is how far the service's clock may be from the local one and still decide alone what period it is.
const maxApart = 36 * time.Hour

// ClockError reports that the time by which purchases would be booked is not known, or not credible.
type ClockError struct {
	Now     time.Time // by the local clock
	Service time.Time // by the service's clock, if that is too far away; zero if it is not known
}

// Error names days and not the time of day: a person's confirmation holds for this text.
func (e *ClockError) Error() string {
	now := e.Now.Format(time.DateOnly)
	if e.Service.IsZero() {
		return fmt.Sprintf("the service's answers have no time, or times that differ from each other and from this machine's clock, "+
			"which shows %s; nothing is bought until they agree, or until 'outlierd budget resume' confirms the machine's clock", now)
	}
	return fmt.Sprintf("the service's clock shows %s and this machine's clock %s, "+
		"and only the service's is in another day or billing cycle than the last purchase; "+
		"nothing is bought until the clocks agree, or until 'outlierd budget resume' confirms the service's",
		e.Service.Format(time.DateOnly), now)
}

// prepareCall makes sure that the time is agreed on before a paid call. It does nothing for a call that
// books nothing, and returns the error of a call that would be refused.
func (c *caller) prepareCall(ctx context.Context, r *outlier.Request, p ledger.Purchase) error {
	if err := c.refused(r); err != nil {
		return err
	}
	needs, err := c.needsRoom(r, p)
	if err != nil || !needs {
		return err
	}
	return c.ensureTime(ctx)
}

// ensureTime makes sure that the time is agreed on, and asks the service for it if necessary.
func (c *caller) ensureTime(ctx context.Context) error {
	return c.agreeOnTime(ctx, func(ctx context.Context, r *outlier.Request, p ledger.Purchase) (result, error) {
		return c.fetch(ctx, r, p, &c.asks)
	})
}

// A call makes one or more attempts at a request.
type call func(context.Context, *outlier.Request, ledger.Purchase) (result, error)

func (c *caller) agreeOnTime(ctx context.Context, ask call) error {
	for ; c.timesAsked < timeAttempts && !c.engine.Store.Clock.Agreed(); c.timesAsked++ {
		err := askTime(ctx, ask)
		if judge(err).waits() {
			return err // keeps timesAsked: the answers so far count
		}
		if err != nil {
			c.timesAsked = 0
			return fmt.Errorf("ask the service for the time: %w", err)
		}
	}
	c.timesAsked = 0
	if err := c.checkClock(); err != nil {
		return err
	}
	return c.engine.Store.CorrectDates()
}

// askTime requests an answer of the service, whose date the ledger learns.
func askTime(ctx context.Context, ask call) error {
	request, err := outlier.DataRequest(outlier.OpDetails, noVideo)
	if err != nil {
		return err
	}
	got, err := ask(ctx, request, ledger.Purchase{TimeOnly: true}) // a purchase waits for it
	if got.answer != nil && got.answer.Own {
		return nil // such as that there is no such video
	}
	return err
}

// checkClock accepts the service's clock if it is agreed on, unless it alone is in another period of a cap, far
// from the local one. Otherwise a person has to confirm that clock, or the local one.
func (c *caller) checkClock() error {
	clock, now, zone := c.engine.Store.Clock, time.Now(), c.engine.Config.Timezone
	unsure := &ClockError{Now: now.In(zone)}
	if clock.Agreed() {
		service := clock.Now()
		if service.Sub(now).Abs() <= maxApart {
			return nil
		}
		if alone, err := c.isAlone(service, now); err != nil || !alone {
			return err
		}
		unsure.Service = service.In(zone)
	}
	err := c.checkConfirmed(unsure)
	if err == nil && unsure.Service.IsZero() {
		clock.Confirm()
	}
	return err
}

// checkConfirmed returns the error unless a person has confirmed what it says, by 'outlierd budget resume'.
func (c *caller) checkConfirmed(unsure *ClockError) error {
	block, err := c.engine.Store.Blocks.Get(ledger.BlockClock, "")
	if err != nil || block != nil && !block.Until.IsZero() && block.Reason == unsure.Error() {
		return err
	}
	return cmp.Or(ledger.SetBlock(c.engine.Store.DB, ledger.BlockClock, "", unsure.Error(), time.Time{}), error(unsure))
}

// isAlone reports whether the service's time is in a later period of a cap than both the local time and the last
// booking, or in an earlier one than both.
func (c *caller) isAlone(service, local time.Time) (bool, error) {
	booked, err := c.engine.Store.Ledger.Newest()
	if err != nil || booked.IsZero() {
		return false, err
	}
	config := c.engine.Config
	alone := func(period func(time.Time) string) bool {
		at, one, two := period(service), period(local), period(booked)
		return at > max(one, two) || at < min(one, two)
	}
	capped := config.Budget.PerMonth != nil ||
		slices.ContainsFunc(config.Jobs, func(j job.Spec) bool { return j.Budget.PerMonth != nil })
	return config.Budget.PerDay != nil && alone(func(t time.Time) string { return ledger.Day(t, config.Timezone) }) ||
		capped && alone(func(t time.Time) string { return ledger.Cycle(t, config.Timezone, config.Budget.Renews) }), nil
}

// startTime returns the time by which a new run of spec resolves its windows. If the service does not
// answer now, that is the expected time, and unsure: the first purchase asks again, reports what is
// wrong, and checks the windows; see [search.checkDates]. If the address is not the service's, that is an
// error at once.
func (c *caller) startTime(ctx context.Context, spec *job.Spec) (at time.Time, unsure bool, err error) {
	if len(spec.Fetch) > 0 || spec.Rest != "" { // a watch buys nothing, and what was left has its dates
		return c.engine.Store.Clock.Now(), false, nil
	}
	err = c.agreeOnTime(ctx, c.attempt)
	if isA[*NotServiceError](err) || judge(err).waits() {
		return c.engine.Store.Clock.Now(), true, err
	}
	if err != nil {
		c.engine.log().Debug("service time unknown", "job", spec.Name, "err", err)
	}
	return c.engine.Store.Clock.Now(), err != nil, nil
}

// checkDates closes a search before page one if its dates were computed with a clock that has since turned
// out to be wrong.
func (s search) checkDates() error {
	if s.row.Plan.Unsure.IsZero() || !s.step.Began.IsZero() {
		return nil
	}
	now := s.engine.Store.Clock.Now()
	if late := now.Sub(s.row.Plan.Unsure); late >= -ledger.Skew && late <= facts.ResumeWithin {
		return nil
	}
	s.step.Stop = runs.StopClock
	err := s.saveStep(*s.step)
	return errors.Join(err, fmt.Errorf("its dates were computed with a clock that showed %s, "+
		"while the service's time was not available; it is %s: run the job again",
		showTime(s.row.Plan.Unsure, s.engine.Config), showTime(now, s.engine.Config)))
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// showTime formats a time in the time zone of the configuration.
func showTime(t time.Time, config *job.Config) string {
	return t.In(config.Timezone).Format("2006-01-02 15:04 MST")
}
