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
// A run that somebody asked for is urgent, as its row says until it ends. Its pages come before those of other runs,
// and its data calls before theirs; pages that are due come before all data calls. It does not wait for the end of an
// outage or a long rate limit, because a person waits for it: an ordered run ends then, as a run that has the engine
// to itself does ([Engine.Perform]), and a run of the schedule goes on later.

// An Order asks for a run. The schedule, and commands that work without one, also use orders.
type Order struct {
	Spec    *job.Spec // with overrides from flags
	Trigger Trigger
	Due     time.Time // zero for a manual run
	Old     *runs.Run // the unfinished run to resume; nil for a new run, or to let a manual run choose
	Key     runs.Key  // of a client that may repeat the order

	Afresh     bool // start a new run even if an unfinished one could be resumed
	UseReserve bool // let the run spend the budget's reserve

	urgent int64 // see [runs.Run.Urgent]
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
		r.answer(ctx, context.Cause(ctx))
	}
	q.scheduler, q.waiting = nil, nil
}

// wakeUp has the scheduler begin another turn, with a request if there is one.
func (q *requests) wakeUp(with ...*request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.scheduler == nil {
		return ErrNotServing
	}
	q.waiting = append(q.waiting, with...)
	select {
	case q.wake <- struct{}{}:
	default: // it is already awake
	}
	return nil
}

// A request is a function to call between two turns of the scheduler, with why no run can start.
type request struct {
	ctx      context.Context // of who sends it
	f        func(ctx context.Context, failed error) error
	schedule context.Context // that has answered it
	err      error
	done     chan struct{}
}

func (r *request) answer(schedule context.Context, err error) {
	r.schedule, r.err = schedule, err
	close(r.done)
}

// askAgain is the maximum time after which a request is sent again that cannot be answered yet.
const askAgain = time.Second

// send sends a request to the scheduler, again while it has to wait for the rate limit or for another run, and returns
// its error.
func (q *requests) send(ctx context.Context, f func(ctx context.Context, failed error) error) error {
	var schedule context.Context // that has answered
	for {
		r := &request{ctx: ctx, f: f, done: make(chan struct{})}
		if err := q.wakeUp(r); err != nil && schedule != nil {
			return context.Cause(schedule)
		} else if err != nil {
			return err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			_ = q.wakeUp() // without a schedule the request is already refused
			<-r.done
		}
		v := judge(r.err)
		if !v.waits() {
			return r.err
		}
		schedule = r.schedule
		select {
		case <-time.After(min(time.Until(v.retryAt), askAgain)):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-schedule.Done():
			return context.Cause(schedule)
		}
	}
}

// Between calls f between two turns of the scheduler, when no call is in progress, and returns its
// error. The context of f ends with ctx and with the schedule. f must not wait for another request. If f makes a
// call that the rate limit delays, the scheduler does not wait: f is called again when the call may leave.
func (e *Engine) Between(ctx context.Context, f func(context.Context) error) error {
	return e.requests.send(ctx, func(schedule context.Context, _ error) error {
		both, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(schedule, func() { cancel(context.Cause(schedule)) })()
		return f(both)
	})
}

// Cancel stops a run between two calls, for all who wait for it, and returns when it has stopped. As
// after a kill, a later run of the job can resume what was left.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	return e.Between(ctx, func(ctx context.Context) error {
		if w := e.requests.scheduler.worker; w != nil {
			if r := w.runs.byID(id); r != nil {
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
	_ = e.requests.wakeUp()
}

// serve answers the requests. failed is why no run can be started; nil if one can.
func (q *requests) serve(ctx context.Context, failed error) {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, r := range waiting {
		err := cmp.Or(context.Cause(r.ctx), context.Cause(ctx))
		if err == nil {
			err = r.f(ctx, failed)
		}
		r.answer(ctx, err)
	}
}

// serving reports whether a schedule is running.
func (q *requests) serving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scheduler != nil
}

// OrderedRun is a run requested by a caller.
type OrderedRun struct {
	order   Order
	engine  *Engine
	id      string   // of the run; "" until it is recorded
	outcome *outcome // of the run, or before of the one that has to have all its pages first
	joined  bool
}

// An outcome is what those who wait for a run get: its record when it ends, or when it cannot go on now.
type outcome struct {
	done chan struct{} // closed when row and err are final
	row  *runs.Run
	err  error
}

func newOutcome() *outcome { return &outcome{done: make(chan struct{})} }

