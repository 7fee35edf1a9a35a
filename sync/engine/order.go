package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// # Orders
//
// While one goroutine runs the schedule ([Engine.Serve]), others send it requests: to start a run
// ([Engine.Order]), or to call a function that changes the state ([Engine.Between]). The scheduler
// serves requests between two calls, even while it waits. It never cancels a call in progress for
// them, as the call may be paid for.
//
// The pages of an ordered run come before those of scheduled runs, and its data calls before theirs; pages
// that are due come before all data calls. An ordered run ends as a run that has the engine to itself ([Engine.Run]):
// it does not wait for the end of an outage or a long rate limit, because a person waits for it.

// An Order asks for a run. The schedule, and commands that work without one, also use orders.
type Order struct {
	Spec    *job.Spec // with overrides from flags
	Trigger Trigger
	Due     time.Time // zero for a manual run
	Old     *runs.Run // the unfinished run to resume; nil for a new run, or to let a manual run choose
	Rest    *Rest     // what to buy of an earlier run; else nil
	Key     runs.Key  // of a client that may repeat the order

	Afresh     bool // start a new run even if an unfinished one could be resumed
	UseReserve bool // let the run spend the budget's reserve

	ordered bool // by [Engine.Order], in this process or an earlier one
}

// facts returns a reader of what the order's plan depends on.
func (o *Order) facts(e *Engine) *facts.Reader {
	r := e.Facts()
	r.Afresh, r.UseReserve = o.Afresh, o.UseReserve
	return r
}

// ErrNotServing is returned for requests while no schedule is running in this process.
var ErrNotServing = errors.New("the scheduler is not running")

// CancelledError ends a run that was cancelled by a person.
type CancelledError struct{}

func (e *CancelledError) Error() string {
	return "the run was cancelled; everything that was paid for is stored"
}

// JobGoneError refuses to run a job that was removed from the job file or renamed in it after the run
// was requested.
type JobGoneError struct{ Job, Now string }

func (e *JobGoneError) Error() string {
	if e.Now != "" {
		return fmt.Sprintf("job %s is %s since the job file was reloaded; its run was not started, "+
			"and nothing was spent", e.Job, e.Now)
	}
	return fmt.Sprintf("job %s was removed when the job file was reloaded; its run was not started, "+
		"and nothing was spent", e.Job)
}

// RepeatedError is returned for an order whose key has a run already.
type RepeatedError struct{ Run *runs.Run }

func (e *RepeatedError) Error() string { return fmt.Sprintf("the key was used for run %s", e.Run.ID) }

// requests holds the requests to the goroutine that runs the schedule.
type requests struct {
	mu        sync.Mutex
	scheduler *scheduler    // that is running; nil if none is
	keeping   chan struct{} // closed when a schedule first runs; see [Engine.Keeping]
	kept      bool          // keeping is closed
	wake      chan struct{} // has room for one signal
	waiting   []*request    // oldest first
}

// open starts to accept requests.
func (q *requests) open(s *scheduler) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.scheduler, q.wake = s, make(chan struct{}, 1)
	if !q.kept {
		close(q.keepingChan())
		q.kept = true
	}
}

// keepingChan returns the channel that is closed when a schedule first runs.
func (q *requests) keepingChan() chan struct{} {
	if q.keeping == nil {
		q.keeping = make(chan struct{})
	}
	return q.keeping
}

// Keeping returns a channel that is closed once the schedule is running, so that requests that arrive
// while the process starts can wait for it. It stays closed when the schedule has ended.
func (e *Engine) Keeping() <-chan struct{} {
	e.requests.mu.Lock()
	defer e.requests.mu.Unlock()
	return e.requests.keepingChan()
}

// close refuses the pending requests and all later ones.
func (q *requests) close(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.waiting {
		r.answer(context.Cause(ctx))
	}
	q.scheduler, q.waiting = nil, nil
}

// put calls add, which appends a request, and wakes the scheduler.
func (q *requests) put(add func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.scheduler == nil {
		return ErrNotServing
	}
	add()
	select {
	case q.wake <- struct{}{}:
	default: // a signal is already pending
	}
	return nil
}

