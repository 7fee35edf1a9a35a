package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/queue"
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

	Afresh     bool // start a new run even if an unfinished one could be resumed
	UseReserve bool // let the run spend the budget's reserve
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

func isCancelled(err error) bool {
	_, cancelled := errors.AsType[*CancelledError](err)
	return cancelled
}

// requests holds the requests to the goroutine that runs the schedule.
type requests struct {
	mu        sync.Mutex
	scheduler *scheduler    // that is running; nil if none is
	keeping   chan struct{} // closed when a schedule first runs; see [Engine.Keeping]
	kept      bool          // keeping is closed
	wake      chan struct{} // has room for one signal
	between   []*request
	orders    []*OrderedRun // whose runs are not recorded yet, oldest first
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
	for _, r := range q.between {
		r.answer(context.Cause(ctx))
	}
	for _, o := range q.orders {
		o.finish(nil, context.Cause(ctx))
	}
	q.scheduler, q.between, q.orders = nil, nil, nil
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

// A request is a function to call between two turns of the scheduler.
type request struct {
	ctx     context.Context
	f       func(context.Context) error
	retryAt time.Time // when to call f again if it waits for the rate limit
	err     error
	done    chan struct{}
}

func (r *request) answer(err error) {
	r.err = err
	close(r.done)
}

// Between calls f between two turns of the scheduler, when no call is in progress, and returns its
// error. The context of f ends with ctx and with the schedule. After f returns, the scheduler rebuilds
// its agenda. f must not wait for another request. If f makes a call that the rate limit delays, the
// scheduler does not wait: it calls f again when the call may leave.
func (e *Engine) Between(ctx context.Context, f func(context.Context) error) error {
	q, r := &e.requests, &request{ctx: ctx, f: f, done: make(chan struct{})}
	if err := q.put(func() { q.between = append(q.between, r) }); err != nil {
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

// PublishSoon has the schedule publish within seconds what people have marked. Without a schedule it does
// nothing: the next process publishes when it starts.
func (e *Engine) PublishSoon() {
	e.marked.Store(true)
	_ = e.requests.put(func() {}) // wakes it
}

// serveRequests calls the functions passed to [Engine.Between].
func (s *scheduler) serveRequests(ctx context.Context) {
	q := &s.engine.requests
	q.mu.Lock()
	between := slices.Clone(q.between)
	q.mu.Unlock()
	var served []*request
	for _, r := range between {
		if ctx.Err() == nil && r.ctx.Err() == nil && time.Now().Before(r.retryAt) {
			continue
		}
		both, cancel := context.WithCancelCause(r.ctx)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		if ctx.Err() != nil {
			cancel(context.Cause(ctx))
		}
		err := context.Cause(both)
		if err == nil {
			err = r.f(both)
		}
		stop()
		cancel(nil)
		if r.retryAt = waitsUntil(err); r.retryAt.IsZero() {
			r.answer(err)
			served = append(served, r)
		}
	}
	if len(served) == 0 {
		return
	}
	q.mu.Lock()
	q.between = slices.DeleteFunc(q.between, func(r *request) bool { return slices.Contains(served, r) })
	q.mu.Unlock()
	s.refreshAgenda(time.Now())
}

// serving reports whether a schedule is running.
func (q *requests) serving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scheduler != nil
}

// retryTimes returns the times at which requests that wait for the rate limit can continue.
func (q *requests) retryTimes() (all []time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.between {
		all = append(all, r.retryAt)
	}
	for _, o := range q.orders {
		all = append(all, o.retryAt)
	}
	return all
}

// OrderedRun is a run requested by a caller.
type OrderedRun struct {
	ctx     context.Context // of the caller, until the run is recorded
	order   Order
	engine  *Engine
	retryAt time.Time // when the run may start, if it waits for the rate limit

	begun  chan struct{} // closed when the run is recorded or refused
	run    *run          // nil if it was refused
	joined bool

	done    chan struct{}
	settled bool // done is closed
	row     *runs.Run
	err     error
}

// Order asks the goroutine that runs the schedule for a run. It returns once the run is recorded, or
// with the reason why it is not. If the run that the order would resume is already in progress, the
// order joins it.
func (e *Engine) Order(ctx context.Context, o Order) (*OrderedRun, error) {
	ordered := &OrderedRun{ctx: ctx, order: o, engine: e, begun: make(chan struct{}), done: make(chan struct{})}
	if err := e.requests.put(func() { e.requests.orders = append(e.requests.orders, ordered) }); err != nil {
		return nil, err
	}
	select {
	case <-ordered.begun:
	case <-ctx.Done():
		_ = e.requests.put(func() {}) // wakes it; without a schedule the order is already refused
		<-ordered.begun
	}
	if ordered.run == nil {
		return nil, ordered.err
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
func (o *OrderedRun) Progress() (Progress, error) { return o.engine.progress(o.run.view) }

// Cancel stops the run for all who wait for it, without waiting until it has stopped; see
// [Engine.Cancel].
func (o *OrderedRun) Cancel() {
	go func() { _ = o.engine.Cancel(context.Background(), o.Run()) }() // fails if the run has already ended
}

// finish records the run's result, or why the run was refused.
func (o *OrderedRun) finish(row *runs.Run, err error) {
	if o.settled {
		return
	}
	o.row, o.err, o.settled = row, err, true
	if o.run == nil {
		close(o.begun)
	}
	close(o.done)
}

// beginOrders starts the ordered runs.
func (s *scheduler) beginOrders(ctx context.Context) {
	q := &s.engine.requests
	for _, o := range q.pending() {
		if ctx.Err() == nil && s.beginOrder(ctx, o) {
			q.mu.Lock()
			q.orders = slices.DeleteFunc(q.orders, func(other *OrderedRun) bool { return other == o })
			q.mu.Unlock()
		}
	}
}

// pending returns the orders whose runs are not recorded yet.
func (q *requests) pending() []*OrderedRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.orders)
}

// refuseOrders refuses all pending orders with err.
func (s *scheduler) refuseOrders(err error) {
	q := &s.engine.requests
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.orders {
		o.finish(nil, err)
	}
	q.orders = nil
}

// beginOrder starts the run of an order, or joins the run in progress that the order would resume. It
// returns false if it must be called again. If the order is for a new run and would supersede one that
// is in progress, it waits until that run has all its pages, as a due time does. Other runs of a
// job do not affect each other; see [facts.Unfinished].
func (s *scheduler) beginOrder(ctx context.Context, o *OrderedRun) (settled bool) {
	switch {
	case o.settled:
		return true
	case o.ctx.Err() != nil:
		s.worker.withdraw(o)
		return s.refuse(ctx, o, context.Cause(o.ctx))
	}
	if time.Now().Before(o.retryAt) {
		return false
	}
	o.retryAt = time.Time{}
	if err := s.worker.refreshOrder(&o.order); err != nil {
		return s.refuse(ctx, o, err)
	}
	if r := s.worker.joinable(&o.order); r != nil {
		o.joined = true
		s.worker.attach(o, r)
		s.engine.log().Info("run made urgent", "job", r.row.Job, "run", r.row.ID)
		return true
	}
	if err := s.engine.jobGone(o.order.Spec); err != nil {
		s.worker.withdraw(o)
		return s.refuse(ctx, o, err)
	}
	if !s.worker.loader.Working() { // a person may have just repaired one
		if err := s.worker.loader.Retry(ctx, true); err != nil {
			return s.refuse(ctx, o, err)
		}
	}
	if err := s.worker.usable(ctx, &o.order); err != nil {
		return s.refuse(ctx, o, err)
	}
	if r := s.worker.displaced(&o.order); r != nil {
		if !r.searched {
			r.makeUrgent()
			if !slices.Contains(r.followedBy, o) {
				r.followedBy = append(r.followedBy, o)
			}
			return false
		}
		if err := r.endForNext(ctx); err != nil {
			return s.refuse(ctx, o, err)
		}
	}
	r, err := s.worker.begin(ctx, &o.order)
	if o.retryAt = waitsUntil(err); !o.retryAt.IsZero() {
		return false
	}
	if r == nil {
		return s.refuse(ctx, o, err)
	}
	log := s.engine.log().With("job", r.row.Job, "run", r.row.ID)
	r.ordered, r.orderRecorded = true, true
	if err := s.engine.Store.Runs.NoteOrdered(r.row.ID); err != nil {
		log.Error("requested run not recorded; a restart will not continue it", "err", err)
	}
	s.worker.attach(o, r)
	log.Info("run ordered")
	return true
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

// resumeOrders resumes the ordered runs that the last process left unfinished. Their callers no longer
// wait, so these runs have no priority over scheduled ones.
func (s *scheduler) resumeOrders(ctx context.Context) error {
	left, err := s.engine.Store.Runs.Ordered()
	if err != nil {
		return err
	}
	for _, id := range left {
		if ctx.Err() != nil || s.worker.runByID(id) != nil {
			continue
		}
		resumes, err := s.resumeOrder(ctx, id)
		if err == nil && !resumes { // it has ended, or another run has continued it
			err = s.engine.Store.Runs.ForgetOrdered(id)
		}
		if err != nil {
			s.engine.log().Error("run not continued", "run", id, "err", err)
		}
	}
	return nil
}

// resumeOrder resumes the run of an order and reports false if there is nothing left to resume.
func (s *scheduler) resumeOrder(ctx context.Context, id string) (resumes bool, err error) {
	row, err := s.engine.Store.Runs.Get(id)
	if err != nil || row == nil || !row.Status.Open() {
		return false, err
	}
	spec := currentSpec(s.engine.Config, row)
	if spec == nil {
		return false, nil // the job was removed from the file
	}
	if resumes, err = s.engine.Facts().Resumes(spec, row, time.Time{}); err != nil || !resumes {
		return resumes, err
	}
	r, err := s.worker.begin(ctx, &Order{Spec: spec, Trigger: CatchUp, Old: row})
	if err != nil {
		return true, err
	}
	r.orderRecorded = true
	s.engine.log().Info("run continued", "job", row.Job, "run", row.ID)
	return true, nil
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

// refuse refuses an order with err. If ctx has ended, it reports false: close refuses the order with the
// others.
func (s *scheduler) refuse(ctx context.Context, o *OrderedRun, err error) (settled bool) {
	if ctx.Err() != nil {
		return false
	}
	o.finish(nil, err)
	return true
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

// withdraw removes an order that waits until another run has all its pages.
func (w *worker) withdraw(o *OrderedRun) {
	for _, r := range w.runs {
		r.followedBy = slices.DeleteFunc(r.followedBy, func(other *OrderedRun) bool { return other == o })
		if len(r.followedBy)+len(r.waiting) == 0 {
			r.urgent = 0
		}
	}
}

// attach makes o wait for r, which becomes urgent.
func (w *worker) attach(o *OrderedRun, r *run) {
	r.makeUrgent()
	o.run = r
	r.waiting = append(r.waiting, o)
	close(o.begun)
}

// makeUrgent makes a run urgent, with a lower priority than the runs that are urgent already.
func (r *run) makeUrgent() {
	if r.urgent == 0 {
		r.worker.urgentCount++
		r.urgent = r.worker.urgentCount
	}
}

// urgent returns the runs that callers wait for, in the order of the requests.
func (w *worker) urgent() (all []*run) {
	for _, r := range w.runs {
		if r.urgent > 0 {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return a.urgent - b.urgent })
	return all
}

// searchUrgent performs one step for the searches of the urgent runs. It reports false if there is nothing
// to do for them now. An error ends the run, or the wait for it.
func (w *worker) searchUrgent(ctx context.Context) (worked bool, err error) {
	for _, r := range w.urgent() {
		if r.searched {
			continue
		}
		worked, err := r.search(ctx)
		switch {
		case isLongWait(err) || isSinksDown(err):
			w.detach(ctx, r, err)
			return true, nil
		case err != nil:
			r.end(ctx, err)
			return true, nil
		case worked:
			return true, w.load(ctx)
		}
	}
	return false, nil
}

// fetchUrgent makes the next data call of the urgent runs that have their pages, or ends such a run.
func (w *worker) fetchUrgent(ctx context.Context) (worked bool, err error) {
	for _, r := range w.urgent() {
		if !r.searched {
			continue
		}
		if worked, err := w.fetchFor(ctx, r); worked || err != nil {
			return worked, err
		}
	}
	return false, nil
}

// fetchFor makes the next data call of an urgent run, or ends the run.
func (w *worker) fetchFor(ctx context.Context, r *run) (worked bool, err error) {
	if r.nextDue {
		return true, r.endForNext(ctx)
	}
	next, err := w.nextTask(queue.Filter{Job: r.row.Job})
	if err != nil {
		return false, err
	}
	if ended, err := w.endDone(ctx, []*run{r}, next); ended || err != nil {
		return ended, err
	}
	worked, err = w.callNext(ctx, next, r)
	if err != nil && kindOf(err) != "" || isLongWait(err) {
		w.detach(ctx, r, err)
		return true, nil
	}
	return worked, err
}

// detach ends the wait for a run that cannot continue now. It also ends the run, unless that is a run of
// the schedule, which continues later.
func (w *worker) detach(ctx context.Context, r *run, err error) {
	if r.ordered || ctx.Err() != nil {
		r.endFor(ctx, err)
		return
	}
	if r.searched && isOutage(err) {
		err = &QueuedError{err}
	}
	row := r.row
	if failed := w.engine.tally(&row, r.steps); failed != nil {
		err = errors.Join(err, failed)
	}
	row.Status, row.Error = r.status(ctx, err, true), err.Error()
	if row.Status == runs.Partial {
		err = nil
	}
	for _, o := range r.waiting {
		o.finish(&row, err)
	}
	for _, o := range r.followedBy {
		o.finish(nil, err)
	}
	r.waiting, r.followedBy, r.urgent = nil, nil, 0
}

// detachAll ends the wait for all urgent runs.
func (w *worker) detachAll(ctx context.Context, err error) {
	for _, r := range w.urgent() {
		w.detach(ctx, r, err)
	}
}
