package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// A worker performs the runs in progress, one call at a time. Pages come first, because they bring new
// hits, and scans that are due for polling; then the data calls of all runs, by their value. Among pages, and
// among data calls, those of runs that a caller waits for come first.
//
// Concurrent calls would gain nothing. All jobs share the rate limit, and a call takes a fraction of
// the time until the next one may leave.
type worker struct {
	engine      *Engine
	calls       *caller
	loader      *load.Loader
	unkept      map[string]bool // runs whose end could not be recorded
	streak      int             // data calls that failed in a row
	pausedUntil time.Time       // no data call is made before this time, as the service does not answer
	pauses      int             // of the queue since the last successful call
	expired     time.Time       // when expired calls were last removed from the queue
	pruneAt     time.Time       // when the next step of pruning may follow; see [worker.upkeep]
	pruned      int64           // the last pruned answer, as logged; -1 before the first step
	turn        time.Time       // when the last turn began
	wake        time.Time       // when something else may be possible, as of the last turn

	byHand    bool      // a person waits for its only run
	patient   bool      // the schedule's: it makes all data calls, and runs wait while no sink works or the disk is full
	fullUntil time.Time // no scheduled page is bought before this time, as its answer might not be stored

	tell func(row *runs.Run, err error) // called when a run has ended, or cannot go on now
}

// expireEvery is the interval at which expired calls are removed from the queue.
const expireEvery = time.Hour

// newWorker opens the sinks and brings them up to the end of the journal.
func newWorker(ctx context.Context, e *Engine) (*worker, error) {
	loader, err := load.New(ctx, e.Store, e.Line, e.log(), e.beat.note)
	if err != nil {
		return nil, err
	}
	w := &worker{engine: e, loader: loader, pruned: -1, unkept: map[string]bool{}}
	w.calls = &caller{applier: applier{e, schema.NewDecoder(memory.DefaultAllocator)}, loader: loader}
	return w, loader.Load(ctx)
}

// Publish publishes everything in the journal, including what a killed process had not published.
func (e *Engine) Publish(ctx context.Context) error {
	w, err := newWorker(ctx, e)
	if err != nil {
		return err
	}
	return w.publish(ctx)
}

// Perform performs the run of an order without a schedule: it is the only one of its worker, and urgent. A manual order
// resumes the run that a kill, a cap or an outage left unfinished, if there is one. Perform returns the finished record
// and an error that says why the run failed. If ctx ends, the run stays unfinished and the error is the cause.
func (e *Engine) Perform(ctx context.Context, o *Order) (*runs.Run, error) {
	w, err := newWorker(ctx, e)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := w.usable(ctx, o); err != nil {
		return nil, err
	}
	var row *runs.Run
	var failed error
	w.tell = func(r *runs.Run, err error) { row, failed = r, err }
	w.byHand = o.Trigger == Manual
	begun, err := w.begin(ctx, o)
	for ; judge(err).waits(); begun, err = w.begin(ctx, o) {
		if err := sleep(ctx, min(time.Until(judge(err).retryAt), maxSleep)); err != nil {
			return nil, err
		}
	}
	if begun == nil {
		return nil, err
	}
	for row == nil {
		worked, err := w.work(ctx)
		if err == nil && !worked {
			err = sleep(ctx, time.Until(w.restsUntil()))
		}
		if err != nil && row == nil {
			if unread := w.detachUrgent(ctx, err); unread != nil {
				return nil, errors.Join(err, unread)
			}
		}
	}
	return row, failed
}

// usable returns an error if no run of an order can start: readers could not see what it buys, or its SQL would not
// see the rows of the job that it comes after. To publish those shows also whether a sink works that did not when the
// last process ended; a schedule tries that again by itself.
func (w *worker) usable(ctx context.Context, o *Order) error {
	follows := o.Trigger == After
	if err := checkSinks(w.loader, o); err != nil && follows && w.patient {
		return err
	}
	unseen, err := w.loader.Unseen()
	if err == nil && (follows && (unseen || w.loader.PagesIn) || !w.loader.DownSince().IsZero()) {
		err = w.publish(ctx)
	}
	return cmp.Or(err, checkSinks(w.loader, o))
}

// checkSinks returns an error if no sink works, or if the one is disabled that the SQL of a follow-up reads: the
// tables do not have the rows of the job that it comes after.
func checkSinks(l *load.Loader, o *Order) error {
	if !l.Working() {
		return &load.SinksDownError{Since: l.DownSince(), Err: l.Problems()}
	}
	if o.Trigger != After || len(o.Spec.SQL()) == 0 {
		return nil
	}
	if err := l.Problem(job.SinkDuckDB); err != nil {
		return fmt.Errorf("its SQL cannot see the rows of job %s yet, because sink %s is disabled; "+
			"run it when the sink works again: %w", o.Spec.After, job.SinkDuckDB, err)
	}
	return nil
}

// QueuedError ends a run that has all its pages and still has calls in the queue.
type QueuedError struct{ Err error }

func (e *QueuedError) Error() string { return "calls stay queued: " + e.Err.Error() }

func (e *QueuedError) Unwrap() error { return e.Err }

