package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
)

// begin begins the run that an order asks for. One by hand goes on with what is unfinished, if
// there is anything. A job that cannot be resolved, as when its SQL fails, has a run too: one
// that failed before it spent anything. The run is nil if there is no record of it. A
// [waitError] says when it can begin: nothing has happened.
func (w *worker) begin(ctx context.Context, o *Order) (*run, error) {
	if err := w.rekey(o.Trigger); err != nil {
		return nil, err
	}
	old, err := o.continues(w.engine)
	switch {
	case err != nil:
		return nil, err
	case old != nil:
		return w.resume(ctx, o, old)
	case o.Rest != nil:
		return w.beginRest(ctx, o)
	}
	at, unsure, err := w.openingTime(ctx, o.Spec)
	switch {
	case isWaiting(err):
		return nil, err
	case unsure && ctx.Err() != nil: // a stop is no failure of the run: the next start begins it
		return nil, context.Cause(ctx)
	}
	row, err := w.open(ctx, o, at, unsure, err)
	if row == nil { // readers see that it failed
		return nil, errors.Join(err, w.publish(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("start a run of job %s: %w", o.Spec.Name, err)
	}
	r, err := w.take(ctx, row, o)
	if err == nil {
		r.joinLive(ctx)
	}
	return r, err
}

// continues is the unfinished run that an order goes on with; nil if it is for a new one.
func (o *Order) continues(e *Engine) (*runs.Run, error) {
	switch {
	case o.Old != nil:
		return o.Old, nil
	case o.Rest != nil:
		return o.Rest.Run, nil
	case o.Due.IsZero():
		return o.facts(e).Continues(o.Spec)
	}
	return nil, nil
}

// resume goes on with an unfinished run. It ends when it has its pages if a due instant waits
// for it.
func (w *worker) resume(ctx context.Context, o *Order, old *runs.Run) (*run, error) {
	if err := w.engine.Store.Runs.Resume(old.ID); err != nil {
		return nil, err
	}
	r, err := w.take(ctx, old, o)
	if err == nil {
		r.forNext = !o.Due.IsZero()
	}
	return r, err
}

// rekey takes up a new key. A person who runs a job wants to know whether the old one is
// still refused.
func (w *worker) rekey(trigger Trigger) error {
	w.engine.rekeyed()
	if trigger == Manual {
		return w.engine.lift(ledger.BlockKey)
	}
	return nil
}

// open puts a new run with its steps on record as running. Its windows end at the given time,
// which is unsure if the service has not confirmed it; failed says why there is no time.
func (w *worker) open(ctx context.Context, o *Order, at time.Time, unsure bool, failed error) (
	*runs.Run, error) {
	now, spec := time.Now(), o.Spec
	if err := w.supersede(spec, o.Due); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	row := runs.Run{
		ID: id.String(), Job: spec.Name, Trigger: string(o.Trigger), Due: o.Due, Started: now,
		Status: runs.Running, Config: spec.Hash, Overridden: spec.Overridden,
	}
	if failed != nil {
		return nil, w.engine.failedStart(row, failed)
	}
	p, err := o.facts(w.engine).PlanNow(ctx, spec, o.Trigger != Manual, at)
	if err != nil && ctx.Err() != nil { // a stop is no failure of the run: the next start begins it
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, w.engine.failedStart(row, err)
	}
	if unsure {
		p.Stored.Unsure = at
	}
	if len(p.Stored.Fetch) > 0 {
		p.Stored.Since = cmp.Or(o.Due, now)
	}
	if row.Plan, err = p.Stored.Encode(); err != nil {
		return nil, err
	}
	return &row, w.engine.Store.Runs.Begin(row, facts.StepsOf(p))
}

// failedStart records a run that could not even begin, and says why.
func (e *Engine) failedStart(row runs.Run, cause error) error {
	if err := e.Store.Runs.Begin(row, nil); err != nil {
		return errors.Join(cause, err)
	}
	row.Status, row.Ended, row.Error = runs.Failed, time.Now(), cause.Error()
	return errors.Join(cause, e.Store.Supersede(row))
}

// supersede closes the unfinished runs whose place a new run of the job takes.
func (w *worker) supersede(spec *job.Spec, due time.Time) error {
	closed, _, err := w.engine.Facts().Displaced(spec, due)
	if err != nil {
		return err
	}
	for i := range closed {
		old := &closed[i]
		if w.underWay(old.ID) != nil {
			continue // they leave each other alone; see [scheduler.beginOrder]
		}
		if w.patient { // a command prints it
			w.engine.log().Info("run superseded", "job", old.Job, "run", old.ID, "status", old.Status)
		}
		if err := w.engine.close(old); err != nil {
			return err
		}
	}
	return nil
}

// close ends the record of a run that is not continued.
func (e *Engine) close(old *runs.Run) error {
	if old.Status.Open() {
		steps, err := e.Store.Runs.Steps(old.ID)
		if err != nil {
			return err
		}
		if err := e.tally(old, steps); err != nil {
			return err
		}
	}
	return e.Store.Supersede(*old)
}
