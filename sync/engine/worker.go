package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/schema"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// A worker works on the runs that are under way, one call at a time, the most urgent
// first: pages, which bring what is new; then scans that it is time to poll; then
// the data calls of all runs, by what they are worth.
//
// Nothing would be gained by more calls at once. The pace is shared by all jobs, and a
// call takes a fraction of the time after which the next one may leave.
type worker struct {
	engine      *Engine
	loader      *loader
	decoder     *schema.Decoder // checks an answer before it is believed
	runs        []*run          // in the order in which they were begun
	filter      queue.Filter    // whose data calls are made: those of one job, or all
	streak      int             // of them that failed one after another
	calls       int
	made        map[string]int64 // requests, by run
	pausedUntil time.Time        // until when no data call is made: the service does not answer
	pauses      int              // of the queue since a call was answered
	owing       bool             // jobs that come after others may have to run
	expired     time.Time        // when the queue was last cleared of calls that have expired
	slot        time.Time        // when the limiter lets the next data call leave, if one waits for it
	charged     string           // the run that the call counts for, if the one that asked first is over

	patient bool // the schedule's: a run waits while no sink works; else it ends

	onEnd func(*run) // called when a run has ended; nil for nothing
}

// expireEvery is how often the queue is cleared of calls that have expired. They are not made
// in any case.
const expireEvery = time.Minute

// newWorker asks the sinks where they stand, and lets them catch up.
func (e *Engine) newWorker(ctx context.Context, filter queue.Filter) (*worker, error) {
	loader, err := newLoader(ctx, e.Store, e.Sinks, e.log())
	if err != nil {
		return nil, err
	}
	loader.beats = e.beats
	s := &worker{
		engine: e, loader: loader, decoder: schema.NewDecoder(memory.DefaultAllocator),
		filter: filter, made: map[string]int64{},
	}
	return s, loader.load(ctx, true)
}

// Run performs spec for a due instant. By hand, for which due is zero, it goes on with
// the run that a kill, a cap or an outage left unfinished, if there is one. It returns
// the finished record; the error says why a run failed, or that ctx ended, in which case
// the run stays unfinished.
func (e *Engine) Run(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*runs.Run, error) {
	return e.workOn(ctx, spec, trigger, false, func(ctx context.Context, s *worker) (*run, error) {
		return s.begin(ctx, spec, trigger, due)
	})
}

// Resume goes on with one of the [facts.Reader.Unfinished] runs of spec, and returns as
// [Engine.Run] does. Where a due instant waits for it, which is zero if none does, the run
// ends when it has its pages.
func (e *Engine) Resume(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time,
	old *runs.Run) (*runs.Run, error) {
	return e.workOn(ctx, spec, trigger, !due.IsZero(), func(ctx context.Context, s *worker) (*run, error) {
		return s.resume(ctx, spec, trigger, old)
	})
}

// workOn works on one run until it has ended, or only until it has its pages.
func (e *Engine) workOn(ctx context.Context, spec *job.Spec, trigger Trigger, pages bool,
	take func(context.Context, *worker) (*run, error)) (*runs.Run, error) {
	if trigger == Manual {
		ctx = pace.Urgent(ctx)
	}
	s, err := e.newWorker(ctx, queue.Filter{Job: spec.Name})
	if err != nil {
		return nil, err
	}
	// SQL after another job must find what that one has brought, also where it was killed; and
	// whether a sink works that did not when the last process ended shows when it publishes.
	if trigger == After || !s.loader.downSince.IsZero() {
		if err := s.publish(ctx); err != nil {
			return nil, err
		}
	}
	if !s.loader.working() { // what it buys could not be seen
		return nil, &SinksDownError{Since: s.loader.downSince, Err: s.loader.problems()}
	}
	if trigger == After {
		if err := s.loader.stale(spec); err != nil {
			return nil, err
		}
	}
	r, err := take(ctx, s)
	if r == nil {
		return nil, err
	}
	for !r.ended {
		worked, err := s.work(ctx)
		switch {
		case err != nil || r.ended:
		case pages && r.searched:
			err = r.endForNext(ctx)
		case !worked && s.loader.pagesIn && s.loader.publishDue():
			err = s.publish(ctx)
		case !worked:
			err = r.await(ctx)
		}
		if err != nil && !r.ended {
			if r.searched && outage(err) {
				err = &QueuedError{err}
			}
			r.end(ctx, err)
		}
	}
	return &r.row, r.err
}

// outage reports whether it is the service that cannot be worked with for now.
func outage(err error) bool {
	kind := kindOf(err)
	return kind != "" && kind != outlier.Unauthorized && !isNotService(err)
}

// QueuedError ends a run that has its pages while calls of it stay queued.
type QueuedError struct{ Err error }

func (e *QueuedError) Error() string { return "calls stay queued: " + e.Err.Error() }

func (e *QueuedError) Unwrap() error { return e.Err }

