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
	"outlierd/outlier/pace"
	"outlierd/schema"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// A worker works on the runs that are under way, one call at a time, the most urgent
// first: pages, which bring what is new; then scans that it is time to poll; then
// the data calls of all runs, by what they are worth.
//
// Nothing would be gained by more calls at once. The pace is shared by all jobs, and a
// call takes a fraction of the time after which the next one may leave.
type worker struct {
	engine       *Engine
	loader       *load.Loader
	decoder      *schema.Decoder // checks an answer before it is believed
	runs         []*run          // in the order in which they were begun
	filter       queue.Filter    // whose data calls are made: those of one job, or all
	streak       int             // of them that failed one after another
	calls        int
	made         map[string]int64 // requests, by run
	pausedUntil  time.Time        // until when no data call is made: the service does not answer
	pauses       int              // of the queue since a call was answered
	followUpsDue bool             // jobs that come after others may have to run
	expired      time.Time        // when the queue was last cleared of calls that have expired
	pruneAt      time.Time        // when the next step of pruning may follow; see [worker.upkeep]
	pruned       int64            // the last answer that is pruned, as the log has it; -1 before the first look
	slot         time.Time        // when the first call can leave that waits for the pace, or to be repeated
	tried        map[callKey]tries
	timesAsked   int    // how often the service was asked for its time since that was agreed on last
	asked        int    // how often somebody has asked for a run
	charged      string // the run that the call counts for, if the one that asked first is over

	patient   bool      // the schedule's: a run waits while no sink works or the disk is full; else it ends
	fullUntil time.Time // until when no scheduled page is bought: its answer might not be kept

	onEnd func(*run) // called when a run has ended; nil for nothing
}

// expireEvery is how often the queue is cleared of calls that have expired. They are not made
// in any case.
const expireEvery = time.Minute

// newWorker asks the sinks where they stand, and lets them catch up.
func (e *Engine) newWorker(ctx context.Context, filter queue.Filter) (*worker, error) {
	loader, err := load.New(ctx, e.Store, e.Sinks, e.log(), e.beats)
	if err != nil {
		return nil, err
	}
	s := &worker{
		engine: e, loader: loader, decoder: schema.NewDecoder(memory.DefaultAllocator),
		filter: filter, made: map[string]int64{}, tried: map[callKey]tries{}, pruned: -1,
	}
	return s, loader.Load(ctx, true)
}

// Run performs spec for a due instant. By hand, for which due is zero, it goes on with
// the run that a kill, a cap or an outage left unfinished, if there is one. It returns
// the finished record; the error says why a run failed, or that ctx ended, in which case
// the run stays unfinished.
func (e *Engine) Run(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*runs.Run, error) {
	return e.workOn(ctx, &Order{Spec: spec, Trigger: trigger, Due: due})
}

// Resume goes on with one of the [facts.Reader.Unfinished] runs of spec, and returns as
// [Engine.Run] does. Where a due instant waits for it, which is zero if none does, the run
// ends when it has its pages.
func (e *Engine) Resume(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time,
	old *runs.Run) (*runs.Run, error) {
	return e.workOn(ctx, &Order{Spec: spec, Trigger: trigger, Due: due, Old: old})
}

// workOn works on one run until it has ended, or only until it has its pages.
func (e *Engine) workOn(ctx context.Context, o *Order) (*runs.Run, error) {
	if o.Trigger == Manual {
		ctx = pace.Urgent(ctx)
	}
	s, err := e.newWorker(ctx, queue.Filter{Job: o.Spec.Name})
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, o); err != nil {
		return nil, err
	}
	r, err := s.begin(ctx, o)
	for ; isWaiting(err); r, err = s.begin(ctx, o) {
		if err := pause(ctx, min(time.Until(waitsUntil(err)), nap)); err != nil {
			return nil, err
		}
	}
	if r == nil {
		return nil, err
	}
	for !r.ended {
		worked, err := s.work(ctx)
		switch {
		case err != nil || r.ended:
		case r.forNext && r.searched:
			err = r.endForNext(ctx)
		case !worked && s.loader.PagesIn && s.loader.PublishDue():
			err = s.publish(ctx)
		case !worked:
			err = r.await(ctx)
		}
		if err != nil && !r.ended {
			r.endFor(ctx, err)
		}
	}
	return &r.row, r.err
}

// usable says why no run of an order can begin: what it buys could not be seen, or its SQL would
// not find what it is about.
func (w *worker) usable(ctx context.Context, o *Order) error {
	// SQL after another job must find what that one has brought, also where it was killed; and
	// whether a sink works that did not when the last process ended shows when it publishes.
	if o.Trigger == After || !w.loader.DownSince().IsZero() {
		if err := w.publish(ctx); err != nil {
			return err
		}
	}
	if !w.loader.Working() {
		return &load.SinksDownError{Since: w.loader.DownSince(), Err: w.loader.Problems()}
	}
	if o.Trigger == After {
		return w.stale(o.Spec)
	}
	return nil
}

// endFor ends a run because of err, when no caller waits for it any longer.
func (r *run) endFor(ctx context.Context, err error) {
	if r.searched && outage(err) {
		err = &QueuedError{err}
	}
	r.end(ctx, err)
}

// outage reports whether it is the service that cannot be worked with for now.
func outage(err error) bool {
	kind := kindOf(err)
	return kind != "" && kind != outlier.Unauthorized && !isNotService(err)
}

// cannotKeep reports whether an answer might not be kept: the disk is full, or the state was moved.
func cannotKeep(err error) bool {
	_, full := errors.AsType[*store.LowSpaceError](err)
	_, moved := errors.AsType[*store.MovedError](err)
	return full || moved
}