// A request is a function to call between two turns of the scheduler, or an order of a run.
type request struct {
	ctx     context.Context
	f       func(context.Context) error
	order   *OrderedRun
	retryAt time.Time // when to try again, if it waits for the rate limit
	err     error
	done    chan struct{}
}

func (r *request) answer(err error) {
	r.err = err
	close(r.done)
}

// send sends a request to the scheduler, and returns its error once it is answered.
func (q *requests) send(r *request) error {
	r.done = make(chan struct{})
	if err := q.put(func() { q.waiting = append(q.waiting, r) }); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-r.ctx.Done():
		_ = q.put(func() {}) // wakes it; without a schedule the request is already refused
		<-r.done
	}
	return r.err
}

// Between calls f between two turns of the scheduler, when no call is in progress, and returns its
// error. The context of f ends with ctx and with the schedule. f must not wait for another request. If f makes a
// call that the rate limit delays, the scheduler does not wait: it calls f again when the call may leave.
func (e *Engine) Between(ctx context.Context, f func(context.Context) error) error {
	return e.requests.send(&request{ctx: ctx, f: f})
}

// Cancel stops a run between two calls, for all who wait for it, and returns when it has stopped. As
// after a kill, a later run of the job can resume what was left.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	return e.Between(ctx, func(ctx context.Context) error {
		if w := e.requests.scheduler.worker; w != nil {
			if r := w.runByID(id); r != nil {
				r.end(ctx, &CancelledError{})
				return nil
			}
		}
		return fmt.Errorf("run %s is not in progress", id)
	})
}

// PublishSoon has the schedule publish within seconds what people have marked. Without a schedule it does
// nothing: the next process publishes when it starts.
func (e *Engine) PublishSoon() {
	e.marked.Store(true)
	_ = e.requests.put(func() {}) // wakes it
}

// errBehind says that a run has to have all its pages before an ordered one may start.
var errBehind = errors.New("another run goes first")

// serveRequests answers the requests that can be answered now. failed is why no run can be started; nil if one can.
func (s *scheduler) serveRequests(ctx context.Context, failed error) {
	q := &s.engine.requests
	q.mu.Lock()
	waiting := slices.Clone(q.waiting)
	q.mu.Unlock()
	var served []*request
	for _, r := range waiting {
		if ctx.Err() == nil && r.ctx.Err() == nil && time.Now().Before(r.retryAt) {
			continue
		}
		err := s.serve(ctx, r, failed)
		if v := judge(err); v.waits() || errors.Is(err, errBehind) {
			r.retryAt = v.retryAt
			continue
		}
		r.answer(err)
		served = append(served, r)
	}
	if len(served) > 0 {
		_ = q.put(func() {}) // another turn follows: the next order may be possible now
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(r *request) bool { return slices.Contains(served, r) })
}

func (s *scheduler) serve(ctx context.Context, r *request, failed error) error {
	if r.order != nil {
		return s.beginOrder(ctx, r, failed)
	}
	both, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if ctx.Err() != nil {
		cancel(context.Cause(ctx))
	}
	if both.Err() != nil {
		return context.Cause(both)
	}
	return r.f(both)
}

// serving reports whether a schedule is running.
func (q *requests) serving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scheduler != nil
}

// nextRetry returns when the first request that waits for the rate limit can continue; zero for none.
func (q *requests) nextRetry() (at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.waiting {
		at = soonest(at, r.retryAt)
	}
	return at
}

// OrderedRun is a run requested by a caller.
type OrderedRun struct {
	order  Order
	engine *Engine
	run    *run // nil until it is recorded
	joined bool
	behind *run // that has to have all its pages before the run starts

	done chan struct{} // closed when row and err are final
	row  *runs.Run
	err  error
}

// Order asks the goroutine that runs the schedule for a run. It returns once the run is recorded, or
// with the reason why it is not. If the run that the order would resume is already in progress, the
// order joins it.
func (e *Engine) Order(ctx context.Context, o Order) (*OrderedRun, error) {
	o.ordered = true
	ordered := &OrderedRun{order: o, engine: e, done: make(chan struct{})}
	if err := e.requests.send(&request{ctx: ctx, order: ordered}); err != nil {
		return nil, err
	}
	return ordered, nil
}