// Order asks the goroutine that runs the schedule for a run. It returns once the run is recorded, or
// with the reason why it is not. If the run that the order would resume is already in progress, the
// order joins it.
func (e *Engine) Order(ctx context.Context, o Order) (*OrderedRun, error) {
	ordered := &OrderedRun{order: o, engine: e}
	err := e.requests.send(ctx, func(schedule context.Context, failed error) error {
		if failed != nil {
			return failed
		}
		err := e.requests.scheduler.worker.startOrder(schedule, ordered)
		if err != nil && schedule.Err() != nil {
			return context.Cause(schedule)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ordered, nil
}

// Run returns the id of the run.
func (o *OrderedRun) Run() string { return o.id }

// Joined reports whether the run was already in progress when it was ordered.
func (o *OrderedRun) Joined() bool { return o.joined }

// Done returns a channel that is closed when [OrderedRun.Result] is available.
func (o *OrderedRun) Done() <-chan struct{} { return o.outcome.done }

// Result waits for the end of the run and returns as [Engine.Perform] does. A scheduled run that was
// joined may continue after Result returns, because the schedule waits where a caller would not.
func (o *OrderedRun) Result() (*runs.Run, error) {
	<-o.outcome.done
	return o.outcome.row, o.outcome.err
}

// Progress returns what the run has done and what it has left.
func (o *OrderedRun) Progress() (Progress, error) {
	row, err := o.engine.Store.Runs.Get(o.id)
	if err != nil {
		return Progress{}, err
	}
	return progressOf(o.engine.Store, o.engine.Pace, row)
}

// Cancel stops the run for all who wait for it, without waiting until it has stopped; see
// [Engine.Cancel].
func (o *OrderedRun) Cancel() {
	go func() { _ = o.engine.Cancel(context.Background(), o.Run()) }() // fails if the run has already ended
}

// startOrder starts the run of an order, or joins the run in progress that the order would resume. A [waitError] says
// when it must be called again. If the order is for a new run and would supersede
// one that is in progress, it waits until that run has all its pages, as a due time does. Other runs of a
// job do not affect each other; see [facts.Unfinished].
func (w *worker) startOrder(ctx context.Context, o *OrderedRun) error {
	if before := o.outcome; before != nil && before.row != nil && before.row.Ended.IsZero() { // it cannot go on now
		return before.err
	}
	if before, err := w.engine.Store.Runs.Keyed(o.order.Key); err != nil {
		return err
	} else if before != nil {
		return &RepeatedError{before}
	}
	if err := o.order.refresh(ctx, w); err != nil {
		return err
	}
	if r := w.runs.joinable(&o.order); r != nil {
		if err := w.makeUrgent(r, o.order.Key); err != nil {
			return err
		}
		o.id, o.outcome, o.joined = r.row.ID, r.outcome, true
		w.engine.log().Info("run made urgent", "job", r.row.Job, "run", r.row.ID)
		return nil
	}
	if err := jobGone(w.engine.Config, o.order.Spec); err != nil {
		return err
	}
	if !w.loader.Working() { // a person may have just repaired one
		if err := w.loader.Retry(ctx, true); err != nil {
			return err
		}
	}
	if err := w.usable(ctx, &o.order); err != nil {
		return err
	}
	before := w.displaced(&o.order)
	switch {
	case before == nil:
	case before.row.Searched:
		before.end(ctx, before.endCause(true))
	default: // it is as urgent
		o.outcome = before.outcome
		return cmp.Or(w.makeUrgent(before, runs.Key{}), error(&waitError{time.Now().Add(askAgain)}))
	}
	o.order.urgent = w.runs.nextUrgent()
	r, err := w.begin(ctx, &o.order)
	if r != nil {
		o.id, o.outcome = r.row.ID, r.outcome
		w.engine.log().Info("run ordered", "job", r.row.Job, "run", r.row.ID)
	}
	return err
}

// jobGone returns a [JobGoneError] if a reload has removed or renamed the job, else nil. If the job was
// only changed, its run starts as it was requested.
func jobGone(config *job.Config, spec *job.Spec) error {
	if strings.HasPrefix(spec.Name, job.OnceMark) || config.Job(spec.Name) != nil {
		return nil
	}
	gone := &JobGoneError{Job: spec.Name}
	for i := range config.Jobs {
		if config.Jobs[i].Was == spec.Name {
			gone.Now = config.Jobs[i].Name
		}
	}
	return gone
}

// resumeOrders resumes the ordered runs that the last process left unfinished, unless nothing is left of one or its job
// was removed from the file. They are as urgent as before.
func (s *scheduler) resumeOrders(ctx context.Context) error {
	left, err := s.engine.Store.Runs.Ordered()
	for i := range left {
		row := &left[i]
		spec := facts.CurrentSpec(s.engine.Config, row)
		if ctx.Err() != nil || s.worker.runs.byID(row.ID) != nil || spec == nil || !row.Status.Open() {
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

// refresh reads again what an order continues: while the order waited, other runs may have continued or
// bought it.
func (o *Order) refresh(ctx context.Context, w *worker) (err error) {
	switch {
	case o.Old != nil:
		if o.Old, err = w.engine.Store.Runs.Get(o.Old.ID); err == nil && o.Old == nil {
			err = errors.New("the run to resume does not exist any more")
		}
	case o.Spec.Rest != "" && w.runs.byID(o.Spec.Rest) != nil:
		err = facts.UnendedError(o.Spec.Rest)
	case o.Spec.Rest != "":
		var old *runs.Run
		if old, err = o.unfinishedRun(w.engine); err == nil && old == nil {
			_, err = w.engine.Facts().Plan(ctx, o.Spec, facts.Options{})
		}
	}
	return err
}

// joinable returns the run in progress that an order would resume, or nil.
func (all inProgress) joinable(o *Order) *run {
	switch {
	case o.Old != nil:
		return all.byID(o.Old.ID)
	case o.Afresh || !o.Due.IsZero():
		return nil
	}
	return all.find(func(r *run) bool { return r.row.Job == o.Spec.Name && facts.Same(o.Spec, &r.row) })
}

// displaced returns the run in progress that a new run would supersede, or nil.
func (w *worker) displaced(o *Order) *run {
	if o.Old != nil || o.Spec.Rest != "" || w.engine.Config.Job(o.Spec.Name) == nil {
		return nil
	}
	return w.runs.find(func(r *run) bool { return r.row.Job == o.Spec.Name && r.row.Overridden == o.Spec.Overridden })
}

// isUrgent reports whether somebody waits for the run. A worker without a schedule has no other run.
func (r *run) isUrgent() bool { return r.row.Urgent > 0 || !r.worker.patient }

// urgent returns the urgent runs in progress, in the order of the requests.
func (all inProgress) urgent() []*run {
	urgent := slices.DeleteFunc(slices.Clone(all), func(r *run) bool { return !r.isUrgent() })
	slices.SortStableFunc(urgent, func(a, b *run) int { return cmp.Compare(a.row.Urgent, b.row.Urgent) })
	return urgent
}

// nextUrgent returns the place of the next urgent run, after the others.
func (all inProgress) nextUrgent() (place int64) {
	for _, r := range all {
		place = max(place, r.row.Urgent)
	}
	return place + 1
}

// makeUrgent makes a run in progress urgent, for an order with this key.
func (w *worker) makeUrgent(r *run, key runs.Key) error {
	row := r.row
	if row.Key = key; row.Urgent == 0 {
		row.Urgent = w.runs.nextUrgent()
	} else if key == (runs.Key{}) {
		return nil
	}
	err := w.engine.Store.Runs.SetUrgent(row)
	if err == nil {
		r.row.Urgent = row.Urgent
	}
	return err
}

// settle ends the wait of those who wait for the run.
func (r *run) settle(row *runs.Run, err error) {
	of := r.outcome
	of.row, of.err, r.outcome = row, err, newOutcome()
	close(of.done)
}

// detach ends the wait for a run that cannot continue now. It also ends the run, unless that is a run of
// the schedule, which continues later.
func (w *worker) detach(ctx context.Context, r *run, err error) {
	if r.row.Trigger == string(Manual) || !w.patient || ctx.Err() != nil {
		r.endFor(ctx, err)
		return
	}
	if r.row.Searched && judge(err).outage() {
		err = &QueuedError{err}
	}
	r.row.Urgent = 0
	row := r.row
	steps, failed := w.engine.Store.Steps.OfRun(row.ID)
	err = errors.Join(err, failed, w.engine.Store.Runs.Tally(&row), w.engine.Store.Runs.SetUrgent(row))
	row.Status, row.Error = r.status(ctx, err, true, steps), err.Error()
	if row.Status == runs.Partial {
		err = nil
	}
	r.settle(&row, err)
}
