package engine

import (
	"context"
	"errors"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// A scheduler adds runs to a worker when they are due.
type scheduler struct {
	engine  *Engine
	worker  *worker // nil until the sinks are opened, and after an error until the next attempt
	resumed bool
	waits   bool // the rows of runs may say that they wait for the rate limit

	ctx     context.Context          // of [Engine.Serve]
	turn    chan struct{}            // has a value while another goroutine may act; see [turns.take]
	wake    chan struct{}            // has one to end a sleep
	waiting map[string][]*OrderedRun // by run

	started time.Time     // with the monotonic reading
	wall    time.Time     // this machine's clock in the last turn
	elapsed time.Duration // time since started in the last turn, by the monotonic clock
}

// Serve runs jobs when they are due. It returns when ctx has ended and the runs in
// progress have stopped, or when the state fails ([store.Store.Failure]), which only a new process may use again.
// A failed run is logged and does not stop the schedule.
//
// Runs overlap: pages come first, so the pages of one run are bought while the data calls of another
// wait. The calls that ended runs left in the queue are made in between. If a job comes due while
// its own run is still buying pages, it runs once more after that run; one run is enough, because its
// window covers every due time that has passed. A run that has all its pages ends when the job's next
// run is due.
func (e *Engine) Serve(ctx context.Context) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	checkState := func() {
		if err := e.Store.DB.Failure(); err != nil {
			stop(err)
		}
	}
	s := newScheduler(ctx, e)
	key := e.Client.Key
	e.key.Store(&key)
	e.turns.begin(s)
	defer e.turns.schedule.Store(nil)
	for ; ctx.Err() == nil; checkState() {
		changed := e.Store.DB.Changes.Next()
		s.noteClock(time.Now().Round(0), time.Since(s.started))
		if err := s.prepare(ctx); err != nil {
			e.log().Error("scheduler stopped", "err", err)
			s.sleep(ctx, maxSleep)
			continue
		}
		s.handOver()
		nextDue := s.beginDue(ctx)
		worked, err := s.worker.work(ctx)
		s.recordWaits()
		v := judge(err)
		if err != nil && ctx.Err() == nil && !v.passes() { // an error that stops all runs: do not let callers wait
			err = errors.Join(err, s.worker.detachUrgent(ctx, err))
		}
		switch {
		case v.status == runs.PausedQuota:
			s.sleep(ctx, min(time.Until(v.retryAt), maxSleep))
		case isA[*load.AheadError](err): // runs in progress go on when the state is back
			s.worker = nil
		case err != nil:
			s.pauseQueue(ctx, err)
			if !worked && v.scope < ofAll { // such as an error of the state, which the next turn would meet again
				s.sleep(ctx, maxSleep)
			}
		case !worked:
			s.idle(ctx, nextDue, changed)
		}
	}
	if s.worker != nil {
		s.stop(ctx)
	}
	for run := range s.waiting { // of which no end could be recorded
		s.tell(&runs.Run{ID: run}, context.Cause(ctx))
	}
}

func newScheduler(ctx context.Context, e *Engine) *scheduler {
	return &scheduler{engine: e, started: time.Now(), ctx: ctx, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		waits: true, waiting: map[string][]*OrderedRun{}}
}

// handOver lets the goroutines act that wait for a turn.
func (s *scheduler) handOver() {
	s.turn <- struct{}{}
	<-s.turn
}

// wakeUp has the scheduler begin another turn.
func (s *scheduler) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is already awake
	}
}

// noteClock logs, once, that this machine's clock and the monotonic clock have diverged since the last
// turn: the clock was set, or the machine slept, which the monotonic clock does not count. Jobs that
// came due meanwhile are overdue, as after a stop, and the service is asked for its time before the
// next purchase. It reports whether they have.
func (s *scheduler) noteClock(wall time.Time, since time.Duration) (jumped bool) {
	s.engine.beat.note()
	ahead := wall.Sub(s.wall) - (since - s.elapsed)
	jumped = !s.wall.IsZero() && ahead.Abs() > maxSleep
	if zone := s.engine.Config.Timezone; jumped {
		text := "clock set forward, or the machine slept"
		if ahead < 0 {
			text = "clock set back"
		}
		s.engine.log().Warn(text, "by", ahead.Abs().Round(time.Second).String(),
			"from", wall.Add(-ahead).In(zone), "to", wall.In(zone))
	}
	s.wall, s.elapsed = wall, since
	return jumped
}