// Run returns the id of the run.
func (o *OrderedRun) Run() string { return o.run.row.ID }

// Joined reports whether the run was already in progress when it was ordered.
func (o *OrderedRun) Joined() bool { return o.joined }

// Done returns a channel that is closed when [OrderedRun.Result] is available.
func (o *OrderedRun) Done() <-chan struct{} { return o.done }

// Result waits for the end of the run and returns as [Engine.Run] does. A scheduled run that was
// joined may continue after Result returns, because the schedule waits where a caller would not.
func (o *OrderedRun) Result() (*runs.Run, error) {
	<-o.done
	return o.row, o.err
}

// Progress returns what the run has done and what it has left.
func (o *OrderedRun) Progress() (Progress, error) { return o.engine.progress(o.run) }

// Cancel stops the run for all who wait for it, without waiting until it has stopped; see
// [Engine.Cancel].
func (o *OrderedRun) Cancel() {
	go func() { _ = o.engine.Cancel(context.Background(), o.Run()) }() // fails if the run has already ended
}

// beginOrder starts the run of an order, or joins the run in progress that the order would resume. While the
// run cannot start, it must be called again. If the order is for a new run and would supersede
// one that is in progress, it waits until that run has all its pages, as a due time does. Other runs of a
// job do not affect each other; see [facts.Unfinished].
func (s *scheduler) beginOrder(ctx context.Context, asked *request, failed error) error {
	o, w := asked.order, s.worker
	if w != nil {
		w.callers = slices.DeleteFunc(w.callers, func(other *OrderedRun) bool { return other == o })
	}
	switch {
	case asked.ctx.Err() != nil:
		return context.Cause(asked.ctx)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cmp.Or(failed, o.err) != nil: // o.err: that of the run behind which it has waited
		return cmp.Or(failed, o.err)
	}
	r, err := w.startOrder(ctx, o)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o.run = r; r != nil || errors.Is(err, errBehind) { // a run that goes first is as urgent
		w.callers = append(w.callers, o)
	}
	return err
}

// startOrder starts or joins the run of an order. It returns errBehind if another run, o.behind, goes first.
func (w *worker) startOrder(ctx context.Context, o *OrderedRun) (*run, error) {
	if before, err := w.engine.Store.Runs.Keyed(o.order.Key); err != nil {
		return nil, err
	} else if before != nil {
		return nil, &RepeatedError{before}
	}
	if err := w.refreshOrder(&o.order); err != nil {
		return nil, err
	}
	if r := w.joinable(&o.order); r != nil {
		if err := w.engine.Store.Runs.Join(runs.Run{ID: r.row.ID, Key: o.order.Key}); err != nil {
			return nil, err
		}
		o.joined = true
		w.engine.log().Info("run made urgent", "job", r.row.Job, "run", r.row.ID)
		return r, nil
	}
	if err := w.engine.jobGone(o.order.Spec); err != nil {
		return nil, err
	}
	if !w.loader.Working() { // a person may have just repaired one
		if err := w.loader.Retry(ctx, true); err != nil {
			return nil, err
		}
	}
	if err := w.usable(ctx, &o.order); err != nil {
		return nil, err
	}
	if o.behind = w.displaced(&o.order); o.behind != nil {
		if !o.behind.row.Searched {
			return nil, errBehind
		}
		o.behind.end(ctx, o.behind.endCause(true))
	}
	r, err := w.begin(ctx, &o.order)
	if r != nil {
		w.engine.log().Info("run ordered", "job", r.row.Job, "run", r.row.ID)
	}
	return r, err
}

// jobGone returns a [JobGoneError] if a reload has removed or renamed the job, else nil. If the job was
// only changed, its run starts as it was requested.
func (e *Engine) jobGone(spec *job.Spec) error {
	if strings.HasPrefix(spec.Name, job.OnceMark) || e.Config.Job(spec.Name) != nil {
		return nil
	}
	gone := &JobGoneError{Job: spec.Name}
	for i := range e.Config.Jobs {
		if e.Config.Jobs[i].Was == spec.Name {
			gone.Now = e.Config.Jobs[i].Name
		}
	}
	return gone
}

