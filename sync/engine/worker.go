package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
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
	loader      *load.Loader
	decoder     *schema.Decoder // checks that an answer is usable
	runs        []*run          // in the order in which they started
	callers     []*OrderedRun   // that wait for runs, in the order of the requests
	streak      int             // data calls that failed in a row
	pausedUntil time.Time       // no data call is made before this time, as the service does not answer
	pauses      int             // of the queue since the last successful call
	expired     time.Time       // when expired calls were last removed from the queue
	pruneAt     time.Time       // when the next step of pruning may follow; see [worker.upkeep]
	pruned      int64           // the last pruned answer, as logged; -1 before the first step
	turn        time.Time       // when the last turn began
	nextSlot    time.Time       // when the first call that waits for the rate limit or a retry can leave
	delay       delay           // of the next call by the rate limit
	asks        outlier.Tries   // at questions that no row needs: the time, and the channels of videos
	timesAsked  int             // how often the service was asked for its time since the time was last agreed on

	patient   bool      // the schedule's: it makes all data calls, and runs wait while no sink works or the disk is full
	fullUntil time.Time // no scheduled page is bought before this time, as its answer might not be stored

	onEnd func(*run) // called when a run has ended; may be nil
}

// expireEvery is the interval at which expired calls are removed from the queue. They are never made,
// removed or not.
const expireEvery = time.Minute

// newWorker opens the sinks and brings them up to the end of the journal.
func (e *Engine) newWorker(ctx context.Context) (*worker, error) {
	loader, err := load.New(ctx, e.Store, e.Line, e.log(), e.noteBeat)
	if err != nil {
		return nil, err
	}
	w := &worker{engine: e, loader: loader, decoder: schema.NewDecoder(memory.DefaultAllocator), pruned: -1}
	if err := w.applyRecovered(); err != nil {
		return nil, err
	}
	return w, loader.Load(ctx, true)
}

// Run performs spec for a due time. With a zero due, which is a manual run, it resumes the run that a
// kill, a cap or an outage left unfinished, if there is one. It returns the finished record and an
// error that says why the run failed. If ctx ends, the run stays unfinished and the error is the cause.
func (e *Engine) Run(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*runs.Run, error) {
	return e.Perform(ctx, &Order{Spec: spec, Trigger: trigger, Due: due})
}

