package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// # Orders
//
// While one goroutine keeps the schedule ([Engine.Serve]), others ask it for what they need: a
// run ([Engine.Order]), or a change of the state ([Engine.Between]). It serves them between two
// calls, whatever it waits for. A call under way is never cancelled for them, as it may have
// been paid for.
//
// An ordered run comes before the scheduled ones, with its pages and its data calls, and takes
// the next slot of the pace. It ends as one that has the engine to itself ([Engine.Run]): what
// the schedule waits out, such as an outage or a rate limit that allows nothing for long, ends
// it, since a person waits for it.

// An Order is a run that is asked for. The schedule and the commands that work alone make orders
// too.
type Order struct {
	Spec    *job.Spec // as flags have changed it
	Trigger Trigger
	Due     time.Time // zero for a run by hand
	Old     *runs.Run // the unfinished run that is continued; nil for a new one, or what a run by hand goes on with
	Rest    *Rest     // what is bought of an earlier run; nil for all others

	Afresh     bool // a new run begins where an unfinished one could be continued
	UseReserve bool // the run may spend the part of the budget that is kept back
}

// facts reads what the plan of an order needs to know.
func (o *Order) facts(e *Engine) *facts.Reader {
	r := e.Facts()
	r.Afresh, r.UseReserve = r.Afresh || o.Afresh, r.UseReserve || o.UseReserve
	return r
}

// ErrNotServing refuses what is asked of the schedule while this process keeps no schedule.
var ErrNotServing = errors.New("the scheduler is not running")

// CancelledError ends a run that a person has cancelled.
type CancelledError struct{}

func (e *CancelledError) Error() string {
	return "the run was cancelled; everything that was paid for is stored"
}

// JobGoneError refuses the run of a job that has left the job file, or has another name in it,
// since it was asked for.
type JobGoneError struct{ Job, Now string }

func (e *JobGoneError) Error() string {
	if e.Now != "" {
		return fmt.Sprintf("job %s is %s since the job file was reloaded; its run was not started, and nothing was spent",
			e.Job, e.Now)
	}
	return fmt.Sprintf("job %s was removed when the job file was reloaded; its run was not started, and nothing was spent", e.Job)
}

func isCancelled(err error) bool {
	_, cancelled := errors.AsType[*CancelledError](err)
	return cancelled
}

// requests are what other goroutines ask of the one that keeps the schedule.
type requests struct {
	mu        sync.Mutex
	scheduler *scheduler    // that keeps the schedule; nil while none is kept
	keeping   chan struct{} // closed once a schedule is kept; see [Engine.Keeping]
	kept      bool          // it is closed
	came      chan struct{} // has room for one: something was asked for
	between   []*request
	orders    []*Ordered // whose runs are not on record yet, in the order in which they came
}

// open lets requests in.
func (q *requests) open(s *scheduler) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.scheduler, q.came = s, make(chan struct{}, 1)
	if !q.kept {
		close(q.first())
		q.kept = true
	}
}

// first is closed when a schedule is kept for the first time.
func (q *requests) first() chan struct{} {
	if q.keeping == nil {
		q.keeping = make(chan struct{})
	}
	return q.keeping
}

// Keeping is closed once the schedule is kept: what comes while the process starts may wait for
// it. It stays closed when the schedule has ended.
func (e *Engine) Keeping() <-chan struct{} {
	e.requests.mu.Lock()
	defer e.requests.mu.Unlock()
	return e.requests.first()
}

// close refuses what has not been served, and whatever comes.
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

// put adds to the lists, and wakes the scheduler.
func (q *requests) put(add func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.scheduler == nil {
		return ErrNotServing
	}
	add()
	select {
	case q.came <- struct{}{}:
	default: // it has not looked yet
	}
	return nil
}

// A request is a function to be called between two turns of the scheduler.
type request struct {
	ctx   context.Context
	f     func(context.Context) error
	again time.Time // when to call f again, if it waits for the pace
	err   error
	done  chan struct{}
}

func (r *request) answer(err error) {
	r.err = err
	close(r.done)
}

// Between calls f between two turns of the scheduler, when no call is under way, and returns
// its error. The context of f ends with ctx and with the schedule. After f the scheduler looks
// anew at what is due. f must not wait for another request. Where it makes a call that the pace
// does not let leave yet, nothing waits for that: f is called again then.
func (e *Engine) Between(ctx context.Context, f func(context.Context) error) error {
	r := &request{ctx: ctx, f: f, done: make(chan struct{})}
	if err := e.requests.put(func() { e.requests.between = append(e.requests.between, r) }); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		_ = e.requests.put(func() {}) // wakes it; if no schedule is kept, the request has been refused
		<-r.done
	}
	return r.err
}

