package engine

import (
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

// begin returns the run that Run continues, or a new one with its steps; both are on
// record as running.
func (e *Engine) begin(spec *job.Spec, trigger Trigger, due time.Time) (*state.Run, error) {
	old, err := e.Continues(spec, due)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return old, e.Store.Resume(old.ID, due)
	}
	now := time.Now()
	if err := e.giveUp(spec.Name, now); err != nil {
		return nil, err
	}
	steps, err := resolve(spec, now)
	if err != nil {
		return nil, err
	}
	plan, err := freeze(spec).encode()
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	row := state.Run{
		ID: id.String(), Job: spec.Name, Trigger: string(trigger), Due: due, Started: now,
		Status: state.Running, Plan: plan, Config: spec.Hash,
	}
	return &row, e.Store.Begin(row, steps)
}

// giveUp closes a run that was cut short and is too old to be continued.
func (e *Engine) giveUp(name string, now time.Time) error {
	old, err := e.Store.Unfinished(name)
	if err != nil || old == nil || old.Status != state.Running {
		return err
	}
	old.Status, old.Ended = state.Interrupted, now
	return e.Store.Finish(*old)
}

// Continues is the run that a run of spec, due at the given instant (zero for one by
// hand), would continue; nil if it would begin anew. A run is continued if it was
// killed, stopped, paused by a cap or failed for a reason that can pass, if it is not
// too old, and if something can be done in it: one that reached its own cap, or whose
// request was refused, has come to its end.
func (e *Engine) Continues(spec *job.Spec, due time.Time) (*state.Run, error) {
	old, err := e.Store.Unfinished(spec.Name)
	if err != nil || old == nil {
		return nil, err
	}
	if age(old, due) > e.resumable(spec) {
		return nil, nil
	}
	steps, err := e.Store.Steps(old.ID)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(steps, func(s state.Step) bool { return s.Stop == stopRefused || s.Stop == stopUnreadable }) {
		return nil, nil
	}
	spent, err := e.Store.Spent(old.ID)
	if err != nil {
		return nil, err
	}
	open := slices.ContainsFunc(steps, func(s state.Step) bool { return s.Stop == "" })
	held := spent.Charged + spent.Unknown + spent.Reserved
	if plan, err := thaw(old.Plan); err != nil {
		return nil, err
	} else if open && held+outlier.OpSearch.Price() > runCap(plan, spec.Budget) {
		return nil, nil
	}
	return old, nil
}

// age is how long ago a run was due, seen from another due instant, so that slots are
// compared with slots; or, where one of them was by hand, how long ago it began.
func age(old *state.Run, due time.Time) time.Duration {
	if due.IsZero() || old.Due.IsZero() {
		return time.Since(old.Started)
	}
	return due.Sub(old.Due)
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
