package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// begin starts or resumes the run that an order asks for. A manual order resumes an unfinished run
// if there is one. If a job cannot be resolved, for example because its SQL fails, a failed run is
// recorded that has spent nothing. The returned run is nil if there is none to perform. A [waitError]
// says when the run can start; until then, nothing has happened.
func (w *worker) begin(ctx context.Context, o *Order) (*runs.Run, error) {
	if w.engine.rekeyed(); o.Trigger == Manual { // a person wants to know whether the key is still refused
		if err := ledger.LiftBlock(w.engine.Store.DB, ledger.BlockKey, w.engine.Client.Key.Fingerprint()); err != nil {
			return nil, err
		}
	}
	old, err := o.unfinishedRun(w.engine)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return w.resume(o, old)
	}
	at, unsure, err := w.calls.startTime(ctx, o.Spec)
	switch {
	case judge(err).waits():
		return nil, err
	case unsure && ctx.Err() != nil: // a stop does not fail the run: the next start begins it
		return nil, context.Cause(ctx)
	}
	if waits := w.lookUpVideos(ctx, o, at); waits != nil {
		return nil, waits
	}
	row, err := w.openRun(ctx, o, at, unsure, err)
	if row == nil { // readers see that it failed
		return nil, errors.Join(err, w.publish(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("start a run of job %s: %w", o.Spec.Name, err)
	}
	return row, nil
}

// newRun returns the record of a new run of an order.
func (o *Order) newRun() (*runs.Run, error) {
	id, err := uuid.NewV7()
	return &runs.Run{
		ID: id.String(), Job: o.Spec.Name, Trigger: string(o.Trigger), Due: o.Due, Started: time.Now(), Status: runs.Running,
		Request: o.Spec.Request, Overridden: o.Spec.Overridden, RestOf: o.Spec.Rest, Urgent: o.urgent,
	}, err
}

// lookUpVideos fetches the details of videos that stand for their channels in the job's lists, if the tables
// do not have the channel's id. That is free. What is not found stays unknown, and the run names it. It
// returns an error if begin must be called again, or if the process stops.
func (w *worker) lookUpVideos(ctx context.Context, o *Order, at time.Time) error {
	unknown, err := o.facts(w.engine).Unknown(ctx, o.Spec, at)
	if err != nil {
		return nil // the run itself reports it
	}
	found := false
	for _, id := range unknown {
		if _, err := outlier.DataRequest(outlier.OpDetails, id); err != nil {
			continue // a handle
		}
		answered, err := w.engine.Store.Queue.Fresh(outlier.OpDetails, []string{id}, time.Time{}, time.Now())
		if err == nil && answered == 0 {
			task := &queue.Task{Op: outlier.OpDetails, Entity: id, Job: o.Spec.Name, Tries: w.calls.asks}
			err = w.perform(ctx, task, nil)
			w.calls.asks = task.Tries
		}
		switch {
		case judge(err).waits():
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			w.engine.log().Warn("channel of a video unknown", "job", o.Spec.Name, "entity", id, "err", err)
			return nil
		}
		found = true
	}
	if !found {
		return nil
	}
	return w.publish(ctx) // the SQL that looks for channels reads what readers see
}

// unfinishedRun returns the unfinished run that an order resumes; nil if it starts a new one.
func (o *Order) unfinishedRun(e *Engine) (*runs.Run, error) {
	switch {
	case o.Old != nil:
		return o.Old, nil
	case o.Due.IsZero():
		return o.facts(e).Continues(o.Spec)
	}
	return nil, nil
}

// resume resumes an unfinished run. If a due time waits for it, it ends when it has all its pages. Only its caps are
// taken from the order, unless it goes on where a stop or a kill has left it.
func (w *worker) resume(o *Order, old *runs.Run) (*runs.Run, error) {
	old.Urgent, old.ResumedFor, old.Key, old.Failures = cmp.Or(o.urgent, old.Urgent), o.Due, o.Key, 0
	if o.Trigger == Manual || !old.Status.Open() {
		old.Plan.UseReserve, old.Plan.MaxCredits = o.UseReserve, o.Spec.Budget.MaxCredits
		if err := w.engine.Store.Runs.TryAgain(old.ID); err != nil {
			return nil, err
		}
		old.Searched = false
	}
	if err := w.engine.Store.Runs.Resume(*old); err != nil {
		return nil, err
	}
	old.Status, old.Ended, old.Error = runs.Running, time.Time{}, ""
	return old, nil
}

// openRun records a new run and its steps as running. Its windows end at the given time, which is unsure if
// the service has not confirmed it; failed says why the time is unknown. If the run cannot start, openRun
// records it as failed and returns a nil run with the reason.
func (w *worker) openRun(ctx context.Context, o *Order, at time.Time, unsure bool, failed error) (
	*runs.Run, error) {
	if err := w.supersede(o); err != nil {
		return nil, err
	}
	row, err := o.newRun()
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failStart(w.engine.Store, *row, failed)
	}
	p, err := o.facts(w.engine).PlanNow(ctx, o.Spec, o.Trigger != Manual, at)
	if err != nil && ctx.Err() != nil { // a stop does not fail the run: the next start begins it
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, failStart(w.engine.Store, *row, err)
	}
	p.Stored.UseReserve, p.Stored.MaxCredits = o.UseReserve, o.Spec.Budget.MaxCredits
	if unsure {
		p.Stored.Unsure = at
	}
	if len(p.Stored.Fetch) > 0 {
		p.Stored.Since = cmp.Or(o.Due, row.Started)
	}
	row.Plan, row.Key = &p.Stored, o.Key
	return row, w.engine.Store.Runs.Begin(*row, p.Steps)
}

// failStart records a run that could not start, with the reason, and returns the reason.
func failStart(s *state.Store, row runs.Run, cause error) error {
	row.Status, row.Ended, row.Error = runs.Failed, time.Now(), cause.Error() // at once: it has no plan to go on with
	if err := s.Runs.Begin(row, nil); err != nil {
		return errors.Join(cause, err)
	}
	return errors.Join(cause, s.Supersede(row))
}

// supersede closes the unfinished runs that a new run of the job supersedes.
func (w *worker) supersede(o *Order) error {
	unfinished, err := o.facts(w.engine).Unfinished(o.Spec, o.Due)
	if err != nil {
		return err
	}
	for i := range unfinished {
		old := &unfinished[i].Run
		why := unfinished[i].Closes()
		if why == "" || old.InProgress() {
			continue // they do not affect each other; see [scheduler.startOrder]
		}
		if !job.IsOnce(old.Job) { // each one-off request is about something else
			w.engine.log().Info("run superseded", "job", old.Job, "run", old.ID, "status", old.Status, "why", why)
		}
		if err := closeRun(w.engine.Store, old); err != nil {
			return err
		}
	}
	return nil
}

// closeRun completes the record of a run that will not be resumed.
func closeRun(s *state.Store, old *runs.Run) error {
	if old.Status.Open() {
		if err := s.Runs.Tally(old); err != nil {
			return err
		}
	}
	return s.Supersede(*old)
}