// serveRequests calls what is to be called between two turns.
func (s *scheduler) serveRequests(ctx context.Context) {
	q := &s.engine.requests
	q.mu.Lock()
	between := slices.Clone(q.between)
	q.mu.Unlock()
	var served []*request
	for _, r := range between {
		if ctx.Err() == nil && r.ctx.Err() == nil && time.Now().Before(r.again) {
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
		if r.again = waitsUntil(err); r.again.IsZero() {
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
	s.look(time.Now())
}

// serving reports whether a schedule is being kept.
func (q *requests) serving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scheduler != nil
}

// waits are when requests can go on that wait for the pace.
func (q *requests) waits() (all []time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.between {
		all = append(all, r.again)
	}
	for _, o := range q.orders {
		all = append(all, o.again)
	}
	return all
}

// Ordered is a run that a caller has asked for.
type Ordered struct {
	ctx    context.Context // of the caller, until the run is on record
	order  Order
	engine *Engine
	again  time.Time // when the run may begin, if it waits for the pace

	begun  chan struct{} // closed when the run is on record, or refused
	run    *run          // nil if it was refused
	joined bool

	done    chan struct{}
	settled bool // done is closed
	row     *runs.Run
	err     error
}

// Order asks the goroutine that keeps the schedule for a run. It returns once the run is on
// record, or the reason why there is none. If a run is under way that the order would go on
// with, it joins that one.
func (e *Engine) Order(ctx context.Context, o Order) (*Ordered, error) {
	ordered := &Ordered{ctx: ctx, order: o, engine: e, begun: make(chan struct{}), done: make(chan struct{})}
	if err := e.requests.put(func() { e.requests.orders = append(e.requests.orders, ordered) }); err != nil {
		return nil, err
	}
	select {
	case <-ordered.begun:
	case <-ctx.Done():
		_ = e.requests.put(func() {}) // wakes it; if no schedule is kept, the order has been refused
		<-ordered.begun
	}
	if ordered.run == nil {
		return nil, ordered.err
	}
	return ordered, nil
}

// Run is the id of the run.
func (o *Ordered) Run() string { return o.run.row.ID }

// Joined reports whether the run was under way already when it was asked for.
func (o *Ordered) Joined() bool { return o.joined }

// Done is closed when there is a [Ordered.Result].
func (o *Ordered) Done() <-chan struct{} { return o.done }

// Result waits for the end of the run, and returns as [Engine.Run] does. A scheduled run that
// was joined may go on when a person need not wait for it any longer.
func (o *Ordered) Result() (*runs.Run, error) {
	<-o.done
	return o.row, o.err
}

// Progress is what the run has done and has left.
func (o *Ordered) Progress() (Progress, error) { return o.engine.progress(o.run.seen) }

// Cancel stops the run for all who wait for it, and does not wait for that; see [Engine.Cancel].
func (o *Ordered) Cancel() {
	go func() { _ = o.engine.Cancel(context.Background(), o.Run()) }() // or it has ended before
}

// finish says how the run has ended, or why there is none.
func (o *Ordered) finish(row *runs.Run, err error) {
	if o.settled {
		return
	}
	o.row, o.err, o.settled = row, err, true
	if o.run == nil {
		close(o.begun)
	}
	close(o.done)
}

// beginOrders begins the runs that were asked for.
func (s *scheduler) beginOrders(ctx context.Context) {
	q := &s.engine.requests
	for _, o := range q.pending() {
		if ctx.Err() == nil && s.beginOrder(ctx, o) {
			q.mu.Lock()
			q.orders = slices.DeleteFunc(q.orders, func(other *Ordered) bool { return other == o })
			q.mu.Unlock()
		}
	}
}

// pending are the orders whose runs are not on record yet.
func (q *requests) pending() []*Ordered {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.orders)
}

// refuseOrders says why no run can begin.
func (s *scheduler) refuseOrders(err error) {
	q := &s.engine.requests
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.orders {
		o.finish(nil, err)
	}
	q.orders = nil
}

// beginOrder begins the run of an order, or joins the one under way that it would go on with.
// It reports false if it has to be tried again. An order for a new run of a job, while one is
// under way that it would supersede, waits for the pages of that one as a due instant does.
// Other runs of a job leave each other alone; see [facts.Reader.Displaced].
func (s *scheduler) beginOrder(ctx context.Context, o *Ordered) (settled bool) {
	switch {
	case o.settled:
		return true
	case o.ctx.Err() != nil:
		s.worker.withdraw(o)
		return s.refuse(ctx, o, context.Cause(o.ctx))
	}
	if time.Now().Before(o.again) {
		return false
	}
	o.again = time.Time{}
	if err := s.worker.renew(&o.order); err != nil {
		return s.refuse(ctx, o, err)
	}
	if r := s.worker.joinable(&o.order); r != nil {
		o.joined = true
		s.worker.attach(o, r)
		s.engine.log().Info("run made urgent", "job", r.row.Job, "run", r.row.ID)
		return true
	}
	if err := s.engine.gone(o.order.Spec); err != nil {
		s.worker.withdraw(o)
		return s.refuse(ctx, o, err)
	}
	if !s.worker.loader.Working() { // a person may have repaired one just now
		if err := s.worker.loader.Retry(ctx, true); err != nil {
			return s.refuse(ctx, o, err)
		}
	}
	if err := s.worker.usable(ctx, &o.order); err != nil {
		return s.refuse(ctx, o, err)
	}
	if r := s.worker.displaced(&o.order); r != nil {
		if !r.searched {
			r.hurry()
			if !slices.Contains(r.before, o) {
				r.before = append(r.before, o)
			}
			return false
		}
		if err := r.endForNext(ctx); err != nil {
			return s.refuse(ctx, o, err)
		}
	}
	r, err := s.worker.begin(pace.Urgent(ctx), &o.order)
	if o.again = waitsUntil(err); !o.again.IsZero() {
		return false
	}
	if r == nil {
		return s.refuse(ctx, o, err)
	}
	log := s.engine.log().With("job", r.row.Job, "run", r.row.ID)
	r.ordered, r.noted = true, true
	if err := s.engine.Store.Runs.NoteOrdered(runs.OrderedRun{Run: r.row.ID, UseReserve: o.order.UseReserve}); err != nil {
		log.Error("requested run not recorded; a restart will not continue it", "err", err)
	}
	s.worker.attach(o, r)
	log.Info("run ordered")
	return true
}

// gone is why no run of a job begins that was asked for before a reload; nil if it may begin. It
// begins as it was asked for where the job has only changed.
func (e *Engine) gone(spec *job.Spec) error {
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

// resumeOrders goes on with the runs of orders that the last process left. Their callers do not
// wait any more, so they take their turn among the scheduled ones.
func (s *scheduler) resumeOrders(ctx context.Context) error {
	left, err := s.engine.Store.Runs.Ordered()
	if err != nil {
		return err
	}
	for _, order := range left {
		if ctx.Err() != nil || s.worker.underWay(order.Run) != nil {
			continue
		}
		resumes, err := s.resumeOrder(ctx, order)
		if err == nil && !resumes { // it has ended, or a person has gone on with it
			err = s.engine.Store.Runs.ForgetOrdered(order.Run)
		}
		if err != nil {
			s.engine.log().Error("run not continued", "run", order.Run, "err", err)
		}
	}
	return nil
}

// resumeOrder goes on with the run of an order, and reports false if nothing is left to be done
// for it.
func (s *scheduler) resumeOrder(ctx context.Context, order runs.OrderedRun) (resumes bool, err error) {
	row, err := s.engine.Store.Runs.Get(order.Run)
	if err != nil || row == nil || !row.Status.Open() {
		return false, err
	}
	spec := s.engine.Config.Job(row.Job)
	switch {
	case spec == nil && strings.HasPrefix(row.Job, job.OnceMark):
		spec = &job.Spec{Name: row.Job}
	case spec == nil:
		return false, nil // its job has left the file
	}
	if _, resumes, err = s.engine.Facts().Standing(spec, row, time.Time{}); err != nil || !resumes {
		return resumes, err
	}
	r, err := s.worker.begin(ctx, &Order{Spec: spec, Trigger: CatchUp, Old: row, UseReserve: order.UseReserve})
	if err != nil {
		return true, err
	}
	r.noted = true
	s.engine.log().Info("run continued", "job", row.Job, "run", row.ID)
	return true, nil
}

// renew reads again what an order goes on with: while it waited, others may have gone on with
// that, or have bought it.
func (w *worker) renew(o *Order) (err error) {
	switch {
	case o.Old != nil:
		if o.Old, err = w.engine.Store.Runs.Get(o.Old.ID); err == nil && o.Old == nil {
			err = errors.New("the run to continue is not on record")
		}
	case o.Rest != nil:
		of := o.Rest.Of
		if o.Rest, err = w.engine.Rest(o.Spec, of); err == nil && o.Rest.Nothing() {
			err = fmt.Errorf("nothing is left of run %s", of.ID)
		}
		for i := 0; err == nil && i < len(o.Rest.closes); i++ {
			if taken := &o.Rest.closes[i]; w.underWay(taken.ID) != nil {
				err = &UnendedError{taken}
			}
		}
	}
	return err
}

// refuse says why a run cannot begin. An order that only a stop keeps from it is refused with
// the others.
func (s *scheduler) refuse(ctx context.Context, o *Ordered, err error) (settled bool) {
	if ctx.Err() != nil {
		return false
	}
	o.finish(nil, err)
	return true
}

// joinable returns the run under way that an order would go on with, or nil.
func (w *worker) joinable(o *Order) *run {
	switch {
	case o.Old != nil:
		return w.underWay(o.Old.ID)
	case o.Rest != nil && o.Rest.Run != nil:
		return w.underWay(o.Rest.Run.ID)
	case o.Rest != nil || o.Afresh || !o.Due.IsZero():
		return nil
	}
	return w.find(func(r *run) bool { return r.row.Job == o.Spec.Name && facts.Same(o.Spec, &r.row) })
}

// displaced returns the run under way whose place a new run would take, or nil.
func (w *worker) displaced(o *Order) *run {
	if o.Old != nil || o.Rest != nil || w.engine.Config.Job(o.Spec.Name) == nil {
		return nil
	}
	return w.find(func(r *run) bool { return r.row.Job == o.Spec.Name && r.row.Overridden == o.Spec.Overridden })
}

// withdraw takes back an order that waits for the pages of another run.
func (w *worker) withdraw(o *Ordered) {
	for _, r := range w.runs {
		r.before = slices.DeleteFunc(r.before, func(other *Ordered) bool { return other == o })
		if len(r.before)+len(r.waiting) == 0 {
			r.urgent = 0
		}
	}
}

// attach lets somebody wait for a run.
func (w *worker) attach(o *Ordered, r *run) {
	r.hurry()
	o.run = r
	r.waiting = append(r.waiting, o)
	close(o.begun)
}

// hurry makes a run urgent, after those that are.
func (r *run) hurry() {
	if r.urgent == 0 {
		r.worker.asked++
		r.urgent = r.worker.asked
	}
}

// urgent are the runs that somebody waits for, in the order in which they were asked for.
func (w *worker) urgent() (all []*run) {
	for _, r := range w.runs {
		if r.urgent > 0 {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return a.urgent - b.urgent })
	return all
}

// workUrgent does one thing for the runs that somebody waits for: first for their pages and
// scans, then for their data calls. It reports false if there is nothing to do for them now. What
// goes wrong ends the run, or the waiting for it.
func (w *worker) workUrgent(ctx context.Context) (worked bool, err error) {
	urgent := w.urgent()
	ctx = pace.Urgent(ctx)
	for _, r := range urgent {
		if r.searched {
			continue
		}
		worked, err := r.search(ctx)
		switch {
		case tooLong(err) || isSinksDown(err):
			w.part(ctx, r, err)
			return true, nil
		case err != nil:
			r.end(ctx, err)
			return true, nil
		case worked:
			return true, w.load(ctx)
		}
	}
	for _, r := range urgent {
		if !r.searched {
			continue
		}
		if worked, err := w.fetchUrgent(ctx, r); worked || err != nil {
			return worked, err
		}
	}
	return false, nil
}

// fetchUrgent makes the next data call of a run that somebody waits for, or ends the run.
func (w *worker) fetchUrgent(ctx context.Context, r *run) (worked bool, err error) {
	if r.forNext {
		return true, r.endForNext(ctx)
	}
	next, err := w.engine.Store.Queue.NextTask(time.Now(), queue.Filter{Job: r.row.Job})
	if err != nil {
		return false, err
	}
	if ended, err := w.endDone(ctx, []*run{r}, next); ended || err != nil {
		return ended, err
	}
	worked, err = w.ask(ctx, next, r)
	if err != nil && kindOf(err) != "" || tooLong(err) {
		w.part(ctx, r, err)
		return true, nil
	}
	return worked, err
}

// part ends the waiting for a run that cannot go on for now, and with that the run itself unless
// it is one of the schedule, which goes on with it.
func (w *worker) part(ctx context.Context, r *run, err error) {
	if r.ordered || ctx.Err() != nil {
		r.endFor(ctx, err)
		return
	}
	if r.searched && outage(err) {
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
	for _, o := range r.before {
		o.finish(nil, err)
	}
	r.waiting, r.before, r.urgent = nil, nil, 0
}

// release parts all who wait for runs.
func (w *worker) release(ctx context.Context, err error) {
	for _, r := range w.urgent() {
		w.part(ctx, r, err)
	}
}