// prepare creates the worker if there is none, and resumes what the last process left unfinished.
func (s *scheduler) prepare(ctx context.Context) error {
	if s.worker == nil {
		w, err := newWorker(ctx, s.engine)
		if err != nil {
			return err
		}
		s.worker, w.patient = w, true
		w.tell = func(row *runs.Run, err error) {
			if !row.InProgress() {
				s.report(row, err)
			}
			s.tell(row, err)
		}
	}
	if s.resumed {
		return nil
	}
	if err := s.resumeOrders(ctx); err != nil {
		return err
	}
	s.resumeUnfinished(ctx, func(*job.Spec) bool { return true })
	err := s.worker.publish(ctx) // the published tables may still show the last process's runs as running
	s.resumed = err == nil
	return err
}

// resumeUnfinished resumes the unfinished runs of the jobs for which of returns true: of each the first one, as the
// others continue at the next due time.
func (s *scheduler) resumeUnfinished(ctx context.Context, of func(*job.Spec) bool) {
	going, err := s.worker.inProgress(s.engine.Store)
	if err != nil {
		s.engine.log().Error("unfinished runs not continued", "err", err)
	}
	for i := range s.engine.Config.Jobs {
		spec := &s.engine.Config.Jobs[i]
		if err == nil && of(spec) && !spec.Disabled && going.ofJob(spec.Name, false) == nil {
			s.resumeFirst(ctx, spec, time.Time{})
		}
	}
}

// beginDue starts the runs that are due, and returns when the next one may be. A due time is a row until its run is
// recorded, whatever delays that.
func (s *scheduler) beginDue(ctx context.Context) (next time.Time) {
	now := time.Now()
	all, err := readDues(s.engine.Config, s.engine.Store, s.engine.log(), now, s.started)
	if err != nil {
		s.engine.log().Error("due runs delayed", "err", err)
		return now.Add(maxSleep)
	}
	for _, a := range all.next {
		if at := a.startsAt(now); at.After(now) { // else it waits for an earlier one
			next = soonest(next, at)
		}
	}
	tried := map[*job.Spec]bool{} // a due time waits for the job's earlier ones
	for _, a := range all.due {
		if tried[a.Spec] {
			continue
		}
		tried[a.Spec] = true
		if at := a.startsAt(now); at.After(now) {
			next = soonest(next, at)
		} else if s.makeWay(ctx, a) {
			next = soonest(next, s.start(ctx, a))
		} else {
			next = soonest(next, now.Add(maxSleep))
		}
	}
	return next
}

// makeWay reports whether a due run may start, after ending or resuming the job's other
// runs. A run in progress that is still buying pages goes first; one that has all its pages is ended.
// Then each unfinished run is resumed, once per due time: if it gets stuck again, the due time's own
// run starts next and is recorded, whatever its outcome.
func (s *scheduler) makeWay(ctx context.Context, a *DueRun) bool {
	if ctx.Err() != nil {
		return false
	}
	going, err := s.worker.inProgress(s.engine.Store)
	if err != nil {
		s.engine.log().Error("due runs delayed", "err", err)
		return false
	}
	if r := going.ofJob(a.Spec.Name, false); r != nil {
		if !r.row.Searched {
			return false
		}
		r.end(ctx, r.endCause(true))
	}
	return !s.resumeFirst(ctx, a.Spec, a.Due)
}

// resumeFirst resumes the first unfinished run of a job that continues before the run of a due time, or if due is zero,
// at once. It reports whether one is in progress then.
func (s *scheduler) resumeFirst(ctx context.Context, spec *job.Spec, due time.Time) bool {
	unfinished, err := s.engine.Facts().Unfinished(spec, due)
	if err != nil {
		s.engine.log().Error("unfinished runs not continued", "job", spec.Name, "err", err)
	}
	for i := range unfinished {
		u := &unfinished[i]
		continues := u.Continues() && !u.Run.ResumedFor.Equal(due)
		if due.IsZero() {
			continues = u.Fate == facts.Resume
		}
		if continues && ctx.Err() == nil && !u.Run.InProgress() && s.resumeRun(ctx, spec, &u.Run, due) {
			return true
		}
	}
	return false
}