// isSinksDown reports whether a paid call was refused because no sink works.
func isSinksDown(err error) bool {
	_, down := errors.AsType[*load.SinksDownError](err)
	return down
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
	w.slot = time.Time{}
	if err := w.engine.Store.DB.InPlace(); err != nil && !time.Now().Before(w.fullUntil) {
		return false, err
	}
	if err := w.loader.Retry(ctx, false); err != nil {
		return false, err
	}
	if worked, err := w.workUrgent(ctx); worked || err != nil {
		return worked, err
	}
	for _, r := range w.runs {
		if r.searched || r.urgent > 0 || time.Now().Before(w.fullUntil) {
			continue
		}
		worked, err := r.search(ctx)
		if tooLong(err) || w.patient && cannotKeep(err) {
			return false, err
		}
		if worked && !w.fullUntil.IsZero() { // answers can be kept again
			w.pauses, w.pausedUntil, w.fullUntil = 0, time.Time{}, time.Time{}
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
	if ended, err := w.endDone(ctx, w.runs, next); ended || err != nil {
		return ended, err
	}
	return w.ask(ctx, next, nil)
}

// wait notes that a call cannot leave before a time.
func (w *worker) wait(until time.Time) {
	if w.slot.IsZero() || until.Before(w.slot) {
		w.slot = until
	}
}

// endDone ends the runs that have nothing left to do, or no time for it. Next is the next
// data call, so that the queue is not asked whether one waits for the runs that want it.
func (w *worker) endDone(ctx context.Context, of []*run, next *queue.Task) (ended bool, err error) {
	var over []*run
	for _, r := range of {
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

// loadEvery is how many calls go by before the journal is looked at again: the
// answers of free calls become durable in groups of about this size anyway.
const loadEvery = 64

// load lets the sinks follow from time to time, and readers see it when that is due.
func (w *worker) load(ctx context.Context) error {
	if !w.loader.PublishDue() {
		if w.calls++; w.calls%loadEvery != 0 && !w.loader.Behind() {
			return nil
		}
		return w.loader.Load(ctx, false)
	}
	return w.publish(ctx)
}

// publish shows readers all that the journal has.
func (w *worker) publish(ctx context.Context) error {
	if err := w.loader.Load(ctx, true); err != nil {
		return err
	}
	return w.loader.Publish(ctx)
}

// ask makes the data call that is worth most of those that may be made now, if there is one.
// It does not wait for the limiter with a call in its hands: until there is a slot, a page may
// come due, or something of more worth. For a run that somebody waits for, only its own calls
// are made, also while the queue is paused: they find out whether the service answers again.
func (w *worker) ask(ctx context.Context, task *queue.Task, urgent *run) (worked bool, err error) {
	if urgent == nil && time.Now().Before(w.pausedUntil) {
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
	if w.filter.Job != "" && len(waiters) == 0 || urgent != nil && !slices.Contains(waiters, urgent) {
		return false, nil // its run waits for a scan, and that is all that it may still do
	}
	if at, err := w.engine.Pace.Slot(ctx, task.Op); err != nil {
		return false, fmt.Errorf("%s: %w", task, err)
	} else if now := time.Now(); at.After(now) {
		w.wait(at)
		w.hold(callKey{run: task.Run, op: task.Op, entity: task.Entity}, now)
		for _, r := range waiters {
			r.doing(task.String())
		}
		return false, nil
	}
	streak := &w.streak
	if urgent != nil {
		streak = &urgent.streak
	}
	w.charged = w.chargedRun(task, waiters)
	err = w.perform(ctx, task, waiters)
	w.charged = ""
	switch {
	case err == nil:
		*streak, w.pauses, w.pausedUntil = 0, 0, time.Time{}
	case isWaiting(err):
		w.wait(waitsUntil(err))
		return false, nil
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case fatal(err):
		return true, err
	default:
		for _, r := range waiters {
			r.progress.Failures++
		}
		if *streak++; *streak >= failuresInARow {
			*streak = 0
			return true, fmt.Errorf("%d calls failed in a row, the last: %w", failuresInARow, err)
		}
		happened := "call failed and stays queued"
		if kindOf(err) == outlier.Invalid {
			happened = "call refused and not repeated"
		}
		w.engine.log().Warn(happened, "job", task.Job, "run", task.Run, "op", task.Op, "entity", task.Entity, "err", err)
	}
	return true, w.load(ctx)
}

// waiters are the runs under way that wait for a call: each of them counts it as done.
// On record it is the run's that asked first, whether or not that is among them. A run
// that may do no more waits for nothing, and its queue outlives it.
func (w *worker) waiters(task *queue.Task) (all []*run) {
	for _, name := range task.Wanting() {
		of := slices.DeleteFunc(slices.Clone(w.runs), func(r *run) bool { return r.row.Job != name || r.spent() })
		if i := slices.IndexFunc(of, func(r *run) bool { return r.row.ID == task.Run }); i >= 0 {
			of = of[i : i+1]
		}
		all = append(all, of...)
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

// runOf returns the run under way of a job, as its file has it, or nil.
func (w *worker) runOf(name string) *run {
	return w.find(func(r *run) bool { return r.row.Job == name && !r.row.Overridden })
}

// underWay returns the run under way with an id, or nil.
func (w *worker) underWay(id string) *run {
	return w.find(func(r *run) bool { return r.row.ID == id })
}

func (w *worker) find(is func(*run) bool) *run {
	if i := slices.IndexFunc(w.runs, is); i >= 0 {
		return w.runs[i]
	}
	return nil
}
