package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// # Orders
//
// While one goroutine runs the schedule ([Engine.Serve]), others act between two of its turns, when no call is in
// progress: they start a run ([Engine.Order]), or change the state ([Engine.Between]). The schedule hands its turn
// over between two calls, and while it waits. It never cancels a call in progress for them, because the call may be
// paid for.
//
// An order is a row from when its run begins; before, it is a goroutine that tries again. A run that somebody asked
// for is urgent, as its row says until it ends. Its pages come before those of other runs, and its data calls before
// theirs; pages that are due come before all data calls. It does not wait for the end of an outage or a long rate
// limit, because a person waits for it: an ordered run ends then, as a run that has the engine to itself does
// ([Engine.Perform]), and a run of the schedule goes on later.

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

// turns are those of a schedule, which it hands over to other goroutines.
type turns struct {
	schedule atomic.Pointer[scheduler] // that is running; nil if none is
	made     sync.Once
	begun    sync.Once
	keeping  chan struct{} // closed when a schedule first runs; see [Engine.Keeping]
}

// Keeping returns a channel that is closed once the schedule is running, so that requests that arrive
// while the process starts can wait for it. It stays closed when the schedule has ended.
func (e *Engine) Keeping() <-chan struct{} { return e.turns.wait() }

func (t *turns) wait() chan struct{} {
	t.made.Do(func() { t.keeping = make(chan struct{}) })
	return t.keeping
}

// begin makes it known that a schedule runs.
func (t *turns) begin(s *scheduler) {
	t.schedule.Store(s)
	t.begun.Do(func() { close(t.wait()) })
}

// askAgain is the maximum time after which something is tried again that has to wait.
const askAgain = time.Second

// take calls f between two turns of the schedule, when no call is in progress, and again while it has to wait for the
// rate limit or for another run. The context of f ends with ctx and with the schedule.
func (t *turns) take(ctx context.Context, f func(context.Context, *scheduler) error) error {
	s := t.schedule.Load()
	if s == nil {
		return ErrNotServing
	}
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	for {
		select {
		case <-both.Done():
			return context.Cause(both)
		case <-s.turn:
		}
		err := s.act(both, f)
		v := judge(err)
		if !v.waits() {
			return err
		}
		if err := sleep(both, min(time.Until(v.retryAt), askAgain)); err != nil {
			return err
		}
	}
}

// act calls f in a turn that was handed over, and then wakes the schedule.
func (s *scheduler) act(ctx context.Context, f func(context.Context, *scheduler) error) error {
	defer func() { s.turn <- struct{}{}; s.wakeUp() }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f(ctx, s)
}

// Between calls f between two turns of the scheduler, when no call is in progress, and returns its
// error. The context of f ends with ctx and with the schedule. f must not wait for another turn. If f makes a
// call that the rate limit delays, the scheduler does not wait: f is called again when the call may leave.
func (e *Engine) Between(ctx context.Context, f func(context.Context) error) error {
	return e.turns.take(ctx, func(ctx context.Context, _ *scheduler) error { return f(ctx) })
}

// Cancel stops a run between two calls, for all who wait for it, and returns when it has stopped. As
// after a kill, a later run of the job can resume what was left.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	return e.turns.take(ctx, func(_ context.Context, s *scheduler) error {
		row, err := e.Store.Runs.ContinuingRun(id)
		if err == nil && (s.worker == nil || row == nil || !row.InProgress()) {
			err = fmt.Errorf("run %s is not in progress", id)
		}
		if err == nil {
			s.worker.runOf(*row).end(s.ctx, &CancelledError{}) // the caller may have left
		}
		return err
	})
}

// PublishSoon has the schedule publish within seconds what people have marked. Without a schedule it does
// nothing: the next process publishes when it starts.
func (e *Engine) PublishSoon() {
	e.marked.Store(true)
	if s := e.turns.schedule.Load(); s != nil {
		s.wakeUp()
	}
}

// OrderedRun is a run that a caller waits for.
type OrderedRun struct {
	id     string // of the run, or before of the one that has to have all its pages first
	joined bool

	done chan struct{} // closed when row and err are final
	row  *runs.Run
	err  error
}

