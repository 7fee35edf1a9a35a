package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// resumeWithin is how old an unfinished run may be and still be continued. For a job
// with a shorter period it is that period, because after it the window of the next
// run covers what was left.
const resumeWithin = 24 * time.Hour

// begin takes up the run that spec continues, or a new one. A job that cannot be
// resolved, as when its SQL fails, has a run too: one that failed before it spent
// anything. The run is nil if there is no record of it.
func (s *shift) begin(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*run, error) {
	s.rekeyed()
	if trigger == Manual { // a person who runs a job wants to know
		if err := s.lift(state.LatchKey); err != nil {
			return nil, err
		}
	}
	row, err := s.open(ctx, spec, trigger, due)
	if row == nil { // readers see that it failed
		return nil, errors.Join(err, s.publish(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("begin a run of job %s: %w", spec.Name, err)
	}
	return s.take(row, spec.Budget)
}

// open returns the run that spec continues, or a new one with its steps; both are
// on record as running.
func (s *shift) open(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*state.Run, error) {
	old, err := s.Continues(spec, due)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if !due.IsZero() {
			old.Due = due
		}
		return old, s.Store.Resume(old.ID, due)
	}
	now := time.Now()
	if err := s.giveUp(spec.Name, now); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	row := state.Run{
		ID: id.String(), Job: spec.Name, Trigger: string(trigger), Due: due, Started: now,
		Status: state.Running, Config: spec.Hash,
	}
	steps, plan, err := s.resolve(ctx, spec, trigger, now)
	if err != nil {
		return nil, s.stillborn(row, err)
	}
	if row.Plan, err = plan.encode(); err != nil {
		return nil, err
	}
	return &row, s.Store.Begin(row, steps)
}

// stillborn records a run that could not even begin, and says why.
func (e *Engine) stillborn(row state.Run, cause error) error {
	if err := e.Store.Begin(row, nil); err != nil {
		return errors.Join(cause, err)
	}
	row.Status, row.Ended, row.Error = state.Failed, time.Now(), cause.Error()
	return errors.Join(cause, e.Store.Finish(row))
}

// giveUp closes a run that was cut short and is not continued.
func (e *Engine) giveUp(name string, now time.Time) error {
	old, err := e.Store.Unfinished(name)
	if err != nil || old == nil || old.Status != state.Running {
		return err
	}
	steps, err := e.Store.Steps(old.ID)
	if err != nil {
		return err
	}
	if err := e.tally(old, steps); err != nil {
		return err
	}
	old.Status, old.Ended = state.Interrupted, now
	return e.Store.Finish(*old)
}

// Continues is the run that a run of spec, due at the given instant (zero for one by
// hand), would continue; nil if it would begin anew. A run is continued if it was
// killed, stopped, paused by a cap or failed for a reason that can pass, if it is not
// too old, and if something can be done in it: one that reached its own cap, or whose
// request was refused, has come to its end. A scan that was paid for does not age; but
// where its own cap has no room for another page of its results, that is the end, too.
func (e *Engine) Continues(spec *job.Spec, due time.Time) (*state.Run, error) {
	old, err := e.Store.Unfinished(spec.Name)
	if err != nil || old == nil || e.Afresh || len(old.Plan) == 0 {
		return nil, err
	}
	steps, err := e.Store.Steps(old.ID)
	if err != nil {
		return nil, err
	}
	held, err := e.holdsScan(steps)
	if err != nil || !held && (refused(steps) || age(old, due) > e.resumable(spec)) {
		return nil, err
	}
	if _, err := thaw(old.Plan); err != nil && !held {
		e.log().Warn("unfinished run left alone", "job", spec.Name, "run", old.ID, "err", err)
		return nil, nil
	}
	if spent, err := e.usedUp(old, steps, spec.Budget); err != nil || spent {
		return nil, err
	}
	return old, nil
}

// refused reports whether a search was closed for good and none is left to go on with.
func refused(steps []state.Step) bool {
	return slices.ContainsFunc(steps, func(s state.Step) bool { return slices.Contains(finals, s.Stop) }) &&
		!slices.ContainsFunc(steps, func(s state.Step) bool { return s.Stop == "" })
}

// holdsScan reports whether a run has paid for a scan that it has not read.
func (e *Engine) holdsScan(steps []state.Step) (bool, error) {
	for i := range steps {
		if paid, err := e.paidScan(&steps[i]); paid || err != nil {
			return paid, err
		}
	}
	return false, nil
}

// paidScan reports whether a step is about a scan that was paid for, or may have been,
// and that is not read to its end.
func (e *Engine) paidScan(step *state.Step) (bool, error) {
	if step.Stop != "" || step.Op != outlier.OpStartScan {
		return step.Stop == "" && step.Scan != "", nil
	}
	scan, err := e.Store.ScanOf(step.ID)
	if err != nil || scan == nil {
		return false, err
	}
	return scan.State != state.ScanRefused && scan.State != state.ScanNotCreated, nil
}

// usedUp reports whether a run has something left to buy and no room for any of it under
// its own cap, or has made all its requests. A scan that was paid for is seen to its end,
// whatever number of requests that takes.
func (e *Engine) usedUp(old *state.Run, steps []state.Step, own job.JobBudget) (bool, error) {
	plan, err := thaw(old.Plan)
	if err != nil {
		return false, err
	}
	spent, err := e.Store.Spent(old.ID)
	if err != nil {
		return false, err
	}
	left := plan.cap(own) - spent.Charged - spent.Unknown - spent.Reserved
	noRequests := plan.MaxRequests > 0 && max(spent.Requests, old.Requests) >= int64(plan.MaxRequests)
	open := false
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open = true
		paid, err := e.paidScan(&steps[i])
		if err != nil {
			return false, err
		}
		if noRequests && !paid {
			continue
		}
		if fits, err := e.fits(&steps[i], paid, left); fits || err != nil {
			return false, err
		}
	}
	return open || noRequests, nil
}

// fits reports whether what is next for a step is within what is left of its run's cap,
// or was paid for or set aside before.
func (e *Engine) fits(step *state.Step, paid bool, left outlier.Credits) (bool, error) {
	price := e.priceOf(step)
	if !paid || price <= left {
		return price <= left, nil
	}
	if step.Op == outlier.OpStartScan {
		return true, nil
	}
	scan, err := e.Store.ScanByID(step.Scan)
	if err != nil || scan == nil {
		return false, err
	}
	rest, err := e.Store.HoldOf(scan.Step)
	return price <= rest, err
}

// age is how long ago a run began, seen from a due instant if there is one: how late its
// successor is must not count. The run's own due instant tells nothing, since it follows
// those that the run is continued at.
func age(old *state.Run, due time.Time) time.Duration {
	if due.IsZero() {
		return time.Since(old.Started)
	}
	return due.Sub(old.Started)
}

// resumable is the age up to which an unfinished run is continued.
func (e *Engine) resumable(spec *job.Spec) time.Duration {
	next := spec.Next(time.Now(), e.Config.Timezone)
	if next.IsZero() {
		return resumeWithin
	}
	period := spec.Next(next, e.Config.Timezone).Sub(next)
	return min(period, resumeWithin)
}
