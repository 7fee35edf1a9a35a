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

// begin begins the run of a due instant, or one by hand, for which due is zero. A run by hand
// goes on with what is unfinished, if there is anything. A job that cannot be resolved, as when
// its SQL fails, has a run too: one that failed before it spent anything. The run is nil if
// there is no record of it.
func (w *worker) begin(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*run, error) {
	if due.IsZero() {
		old, err := w.engine.Facts().Continues(spec)
		if err != nil {
			return nil, err
		}
		if old != nil {
			return w.resume(ctx, spec, trigger, old)
		}
	}
	if err := w.rekey(trigger); err != nil {
		return nil, err
	}
	row, err := w.open(ctx, spec, trigger, due)
	if row == nil { // readers see that it failed
		return nil, errors.Join(err, w.publish(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("begin a run of job %s: %w", spec.Name, err)
	}
	r, err := w.take(ctx, row, spec.Budget)
	if err == nil {
		r.joinLive(ctx)
	}
	return r, err
}

// resume goes on with an unfinished run.
func (w *worker) resume(ctx context.Context, spec *job.Spec, trigger Trigger, old *runs.Run) (*run, error) {
	if err := w.rekey(trigger); err != nil {
		return nil, err
	}
	if err := w.engine.Store.Runs.Resume(old.ID); err != nil {
		return nil, err
	}
	return w.take(ctx, old, spec.Budget)
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

// open puts a new run with its steps on record as running.
func (w *worker) open(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (
	*runs.Run, error) {
	now := time.Now()
	if err := w.supersede(spec, due); err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	row := runs.Run{
		ID: id.String(), Job: spec.Name, Trigger: string(trigger), Due: due, Started: now,
		Status: runs.Running, Config: spec.Hash, Overridden: spec.Overridden,
	}
	at, unsure, err := w.openingTime(ctx, spec)
	if err != nil {
		return nil, w.engine.failedStart(row, err)
	}
	p, err := w.engine.Facts().PlanNow(ctx, spec, trigger != Manual, at)
	if err != nil && ctx.Err() != nil { // a stop is no failure of the run: the next start begins it
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, w.engine.failedStart(row, err)
	}
	if unsure {
		p.Frozen.Unsure = at
	}
	if len(p.Frozen.Fetch) > 0 {
		p.Frozen.Since = cmp.Or(due, now)
	}
	if row.Plan, err = p.Frozen.Encode(); err != nil {
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
