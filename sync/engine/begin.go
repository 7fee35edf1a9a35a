package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// resumeWithin is how old an unfinished run may be and still be continued. For a job
// with a shorter period it is that period, because after it the window of the next
// run covers what was left.
const resumeWithin = 24 * time.Hour

// begin begins the run of a due instant, or one by hand, for which due is zero: that goes
// on with what is unfinished, if there is anything. A job that cannot be resolved, as when
// its SQL fails, has a run too: one that failed before it spent anything. The run is nil if
// there is no record of it.
func (w *worker) begin(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*run, error) {
	if due.IsZero() {
		old, err := w.engine.Continues(spec)
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
func (w *worker) open(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*runs.Run, error) {
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
	p, err := w.engine.resolve(ctx, spec, trigger, at)
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
	return &row, w.engine.Store.Runs.Begin(row, stepsOf(p))
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
	closed, _, err := w.engine.Displaced(spec, due)
	if err != nil {
		return err
	}
	for i := range closed {
		old := &closed[i]
		if w.patient { // a command has told it
			w.engine.log().Info("run superseded", "job", old.Job, "run", old.ID, "status", old.Status)
		}
		if err := w.engine.close(old); err != nil {
			return err
		}
	}
	return nil
}

// Displaced are the unfinished runs that a new run of the job closes as it takes their place,
// and those that it leaves as they are: the job's own run and one that a person has
// overridden leave each other alone, and one that has paid for a scan is continued by the
// job's next runs, which is not done for what was asked for once.
func (e *Engine) Displaced(spec *job.Spec, due time.Time) (closed, left []runs.Run, err error) {
	all, err := e.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, old := range all {
		held, goesOn, err := e.standing(spec, &old, due)
		switch {
		case err != nil:
			return nil, nil, err
		case held && e.Config.Job(spec.Name) != nil || goesOn && old.Overridden != spec.Overridden:
			left = append(left, old)
		default:
			closed = append(closed, old)
		}
	}
	return closed, left, nil
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

// going is an unfinished run that goes on.
type going struct {
	runs.Run
	held bool // it has paid for a scan
}

// goingOn are the unfinished runs of a job that go on: first those that have paid for a
// scan, then the newest.
func (e *Engine) goingOn(spec *job.Spec, due time.Time) (rows []going, err error) {
	all, err := e.Store.Runs.Unfinished(spec.Name)
	if err != nil {
		return nil, err
	}
	var others []going
	for i := range all {
		held, goesOn, err := e.standing(spec, &all[i], due)
		switch {
		case err != nil:
			return nil, err
		case !goesOn:
		case held:
			rows = append(rows, going{all[i], held})
		default:
			others = slices.Insert(others, 0, going{all[i], held})
		}
	}
	return append(rows, others...), nil
}

// Unfinished are the runs of a job that go on before its run of a due instant or by hand
// begins; due is zero for one by hand. The job leaves a run alone that a person has
// overridden, unless it has paid for a scan; the same overrides go on with nothing else.
func (e *Engine) Unfinished(spec *job.Spec, due time.Time) (rows []runs.Run, err error) {
	if e.Afresh {
		return nil, nil
	}
	all, err := e.goingOn(spec, due)
	for _, old := range all {
		if sameWay(spec, &old.Run) || old.held && !spec.Overridden {
			rows = append(rows, old.Run)
		}
	}
	return rows, err
}

// sameWay reports whether a run does what spec says: what the job's file says or said, or what
// a person asked for with the same overrides.
func sameWay(spec *job.Spec, run *runs.Run) bool {
	return run.Overridden == spec.Overridden && (!spec.Overridden || run.Config == spec.Hash && Flags(run) == spec.Flags)
}

// Flags are the flags of the command that began an overridden run, as they are typed; "" for
// other runs, and where they are not on record.
func Flags(run *runs.Run) string {
	frozen, err := plan.Thaw(run.Plan)
	if err != nil || !run.Overridden {
		return ""
	}
	return frozen.Flags
}

// Command is the command that goes on with an unfinished run.
func Command(run *runs.Run) string {
	if frozen, err := plan.Thaw(run.Plan); err == nil && frozen.Backfill != nil {
		return fmt.Sprintf("outlierd backfill %s %s --max-credits %d", run.Job, frozen.Flags, frozen.Cap)
	}
	return strings.TrimSpace("outlierd run " + run.Job + " " + Flags(run))
}

// LeftOver are the unfinished runs that a schedule goes on with at once,
// without a due instant: runs of the schedule that were stopped or killed, and runs that
// have paid for a scan, whatever started them. Another run by hand is its person's to
// continue, and one that failed is its job's next instant's.
func (e *Engine) LeftOver(spec *job.Spec) (rows []runs.Run, err error) {
	all, err := e.Unfinished(spec, time.Time{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		old := &all[i]
		steps, err := e.Store.Runs.Steps(old.ID)
		if err != nil {
			return nil, err
		}
		held, err := e.holdsScan(steps)
		if err != nil {
			return nil, err
		}
		if held || old.Status.Open() && old.Trigger != string(Manual) {
			rows = append(rows, *old)
		}
	}
	return rows, nil
}

// Continues is the unfinished run with which a run by hand goes on; nil if it is a new one.
func (e *Engine) Continues(spec *job.Spec) (*runs.Run, error) {
	rows, err := e.Unfinished(spec, time.Time{})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if sameWay(spec, &rows[i]) {
			return &rows[i], nil
		}
	}
	return nil, nil
}

// standing reports whether an unfinished run has paid for a scan, and whether it is
// continued. It was killed, stopped, paused by a cap or failed for a reason that can pass;
// it must not be too old, and something can be done in it: one that reached its own cap,
// or whose request was refused, has come to its end. A scan that was paid for does not
// age, nor do the dates of a backfill; but where its own cap has no room for another page of its results, that is the
// end, too.
func (e *Engine) standing(spec *job.Spec, old *runs.Run, due time.Time) (held, goesOn bool, err error) {
	if len(old.Plan) == 0 {
		return false, false, nil
	}
	steps, err := e.Store.Runs.Steps(old.ID)
	if err != nil {
		return false, false, err
	}
	held, err = e.holdsScan(steps)
	if err != nil || !held && refused(steps) {
		return held, false, err
	}
	frozen, err := plan.Thaw(old.Plan)
	if err != nil {
		e.log().Warn("unfinished run left alone", "job", spec.Name, "run", old.ID, "err", err)
		return held, false, nil
	}
	if !held && frozen.Backfill == nil && age(old, due) > e.resumable(spec) {
		return held, false, nil
	}
	own := spec.Budget
	if frozen.Backfill != nil && spec.Dates == nil {
		own.PerRun = &frozen.Cap // it has a cap of its own
	}
	spent, err := e.usedUp(old, steps, own)
	return held, err == nil && !spent, err
}

// refused reports whether a search was closed for good and none is left to go on with.
func refused(steps []runs.Step) bool {
	return slices.ContainsFunc(steps, func(s runs.Step) bool { return slices.Contains(finals, s.Stop) }) &&
		!slices.ContainsFunc(steps, func(s runs.Step) bool { return s.Stop == "" })
}

// holdsScan reports whether a run has paid for a scan that it has not read.
func (e *Engine) holdsScan(steps []runs.Step) (bool, error) {
	for i := range steps {
		if paid, err := e.paidScan(&steps[i]); paid || err != nil {
			return paid, err
		}
	}
	return false, nil
}

// paidScan reports whether a step is about a scan that was paid for, or may have been,
// and that is not read to its end.
func (e *Engine) paidScan(step *runs.Step) (bool, error) {
	if step.Stop != "" || step.Op != outlier.OpStartScan {
		return step.Stop == "" && step.Scan != "", nil
	}
	scan, err := e.Store.Runs.ScanOf(step.ID)
	if err != nil || scan == nil {
		return false, err
	}
	return scan.State != runs.ScanRefused && scan.State != runs.ScanNotCreated, nil
}

// usedUp reports whether a run has something left to buy and no room for any of it under
// its own cap, or has made all its requests. A scan that was paid for is seen to its end,
// whatever number of requests that takes.
func (e *Engine) usedUp(old *runs.Run, steps []runs.Step, own job.JobBudget) (bool, error) {
	frozen, err := plan.Thaw(old.Plan)
	if err != nil {
		return false, err
	}
	spent, err := e.Store.Ledger.Spent(old.ID)
	if err != nil {
		return false, err
	}
	left := frozen.CapFor(own) - spent.Charged - spent.Unknown - spent.Reserved
	noRequests := frozen.MaxRequests > 0 && max(spent.Requests, old.Requests) >= int64(frozen.MaxRequests)
	p, err := e.continued(old.Job, frozen, steps, false)
	if err != nil {
		return false, err
	}
	open := false
	for i := range steps {
		if steps[i].Stop != "" {
			continue
		}
		open = true
		if awaits, err := e.Store.Ledger.Awaits(steps[i].ID); awaits || err != nil {
			return false, err // a page that was bought
		}
		if noRequests && !p.Steps[i].Paid {
			continue
		}
		held, err := e.heldFor(steps, &steps[i])
		if err != nil || p.Fits(i, left, held) {
			return false, err
		}
	}
	return open || noRequests, nil
}

// heldFor is what is left of what was set aside to read the scan whose results a step reads.
func (e *Engine) heldFor(steps []runs.Step, step *runs.Step) (outlier.Credits, error) {
	holder, err := e.holder(steps, step)
	if err != nil || holder == 0 {
		return 0, err
	}
	return e.Store.Ledger.HoldOf(holder)
}

// age is how long ago a run began, seen from a due instant if there is one: how late that
// is performed must not count.
func age(old *runs.Run, due time.Time) time.Duration {
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