// Order asks the schedule for a run. It returns once the run is recorded, or with the reason why it is not. If the run
// that the order would resume is already in progress, the order joins it.
func (e *Engine) Order(ctx context.Context, o Order) (*OrderedRun, error) {
	ordered := &OrderedRun{}
	err := e.turns.take(ctx, func(_ context.Context, s *scheduler) error {
		err := s.prepare(s.ctx)
		if err == nil {
			err = s.startOrder(s.ctx, &o, ordered)
		}
		if err != nil && s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
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
func (o *OrderedRun) Done() <-chan struct{} { return o.done }

// Result waits for the end of the run and returns as [Engine.Perform] does. A scheduled run that was
// joined may continue after Result returns, because the schedule waits where a caller would not.
func (o *OrderedRun) Result() (*runs.Run, error) {
	<-o.done
	return o.row, o.err
}

// waitFor has an order wait for a run.
func (s *scheduler) waitFor(o *OrderedRun, run string) {
	if o.id == run {
		return
	}
	o.id, o.done, o.row, o.err = run, make(chan struct{}), nil, nil
	s.waiting[run] = append(s.waiting[run], o)
}

// tell tells those who wait for a run how it has ended, or why it cannot go on now.
func (s *scheduler) tell(row *runs.Run, err error) {
	for _, o := range s.waiting[row.ID] {
		o.row, o.err = row, err
		close(o.done)
	}
	delete(s.waiting, row.ID)
}

// startOrder starts the run of an order, or joins the run in progress that the order would resume. A [waitError] says
// when it must be called again. If the order is for a new run and would supersede one that is in progress, it waits
// until that run has all its pages, as a due time does. Other runs of a job do not affect each other; see
// [facts.Unfinished].
func (s *scheduler) startOrder(ctx context.Context, o *Order, ordered *OrderedRun) error {
	w := s.worker
	if before := ordered.row; before != nil && before.InProgress() && ordered.err != nil { // it cannot go on now
		return ordered.err
	}
	if before, err := w.engine.Store.Runs.Keyed(o.Key); err != nil {
		return err
	} else if before != nil {
		return &RepeatedError{before}
	}
	going, err := w.inProgress(w.engine.Store)
	if err == nil {
		err = o.refresh(ctx, w.engine, going)
	}
	if err != nil {
		return err
	}
	if r := going.joinable(o); r != nil {
		if err := r.join(o); err != nil {
			return err
		}
		s.waitFor(ordered, r.row.ID)
		ordered.joined = true
		w.engine.log().Info("run made urgent", "job", r.row.Job, "run", r.row.ID)
		return nil
	}
	if err := jobGone(w.engine.Config, o.Spec); err != nil {
		return err
	}
	if !w.loader.Working() { // a person may have just repaired one
		if err := w.loader.Retry(ctx, true); err != nil {
			return err
		}
	}
	if err := w.usable(ctx, o); err != nil {
		return err
	}
	before := going.displaced(w.engine.Config, o)
	switch {
	case before == nil:
	case before.row.Searched:
		before.end(ctx, before.endCause(true))
	default: // it is as urgent
		s.waitFor(ordered, before.row.ID)
		return cmp.Or(before.makeUrgent(), error(&waitError{time.Now().Add(askAgain)}))
	}
	if o.urgent, err = w.engine.Store.Runs.NextUrgent(); err != nil {
		return err
	}
	row, err := w.begin(ctx, o)
	if row != nil {
		s.waitFor(ordered, row.ID)
		w.engine.log().Info("run ordered", "job", row.Job, "run", row.ID)
	}
	return err
}

// jobGone returns a [JobGoneError] if a reload has removed or renamed the job, else nil. If the job was
// only changed, its run starts as it was requested.
func jobGone(config *job.Config, spec *job.Spec) error {
	if job.IsOnce(spec.Name) || config.Job(spec.Name) != nil {
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
		if ctx.Err() != nil || row.InProgress() || spec == nil || !row.Status.Open() {
			continue
		}
		if u, err := s.engine.Facts().IfAsked(spec, row, time.Time{}); err != nil {
			s.engine.log().Error("run not continued", "run", row.ID, "err", err)
		} else if u.Continues() {
			s.resumeRun(ctx, spec, row, time.Time{})
		}
	}
	return err
}

// refresh reads again what an order continues: while the order waited, other runs may have continued or
// bought it.
func (o *Order) refresh(ctx context.Context, e *Engine, going inProgress) (err error) {
	switch {
	case o.Old != nil:
		if o.Old, err = e.Store.Runs.Get(o.Old.ID); err == nil && o.Old == nil {
			err = errors.New("the run to resume does not exist any more")
		}
	case o.Spec.Rest != "" && going.byID(o.Spec.Rest) != nil:
		err = facts.UnendedError(o.Spec.Rest)
	case o.Spec.Rest != "":
		var old *runs.Run
		if old, err = o.unfinishedRun(e); err == nil && old == nil {
			_, err = e.Facts().Plan(ctx, o.Spec, facts.Options{})
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
func (all inProgress) displaced(config *job.Config, o *Order) *run {
	if o.Old != nil || o.Spec.Rest != "" || config.Job(o.Spec.Name) == nil {
		return nil
	}
	return all.ofJob(o.Spec.Name, o.Spec.Overridden)
}

// join lets an order wait for a run in progress. Of their two caps the smaller one holds from now on.
func (r *run) join(o *Order) error {
	r.row.Key = o.Key
	if p, most := r.row.Plan, o.Spec.Budget.MaxCredits; p != nil {
		p.UseReserve = p.UseReserve || o.UseReserve
		if most != nil && (p.MaxCredits == nil || *most < *p.MaxCredits) {
			p.MaxCredits = most
		}
	}
	return r.makeUrgent()
}

// makeUrgent makes a run in progress urgent, unless it is already.
func (r *run) makeUrgent() (err error) {
	if r.row.Urgent == 0 {
		r.row.Urgent, err = r.engine.Store.Runs.NextUrgent()
	}
	if err != nil {
		return err
	}
	return r.engine.Store.Runs.SetWanted(r.row)
}

// detachUrgent ends the wait for all urgent runs, which cannot continue now.
func (w *worker) detachUrgent(ctx context.Context, err error) error {
	all, failed := w.inProgress(w.engine.Store)
	for _, r := range all {
		if r.urgent {
			w.detach(ctx, r, err)
		}
	}
	return failed
}

// detach ends the wait for a run that cannot continue now. It also ends the run, unless that is a run of
// the schedule, which continues later.
func (w *worker) detach(ctx context.Context, r *run, err error) {
	if r.row.Searched && judge(err).outage() {
		err = &QueuedError{err}
	}
	if r.row.Trigger == string(Manual) || !w.patient || ctx.Err() != nil {
		r.end(ctx, err)
		return
	}
	r.row.Urgent = 0
	steps, failed := w.engine.Store.Steps.OfRun(r.row.ID)
	err = errors.Join(err, failed, w.engine.Store.Runs.Tally(&r.row), w.engine.Store.Runs.SetWanted(r.row))
	r.row.Status, r.row.Error = r.status(ctx, err, true, steps), err.Error()
	if r.row.Status == runs.Partial {
		err = nil
	}
	w.tell(&r.row, err)
}