// resumeRun resumes an unfinished run, before that of a due time if one waits, and reports whether it is in progress.
func (s *scheduler) resumeRun(ctx context.Context, spec *job.Spec, old *runs.Run, due time.Time) bool {
	log := s.engine.log().With("job", spec.Name, "run", old.ID)
	if _, err := s.worker.begin(ctx, &Order{Spec: spec, Trigger: CatchUp, Due: due, Old: old}); err != nil {
		log.Error("run not continued", "err", err)
		return false
	}
	if !old.Due.IsZero() {
		log = log.With("due", old.Due.In(s.engine.Config.Timezone))
	}
	log.Info("run continued")
	return true
}

// start starts a due run. If it cannot begin, for example because the disk is full or the sinks do not work, start
// records when to try again, and returns that.
func (s *scheduler) start(ctx context.Context, a *DueRun) (again time.Time) {
	log := s.engine.log().With("job", a.Spec.Name)
	about := []any{"due", a.Due.In(s.engine.Config.Timezone), "trigger", a.Trigger}
	o := &Order{Spec: a.Spec, Trigger: a.Trigger, Due: a.Due}
	var row *runs.Run
	var err error
	if a.Trigger == After {
		err = s.worker.usable(ctx, o)
	}
	waits := err != nil
	if !waits {
		row, err = s.worker.begin(ctx, o)
	}
	v := judge(err)
	switch {
	case err == nil:
		log.Info("run started", append([]any{"run", row.ID}, about...)...)
		return again
	case ctx.Err() != nil:
		return again
	case !waits && !v.waits():
		log.Error("run failed", append(about, "err", err)...)
	case a.noted.NotBefore.IsZero(): // else it was logged
		log.Info("run waits", append(about, "err", err)...)
	}
	a.noted.NotBefore = time.Now().Add(maxSleep)
	if v.waits() {
		a.noted.NotBefore = earlier(v.retryAt, a.noted.NotBefore)
	}
	if err := s.engine.Store.Schedule.Delay(a.noted); err != nil {
		log.Error("delay not recorded", "err", err)
	}
	return a.noted.NotBefore
}

// maxPause is the maximum pause of the queue.
const maxPause = 8 * maxSleep

// recordWaits records which runs in progress wait for the rate limit, for longer than the job file lets a person wait:
// all of them, or none.
func (s *scheduler) recordWaits() {
	_, long := s.engine.Pace.Slot(outlier.OpSearch)
	if long == nil && !s.waits {
		return
	}
	all, err := s.engine.Store.Runs.InProgress()
	for i := 0; err == nil && i < len(all); i++ {
		row := &all[i]
		switch waits := row.Status == runs.PausedQuota; {
		case waits && long == nil:
			err = s.engine.Store.Runs.Resume(*row)
		case !waits && long != nil:
			if err = s.engine.Store.Runs.Tally(row); err == nil {
				row.Status, row.Error = runs.PausedQuota, long.Error()
				err = s.engine.Store.Finish(*row)
				s.engine.log().Info("run waits for the rate limit", "job", row.Job, "run", row.ID, "err", long)
			}
		}
	}
	if s.waits = long != nil || err != nil; err != nil {
		s.engine.log().Error("wait for the rate limit not recorded", "err", err)
	}
}

// pauseQueue pauses the queue, for longer after each error until a call succeeds. The runs in progress
// continue after the pause.
func (s *scheduler) pauseQueue(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the loop ends and interrupts the runs
	}
	s.worker.pausedUntil = time.Now().Add(min(maxSleep<<min(s.worker.pauses, 8), maxPause))
	s.worker.pauses++
	s.engine.waits.add(waitRetry, time.Until(s.worker.pausedUntil))
	if judge(err).scope == ofAll {
		s.worker.fullUntil = s.worker.pausedUntil
	}
	s.engine.log().Error("queue paused", "until", s.worker.pausedUntil.In(s.engine.Config.Timezone), "err", err)
}