// work does the most urgent thing that can be done now. It reports false if all that
// is left to do is to wait. What goes wrong for one run ends that run; an error that
// is returned concerns all runs.
func (w *worker) work(ctx context.Context) (worked bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err := w.loader.retry(ctx, false); err != nil {
		return false, err
	}
	for _, r := range w.runs {
		if r.searched {
			continue
		}
		worked, err := r.search(ctx)
		if tooLong(err) {
			return false, err
		}
		if isSinksDown(err) && w.patient {
			continue
		}
		if err != nil {
			r.end(ctx, err)
			return true, nil
		}
		if worked {
			return true, w.load(ctx)
		}
	}
	next, err := w.engine.Store.Queue.NextTask(time.Now(), w.filter)
	if err != nil {
		return false, err
	}
	if ended, err := w.endDone(ctx, next); ended || err != nil {
		return ended, err
	}
	return w.ask(ctx, next)
}

// endDone ends the runs that have nothing left to do, or no time for it. Next is the next
// data call, so that the queue is not asked whether one waits for the runs that want it.
func (w *worker) endDone(ctx context.Context, next *queue.Task) (ended bool, err error) {
	var over []*run
	for _, r := range w.runs {
		if !r.searched {
			continue
		}
		var done bool
		if next != nil && slices.Contains(next.Wanting(), r.row.Job) {
			done = r.mayNotAsk()
		} else if done, err = r.done(); err != nil {
			break
		}
		if done {
			over = append(over, r)
		}
	}
	if len(over) > 0 {
		w.endAll(ctx, over, func(r *run) error { return cmp.Or(r.trouble, r.capped) })
	}
	return len(over) > 0, err
}

// load lets the sinks follow from time to time, and readers see it when that is due.
func (w *worker) load(ctx context.Context) error {
	if !w.loader.publishDue() {
		if w.calls++; w.calls%loadEvery != 0 && !w.loader.behind {
			return nil
		}
		return w.loader.load(ctx, false)
	}
	return w.publish(ctx)
}

// publish shows readers all that the journal has.
func (w *worker) publish(ctx context.Context) error {
	if err := w.loader.load(ctx, true); err != nil {
		return err
	}
	return w.loader.publishAll(ctx)
}

// ask makes the data call that is worth most of those that may be made now, if there is one.
// It does not wait for the limiter with a call in its hands: until there is a slot, a page may
// come due, or something of more worth.
func (w *worker) ask(ctx context.Context, task *queue.Task) (worked bool, err error) {
	w.slot = time.Time{}
	if time.Now().Before(w.pausedUntil) {
		return false, nil
	}
	if time.Since(w.expired) >= expireEvery {
		if more, err := w.engine.Store.Queue.Expire(); more || err != nil {
			return more, err
		}
		w.expired = time.Now()
	}
	if task == nil {
		return false, nil
	}
	waiters := w.waiters(task)
	if w.filter.Job != "" && len(waiters) == 0 {
		return false, nil // its run waits for a scan, and that is all that it may still do
	}
	if at, err := w.engine.Pace.Slot(ctx, task.Op); err != nil {
		return false, fmt.Errorf("%s: %w", task, err)
	} else if at.After(time.Now()) {
		w.slot = at
		for _, r := range waiters {
			r.doing(task.String())
		}
		return false, nil
	}
	w.charged = w.chargedRun(task, waiters)
	err = w.perform(ctx, task, waiters)
	w.charged = ""
	switch {
	case err == nil:
		w.streak, w.pauses = 0, 0
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case fatal(err):
		return true, err
	default:
		for _, r := range waiters {
			r.progress.Failures++
		}
		if w.streak++; w.streak >= failuresInARow {
			w.streak = 0
			return true, fmt.Errorf("%d calls failed in a row, the last: %w", failuresInARow, err)
		}
		happened := "call failed and stays queued"
		if kindOf(err) == outlier.Invalid {
			happened = "call refused and not repeated"
		}
		w.engine.log().Warn(happened, "job", task.Job, "op", task.Op, "entity", task.Entity, "err", err)
	}
	return true, w.load(ctx)
}

// waiters are the runs under way that wait for a call: each of them counts it as done.
// On record it is the run's that asked first, whether or not that is among them. A run
// that may do no more waits for nothing, and its queue outlives it.
func (w *worker) waiters(task *queue.Task) (all []*run) {
	for _, name := range task.Wanting() {
		if r := w.runOf(name); r != nil && !r.spent() {
			all = append(all, r)
		}
	}
	return all
}

// chargedRun is the run whose requests a call counts among, if the one that asked first is not
// under way: the first that waits for it. On record the call stays that of the other.
func (w *worker) chargedRun(task *queue.Task, waiters []*run) string {
	if len(waiters) == 0 || slices.ContainsFunc(w.runs, func(r *run) bool { return r.row.ID == task.Run }) {
		return ""
	}
	return waiters[0].row.ID
}

// runOf is the run under way of a job; nil if there is none.
func (w *worker) runOf(name string) *run {
	for _, r := range w.runs {
		if r.row.Job == name {
			return r
		}
	}
	return nil
}