// work performs the next action. It reports false if there is nothing to do but wait. An error in one run ends that
// run; a returned error concerns all runs.
func (w *worker) work(ctx context.Context) (worked bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if w.calls.delay.seen.Before(w.turn) { // no call was delayed in the last turn
		w.calls.delay = delay{}
	}
	w.turn = time.Now()
	if err := w.engine.Store.DB.InPlace(); err != nil && !time.Now().Before(w.fullUntil) {
		return false, err
	}
	if err := w.loader.Retry(ctx, false); err != nil {
		return false, err
	}
	if err := w.expire(); err != nil {
		return false, err
	}
	if err := w.publishIfDue(ctx); err != nil {
		return false, err
	}
	f, err := w.look()
	for err == nil && !worked {
		switch a := f.next(); a.kind {
		case wait:
			rest := maxRest
			if len(f.runs)+len(w.unkept) > 0 {
				rest = maxSleep
			}
			w.wake = soonest(a.until, time.Now().Add(rest))
			return false, f.held
		case closeStep: // of which there may be many
			a.step.Stop, a.step.Left = a.stop, facts.PagesLeft(a.of.search.plan, a.step)
			err = a.of.saveStep(*a.step)
		case endRuns:
			w.endOver(ctx, a.over)
			worked = true
		case callData:
			worked, err = w.callData(ctx, f, a)
		default:
			worked = w.takeStep(ctx, f, a)
		}
	}
	return worked, err
}

// endOver ends runs that have nothing left to do, or no time for it.
func (w *worker) endOver(ctx context.Context, over []*run) {
	for _, r := range over {
		if r.err == nil {
			r.err = r.endCause(r.nextDue)
		}
	}
	w.endAll(ctx, over)
}

// expire removes expired calls from the queue, once an hour, and first as soon as the service has confirmed the time.
func (w *worker) expire() error {
	if !w.engine.Store.Clock.Agreed() || time.Since(w.expired) < expireEvery {
		return nil
	}
	w.expired = time.Now()
	return w.engine.Store.Queue.Expire(w.engine.Store.DB)
}

// maxRest is the maximum time between two looks at the state while no run is in progress and nothing changes.
const maxRest = 15 * time.Minute

// restsUntil returns when there may be something to do.
func (w *worker) restsUntil() time.Time {
	until := soonest(w.wake, w.loader.NextRetry())
	if at := w.loader.PublishAt(); w.loader.PagesIn || w.loader.Marked || at.After(time.Now()) {
		until = soonest(until, at)
	}
	if w.pausedUntil.After(time.Now()) {
		until = soonest(until, w.pausedUntil)
	}
	return until
}

// publishIfDue publishes what is new, when that is due: answers, what people have marked, and what the job file leaves
// out since it was edited or since midnight. Answers stay in the journal until then: to read them from there one by one
// costs more than to load them.
func (w *worker) publishIfDue(ctx context.Context) error {
	l := w.loader
	l.Marked = w.engine.marked.Swap(false) || l.Marked
	if !l.PublishDue() {
		return nil
	}
	unseen, err := l.Unseen()
	l.PagesIn = l.PagesIn && unseen // else the pages were reused from the journal
	omits, failed := l.OmitDue()
	if err = errors.Join(err, failed); err != nil || !unseen && !omits && !l.Marked {
		return err
	}
	return w.publish(ctx)
}

// publish publishes everything in the journal.
func (w *worker) publish(ctx context.Context) error {
	if err := w.loader.Load(ctx); err != nil {
		return err
	}
	return w.loader.Publish(ctx)
}

// callData makes a data call: of an urgent run, or of all. It reports false if the call has to wait for the limiter:
// before the next slot, a page may come due, or a call of higher value.
func (w *worker) callData(ctx context.Context, f *workFacts, a action) (worked bool, err error) {
	task, waiters := a.task, f.waiters(a.task)
	err = w.perform(ctx, task, waiters)
	v := judge(err)
	switch {
	case err == nil:
		w.streak, w.pauses, w.pausedUntil = 0, 0, time.Time{}
		return true, nil
	case v.waits() && task.NotBefore.After(time.Now()): // while it waits to be repeated, others are made
		return true, nil
	case v.waits():
		for _, r := range f.runs {
			r.task = nil
		}
		f.task, f.wake = nil, soonest(f.wake, v.retryAt)
		return false, nil
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case v.scope < ofRun:
		if failed := countCall(w.engine.Store.DB, waiters, true); failed != nil {
			return true, failed
		}
		if w.streak++; w.streak < failuresInARow {
			happened := "call failed and stays queued"
			if v.kind == outlier.Invalid {
				happened = "call refused and not repeated"
			}
			w.engine.log().Warn(happened, "job", task.Job, "run", task.Run, "op", task.Op, "entity", task.Entity, "err", err)
			return true, nil
		}
		w.streak = 0
		err = fmt.Errorf("%d calls failed in a row, the last: %w", failuresInARow, err)
	}
	if a.of != nil && v.passes() {
		w.detach(ctx, a.of, err)
		return true, nil
	}
	return true, err
}

// countCall counts a data call of the runs that wait for it: one that has failed, or else an empty answer.
func countCall(in store.Writer, waiters []*run, failed bool) (err error) {
	for _, r := range waiters {
		err = errors.Join(err, runs.CountCall(in, r.row.ID, failed))
	}
	return err
}

// inProgress are the runs in progress, urgent ones first.
type inProgress []*run

// inProgress reads the runs in progress.
func (w *worker) inProgress(in *state.Store) (all inProgress, err error) {
	rows, err := in.Runs.InProgress()
	for i := range rows {
		if !w.unkept[rows[i].ID] {
			all = append(all, w.runOf(rows[i]))
		}
	}
	return all, err
}

func (all inProgress) find(is func(*run) bool) *run {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

// ofJob returns the run of a job with overrides, or without; nil if the job has no such run.
func (all inProgress) ofJob(name string, overridden bool) *run {
	return all.find(func(r *run) bool { return r.row.Job == name && r.row.Overridden == overridden })
}

// byID returns the run with this id, or nil.
func (all inProgress) byID(id string) *run {
	return all.find(func(r *run) bool { return r.row.ID == id })
}