// stop interrupts the runs in progress, which the next start resumes. If there are none, it publishes
// the answers that were received since the last run.
func (s *scheduler) stop(ctx context.Context) {
	all, err := s.worker.inProgress(s.engine.Store)
	for _, r := range all {
		r.err = context.Cause(ctx)
	}
	if len(all) > 0 {
		s.worker.endAll(ctx, all)
	} else {
		err = errors.Join(err, s.worker.loader.Retry(ctx, true), s.worker.publish(ctx))
	}
	if err := errors.Join(err, s.worker.loader.Problems()); err != nil {
		s.engine.log().Error("last answers not published yet", "err", err)
	}
}

// report logs how a run ended, after one line for each search that ended early, was cut or was
// skipped.
func (s *scheduler) report(row *runs.Run, failed error) {
	log := s.engine.log().With("job", row.Job, "run", row.ID)
	if isA[*CancelledError](failed) {
		log.Info("run cancelled")
		return
	}
	if row.Status == runs.Interrupted {
		log.Info("run interrupted; the next start continues it")
		return
	}
	ends, err := Endings(s.engine.Facts(), row)
	if err != nil {
		log.Error("endings of searches not read", "err", err)
	}
	for i := range ends {
		if message := ends[i].message(); message != "" {
			log.Info(message, ends[i].Attrs()...)
		}
	}
	attrs := summarize(row, ends)
	if queued, err := s.engine.Store.Queue.Queued(queue.Filter{Job: row.Job}); err != nil {
		log.Error("queue not counted", "err", err)
	} else if queued > 0 {
		attrs = append(attrs, "queued", queued)
	}
	if spend, err := s.engine.Store.Ledger.Spent(row.ID); err != nil {
		log.Error("spending not read", "err", err)
	} else if spend.Unknown > 0 {
		attrs = append(attrs, "credits_unknown", spend.Unknown)
	}
	if row.Skipped > 0 {
		attrs = append(attrs, "skipped_fresh", row.Skipped)
	}
	if failed != nil {
		if row.Error == "" {
			attrs = append(attrs, "err", failed)
		}
		log.Error("run failed", attrs...)
		return
	}
	log.Info("run finished", attrs...)
}

// idle sleeps until there may be something to do, such as a run that is due next. Before that it prunes the journal. As
// long as nothing has changed since the turn began, it looks once a minute at the clocks and at the state's place
// alone.
func (s *scheduler) idle(ctx context.Context, nextDue time.Time, changed <-chan struct{}) {
	until := soonest(s.worker.restsUntil(), nextDue)
	if time.Now().Before(until) {
		again, err := s.worker.upkeep()
		if until = earlier(until, again); err != nil {
			s.engine.log().Warn("journal not pruned", "err", err)
		}
	}
	for s.sleep(ctx, min(time.Until(until), maxSleep)) {
		select {
		case <-changed:
			return
		default:
		}
		jumped := s.noteClock(time.Now().Round(0), time.Since(s.started))
		if jumped || !time.Now().Before(until) || s.engine.Store.DB.InPlace() != nil {
			return
		}
	}
}

// sleep sleeps for d, and reports false if another goroutine has acted, or ctx or the state has ended, before.
func (s *scheduler) sleep(ctx context.Context, d time.Duration) (through bool) {
	if s.engine.Store.DB.Failure() != nil {
		return false
	}
	s.turn <- struct{}{}
	select {
	case <-time.After(d):
		through = true
	case <-s.wake:
	case <-ctx.Done():
	}
	<-s.turn
	return through
}

// soonest returns the earlier of two times, of which zero is never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// summarize returns a finished run as log attributes, including the totals of its searches' endings:
// credits saved and left.
func summarize(row *runs.Run, ends []Ending) []any {
	took := row.Ended.Sub(row.Started).Round(time.Second)
	attrs := []any{"status", row.Status, "pages", row.Pages, "hits", row.Hits, "new", row.NewHits,
		"requests", row.Requests, "credits", row.Credits, "took", took.String()}
	attrs = append(attrs, sumOf(ends)...)
	if row.Error != "" {
		attrs = append(attrs, "err", row.Error)
	}
	return attrs
}