// Perform performs the run of an order as [Engine.Run] does, or only until it has all its pages. The run is the only
// one of its worker, and urgent.
func (e *Engine) Perform(ctx context.Context, o *Order) (*runs.Run, error) {
	w, err := e.newWorker(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.usable(ctx, o); err != nil {
		return nil, err
	}
	r, err := w.begin(ctx, o)
	for ; judge(err).waits(); r, err = w.begin(ctx, o) {
		if err := sleep(ctx, min(time.Until(judge(err).retryAt), maxSleep)); err != nil {
			return nil, err
		}
	}
	if r == nil {
		return nil, err
	}
	w.callers = []*OrderedRun{{order: *o, engine: e, run: r, done: make(chan struct{})}}
	for !r.ended {
		worked, err := w.work(ctx)
		if err == nil && !worked {
			var until time.Time
			if until, err = w.rest(ctx); err == nil {
				err = sleep(ctx, time.Until(until))
			}
		}
		if err != nil && !r.ended {
			r.endFor(ctx, err)
		}
	}
	return &r.row, r.err
}

// usable returns an error if no run of an order can start: readers could not see what it buys, or its
// SQL would not see the rows of the job that it comes after.
func (w *worker) usable(ctx context.Context, o *Order) error {
	// Publishing shows the SQL the rows of the parent job, even if the process was killed before it
	// published them. It also shows whether a sink works that did not when the last process ended.
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
	if r.searched && judge(err).outage() {
		err = &QueuedError{err}
	}
	r.end(ctx, err)
}

// QueuedError ends a run that has all its pages and still has calls in the queue.
type QueuedError struct{ Err error }

func (e *QueuedError) Error() string { return "calls stay queued: " + e.Err.Error() }

func (e *QueuedError) Unwrap() error { return e.Err }

// work performs the most urgent step that is possible now. It reports false if there is nothing to do
// but wait. An error in one run ends that run; a returned error concerns all runs.
func (w *worker) work(ctx context.Context) (worked bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if w.nextSlot = (time.Time{}); w.delay.seen.Before(w.turn) { // no call was delayed in the last turn
		w.delay = delay{}
	}
	w.turn = time.Now()
	if err := w.engine.Store.DB.InPlace(); err != nil && !time.Now().Before(w.fullUntil) {
		return false, err
	}
	if err := w.loader.Retry(ctx, false); err != nil {
		return false, err
	}
	urgent := w.urgent()
	for _, r := range urgent {
		if worked, err := w.searchFor(ctx, r, true); worked || err != nil {
			return worked, err
		}
	}
	var held error // what keeps the other runs from buying pages, while an urgent one may still make its data calls
	for _, r := range w.runs {
		if held != nil || slices.Contains(urgent, r) {
			continue
		}
		worked, err := w.searchFor(ctx, r, false)
		if worked {
			return true, err
		}
		held = err
	}
	for _, r := range urgent {
		if worked, err := w.fetchFor(ctx, r); worked || err != nil {
			return worked, err
		}
	}
	if held != nil || !w.patient {
		return false, held
	}
	return w.fetchNext(ctx, nil)
}

// rest publishes if that is due while there is nothing else to do, and returns when there may be, at most maxSleep
// from now.
func (w *worker) rest(ctx context.Context) (until time.Time, err error) {
	if w.loader.PublishDue() {
		unseen, err := w.loader.Unseen()
		switch {
		case err == nil && unseen:
			err = w.publish(ctx)
		case err == nil:
			w.loader.PagesIn = false // the pages were reused from the journal
		}
		if err != nil {
			return until, err
		}
	}
	until = soonest(time.Now().Add(maxSleep), soonest(w.nextSlot, w.loader.NextRetry()))
	if w.loader.PagesIn || w.loader.Marked {
		until = soonest(until, w.loader.PublishAt())
	}
	if w.pausedUntil.After(time.Now()) {
		until = soonest(until, w.pausedUntil)
	}
	retry, err := w.engine.Store.Queue.NextRetry(time.Now(), queue.Filter{})
	return soonest(until, retry), err
}

// fetchNext ends the runs that have nothing left to do, or makes the next data call: only that of an urgent run, or
// of all.
func (w *worker) fetchNext(ctx context.Context, urgent *run) (worked bool, err error) {
	of, all := queue.Filter{}, w.runs
	if urgent != nil {
		of.Job, all = urgent.row.Job, []*run{urgent}
	}
	next, err := w.engine.Store.Queue.NextTask(time.Now(), of)
	if err != nil {
		return false, err
	}
	if ended, err := w.endDone(ctx, all, next); ended || err != nil {
		return ended, err
	}
	return w.callNext(ctx, next, urgent)
}

// searchFor performs one step for the searches of a run. It reports false if there is nothing to do for them now.
// An error of a search ends the run, and one of all that is bought the wait of its callers. A returned error concerns
// all runs.
func (w *worker) searchFor(ctx context.Context, r *run, urgent bool) (worked bool, err error) {
	if r.searched || !urgent && time.Now().Before(w.fullUntil) {
		return false, nil
	}
	worked, err = r.search(ctx)
	scope := judge(err).scope
	switch {
	case urgent && scope > ofRun:
		w.detach(ctx, r, err)
		return true, nil
	case scope == ofAll:
		return false, err
	}
	if err := r.noteResumed(); err != nil {
		return false, err
	}
	switch {
	case w.patient && scope == ofPages:
		return false, nil
	case err != nil:
		r.end(ctx, err)
		return true, nil
	case !worked:
		return false, nil
	}
	if !w.fullUntil.IsZero() { // answers can be stored again
		w.pauses, w.pausedUntil, w.fullUntil = 0, time.Time{}, time.Time{}
	}
	return true, w.load(ctx)
}

// noteWait notes that a call cannot leave before a time.
func (w *worker) noteWait(until time.Time) { w.nextSlot = soonest(w.nextSlot, until) }

// endDone ends the runs that have nothing left to do, or no time for it. next is the next data call;
// the runs that want it need no further query of the queue.
func (w *worker) endDone(ctx context.Context, of []*run, next *queue.Task) (ended bool, err error) {
	var over []*run
	cause := map[*run]error{}
	for _, r := range of {
		if !r.searched {
			continue
		}
		pending, failed := r.pending(next)
		if failed != nil {
			err = failed
			break
		}
		if !pending || r.exhausted() {
			over, cause[r] = append(over, r), r.shortfall(pending)
		}
	}
	if len(over) > 0 {
		w.endAll(ctx, over, func(r *run) error { return cause[r] })
	}
	return len(over) > 0, err
}

// load adds the last answers to the loader's batch, and publishes when that is due.
func (w *worker) load(ctx context.Context) error {
	if w.loader.PublishDue() {
		return w.publish(ctx)
	}
	return w.loader.Load(ctx, false)
}

// publish publishes everything in the journal.
func (w *worker) publish(ctx context.Context) error {
	if err := w.loader.Load(ctx, true); err != nil {
		return err
	}
	return w.loader.Publish(ctx)
}

// callNext makes the data call with the highest value of those that may be made now, if there is one. It
// does not wait for the limiter: before the next slot, a page may come due, or a call of higher value.
// For an urgent run it makes only that run's calls, even while the queue is paused, which shows
// whether the service answers again.
func (w *worker) callNext(ctx context.Context, task *queue.Task, urgent *run) (worked bool, err error) {
	if urgent == nil && time.Now().Before(w.pausedUntil) {
		return false, nil
	}
	if time.Since(w.expired) >= expireEvery {
		w.expired = time.Now()
		var dropped bool
		err := w.engine.Store.DB.Update(func(tx *store.Tx) (err error) {
			dropped, err = w.engine.Store.Queue.Expire(tx)
			return err
		})
		if dropped || err != nil {
			return dropped, err
		}
	}
	if task == nil {
		return false, nil
	}
	waiters := w.waiters(task)
	if urgent != nil && !slices.Contains(waiters, urgent) {
		return false, nil // its run waits for a scan and may make no data calls
	}
	if at, err := w.engine.Pace.Slot(task.Op); err != nil {
		return false, fmt.Errorf("%s: %w", task, err)
	} else if now := time.Now(); at.After(now) {
		w.noteWait(at)
		w.noteDelay(now)
		for _, r := range waiters {
			r.doing(task.String())
		}
		return false, nil
	}
	err = w.perform(ctx, task, waiters)
	switch v := judge(err); {
	case err == nil:
		w.streak, w.pauses, w.pausedUntil = 0, 0, time.Time{}
	case v.waits():
		w.noteWait(v.retryAt)
		return task.NotBefore.After(time.Now()), nil // while it waits to be repeated, others are made
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case v.scope >= ofRun:
		return true, err
	default:
		for _, r := range waiters {
			r.row.Failures++
		}
		if w.streak++; w.streak >= failuresInARow {
			w.streak = 0
			return true, fmt.Errorf("%d calls failed in a row, the last: %w", failuresInARow, err)
		}
		happened := "call failed and stays queued"
		if v.kind == outlier.Invalid {
			happened = "call refused and not repeated"
		}
		w.engine.log().Warn(happened, "job", task.Job, "run", task.Run, "op", task.Op, "entity", task.Entity,
			"err", err)
	}
	return true, w.load(ctx)
}

// waiters returns the runs in progress that wait for a call; each of them counts it as done. The call is
// recorded for the run that queued it, even if that has ended. A run that has used up its time
// or its requests waits for no call, and its queue outlives it.
func (w *worker) waiters(task *queue.Task) (all []*run) {
	for _, name := range task.Wanting() {
		of := slices.DeleteFunc(slices.Clone(w.runs), func(r *run) bool { return r.row.Job != name || r.exhausted() })
		if i := slices.IndexFunc(of, func(r *run) bool { return r.row.ID == task.Run }); i >= 0 {
			of = of[i : i+1]
		}
		all = append(all, of...)
	}
	return all
}

// runByJob returns the run in progress of a job without overrides, or nil.
func (w *worker) runByJob(name string) *run {
	return w.find(func(r *run) bool { return r.row.Job == name && !r.row.Overridden })
}

// runByID returns the run in progress with this id, or nil.
func (w *worker) runByID(id string) *run {
	return w.find(func(r *run) bool { return r.row.ID == id })
}

func (w *worker) find(is func(*run) bool) *run {
	if i := slices.IndexFunc(w.runs, is); i >= 0 {
		return w.runs[i]
	}
	return nil
}