// resumeOrders resumes the ordered runs that the last process left unfinished, unless nothing is left of one or its job
// was removed from the file. Their callers no longer wait, so these runs have no priority over scheduled ones.
func (s *scheduler) resumeOrders(ctx context.Context) error {
	left, err := s.engine.Store.Runs.Ordered()
	for i := range left {
		row := &left[i]
		spec := currentSpec(s.engine.Config, row)
		if ctx.Err() != nil || s.worker.runByID(row.ID) != nil || spec == nil || !row.Status.Open() {
			continue
		}
		if resumes, err := s.engine.Facts().Resumes(spec, row, time.Time{}); err != nil {
			s.engine.log().Error("run not continued", "run", row.ID, "err", err)
		} else if resumes {
			s.resumeRun(ctx, spec, row, time.Time{})
		}
	}
	return err
}

// refreshOrder reads again what an order continues: while the order waited, other runs may have continued or
// bought it.
func (w *worker) refreshOrder(o *Order) (err error) {
	switch {
	case o.Old != nil:
		if o.Old, err = w.engine.Store.Runs.Get(o.Old.ID); err == nil && o.Old == nil {
			err = errors.New("the run to resume does not exist any more")
		}
	case o.Rest != nil:
		of := o.Rest.Of
		if o.Rest, err = w.engine.Rest(o.Spec, of); err == nil && o.Rest.Nothing() {
			err = fmt.Errorf("nothing is left of run %s", of.ID)
		}
		for i := 0; err == nil && i < len(o.Rest.superseded); i++ {
			if taken := &o.Rest.superseded[i]; w.runByID(taken.ID) != nil {
				err = &UnendedError{taken}
			}
		}
	}
	return err
}

// joinable returns the run in progress that an order would resume, or nil.
func (w *worker) joinable(o *Order) *run {
	switch {
	case o.Old != nil:
		return w.runByID(o.Old.ID)
	case o.Rest != nil && o.Rest.Run != nil:
		return w.runByID(o.Rest.Run.ID)
	case o.Rest != nil || o.Afresh || !o.Due.IsZero():
		return nil
	}
	return w.find(func(r *run) bool { return r.row.Job == o.Spec.Name && facts.Same(o.Spec, &r.row) })
}

// displaced returns the run in progress that a new run would supersede, or nil.
func (w *worker) displaced(o *Order) *run {
	if o.Old != nil || o.Rest != nil || w.engine.Config.Job(o.Spec.Name) == nil {
		return nil
	}
	return w.find(func(r *run) bool { return r.row.Job == o.Spec.Name && r.row.Overridden == o.Spec.Overridden })
}

// urgent returns the runs in progress that callers wait for, in the order of the requests. A run that has to have
// its pages before another may start is as urgent as that one.
func (w *worker) urgent() (all []*run) {
	for _, o := range w.callers {
		if r := cmp.Or(o.run, o.behind); !r.ended && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// settle ends the wait of those who wait for a run.
func (w *worker) settle(r *run, row *runs.Run, err error) {
	w.callers = slices.DeleteFunc(w.callers, func(o *OrderedRun) bool {
		if o.run != r {
			return false
		}
		o.row, o.err = row, err
		close(o.done)
		return true
	})
}

// isUrgent reports whether a caller waits for the run.
func (r *run) isUrgent() bool { return slices.Contains(r.worker.urgent(), r) }

// detach ends the wait for a run that cannot continue now. It also ends the run, unless that is a run of
// the schedule, which continues later.
func (w *worker) detach(ctx context.Context, r *run, err error) {
	if r.row.Ordered || !w.patient || ctx.Err() != nil {
		r.endFor(ctx, err)
		return
	}
	if r.row.Searched && judge(err).outage() {
		err = &QueuedError{err}
	}
	row := r.row
	steps, failed := w.engine.Store.Steps.OfRun(row.ID)
	err = errors.Join(err, failed, w.engine.Store.Runs.Tally(&row))
	row.Status, row.Error = r.status(ctx, err, true, steps), err.Error()
	for _, o := range w.callers {
		if o.behind == r {
			o.err = err
		}
	}
	if row.Status == runs.Partial {
		err = nil
	}
	w.settle(r, &row, err)
}
