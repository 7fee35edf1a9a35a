package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"outlierd/outlier/pace"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// missedAfter is how late a job with `catch_up: none` may still be run, since a scheduler
// outside calls `run --due` every few minutes.
const missedAfter = 10 * time.Minute

// Appointment is when a job is due next.
type Appointment struct {
	Spec    *job.Spec
	Due     time.Time
	Begins  time.Time   // Due, or with the job's jitter up to so much later
	Trigger Trigger     // CatchUp if Begins has passed
	Paused  *runs.Pause // while the job's schedule is paused, no run is begun; else nil
}

// Attrs is an appointment as log attributes, with times in a zone.
func (a *Appointment) Attrs(zone *time.Location) []any {
	attrs := []any{"job", a.Spec.Name, "due", a.Due.In(zone)}
	if a.Begins.After(a.Due) {
		attrs = append(attrs, "begins", a.Begins.In(zone))
	}
	return attrs
}

// Ready reports whether a run is to be begun.
func (a *Appointment) Ready(now time.Time) bool { return a.Paused == nil && !a.Begins.After(now) }

// Agenda is when each scheduled job is due next, seen from now, in the order of the file. What a
// paused job has due waits for the end of the pause; then it is late, and catch_up decides.
func (e *Engine) Agenda(now time.Time) ([]*Appointment, error) {
	pauses, err := e.Store.Runs.Pauses(now)
	if err != nil {
		return nil, err
	}
	var agenda []*Appointment
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		if spec.Disabled {
			continue
		}
		last, err := e.Store.Runs.LastDue(spec.Name)
		if err != nil {
			return nil, err
		}
		if last.IsZero() {
			if last, err = e.Store.Runs.FirstSeen(spec.Name, now); err != nil {
				return nil, err
			}
		}
		if a := e.next(spec, last, now); a != nil {
			a.Paused = pauses[spec.Name]
			agenda = append(agenda, a)
		}
	}
	return agenda, nil
}

// Late are the appointments that jobs have missed by now, those of a job in their order: all of
// them where it wants every one (catch_up), else at most one. Those of paused jobs are among them.
func (e *Engine) Late(now time.Time) ([]*Appointment, error) {
	agenda, err := e.Agenda(now)
	if err != nil {
		return nil, err
	}
	var late []*Appointment
	for _, a := range agenda {
		for paused := a.Paused; a != nil && !a.Begins.After(now); a = e.next(a.Spec, a.Due, now) {
			a.Paused = paused
			late = append(late, a)
		}
	}
	return late, nil
}

// next is the job's next appointment. Of the instants that passed since the last one
// it is the latest, unless the job wants every one or none of them; else it is the
// first to come. A job that never ran owes nothing for the time before it was first
// seen. An instant that jitter delays has not passed before its run may begin: until then it
// is neither missed nor late.
func (e *Engine) next(spec *job.Spec, last, now time.Time) *Appointment {
	zone := e.Config.Timezone
	coming := spec.Next(now, zone)
	if coming.IsZero() {
		return nil
	}
	a := &Appointment{Spec: spec, Due: coming, Begins: spec.Begins(coming, zone), Trigger: Scheduled}
	for due := spec.Next(last, zone); !due.IsZero() && !due.After(now); due = spec.Next(due, zone) {
		begins := spec.Begins(due, zone)
		if begins.After(now) { // the last one before now
			if a.Trigger == Scheduled {
				a.Due, a.Begins = due, begins
			}
			break
		}
		if spec.CatchUp == job.CatchUpNone && now.Sub(begins) > missedAfter {
			continue
		}
		a.Due, a.Begins, a.Trigger = due, begins, CatchUp
		if spec.CatchUp == job.CatchUpAll {
			break
		}
	}
	return a
}

// A scheduler keeps the schedule: it adds runs to a worker when they are due.
type scheduler struct {
	engine  *Engine
	worker  *worker // nil until its sinks have been asked, and while another try is awaited
	agenda  []*Appointment
	fired   []*Appointment // of jobs that come after others
	resumed bool
	tried   map[string]triedRuns // the unfinished runs that were continued before the last due instant, by job
	held    map[string]time.Time // until when a job is not begun: a run of it could not be put on record, or waits for the pace
	logged  map[string]time.Time // the due instant of a job that the log has
	stale   map[string]time.Time // the due instant for which a job waits for the sink that its SQL reads
	fireAt  time.Time            // when to ask again which jobs come after others, as asking failed

	pauseEnds time.Time // when the first of the pauses ends; zero if none does by itself

	began time.Time     // with the monotonic reading
	wall  time.Time     // this machine's clock at the last turn
	since time.Duration // at that turn, the time counted since began
}

// Serve runs the jobs of the agenda when they are due until ctx ends, and returns
// when the runs under way have stopped. A failed run is logged; the schedule goes on.
//
// Runs overlap: the pages of one are taken while the data calls of another wait, since
// pages come first. What runs leave in the queue is done in between. A job that comes
// due while a run of its own takes pages is begun again after it, once, because the window
// of that run covers all instants that have passed. A run that has its pages ends when the
// next one is due.
func (e *Engine) Serve(ctx context.Context, agenda []*Appointment) {
	s := &scheduler{
		engine: e, agenda: agenda,
		tried: map[string]triedRuns{}, held: map[string]time.Time{}, stale: map[string]time.Time{},
		logged: map[string]time.Time{}, began: time.Now(),
	}
	s.notePauses(time.Now())
	e.requests.open(s)
	defer e.requests.close(ctx)
	for ctx.Err() == nil {
		e.beats()
		s.noteClock(time.Now().Round(0), time.Since(s.began))
		s.serveRequests(ctx)
		if err := s.ready(ctx); err != nil {
			e.log().Error("scheduler stopped", "err", err)
			s.refuseOrders(err)
			s.pause(ctx, nap)
			continue
		}
		s.beginOrders(ctx)
		s.beginDue(ctx)
		waited := len(s.worker.urgent()) > 0
		worked, err := s.worker.work(ctx)
		if err == nil {
			s.unpark(waited)
		}
		_, ahead := errors.AsType[*load.AheadError](err)
		if err != nil && ctx.Err() == nil && !tooLong(err) && kindOf(err) == "" {
			s.worker.release(ctx, err) // what keeps everything from going on
		}
		switch long, ok := errors.AsType[*pace.LongWaitError](err); {
		case ok:
			s.park(long)
			s.pause(ctx, min(time.Until(long.Until), nap))
		case ahead: // the runs under way stay unfinished until the state is back
			s.worker, s.resumed = nil, false
		case err != nil:
			s.trouble(ctx, err)
		case !worked:
			s.idle(ctx)
		}
	}
	if s.worker != nil {
		s.stop(ctx)
	}
}

// noteClock logs, once, that this machine's clock shows another time than was counted since the
// last turn. It was set, or the machine slept, during which nothing is counted. Jobs that came
// due meanwhile are late, as after a stop, and the service's time is asked for before the next
// purchase.
func (s *scheduler) noteClock(wall time.Time, since time.Duration) {
	ahead := wall.Sub(s.wall) - (since - s.since)
	if zone := s.engine.Config.Timezone; !s.wall.IsZero() && ahead.Abs() > nap {
		text := "clock set forward, or the machine slept"
		if ahead < 0 {
			text = "clock set back"
		}
		s.engine.log().Warn(text, "by", ahead.Abs().Round(time.Second).String(),
			"from", wall.Add(-ahead).In(zone), "to", wall.In(zone))
	}
	s.wall, s.since = wall, since
}

// ready makes the worker, and goes on with what the last process left.
func (s *scheduler) ready(ctx context.Context) error {
	if s.worker == nil {
		w, err := s.engine.newWorker(ctx, queue.Filter{})
		if err != nil {
			return err
		}
		s.worker, w.onEnd, w.patient, w.followUpsDue = w, s.report, true, true
	}
	if s.resumed {
		return nil
	}
	if err := s.resumeOrders(ctx); err != nil {
		return err
	}
	s.resume(ctx, func(*job.Spec) bool { return true })
	err := s.worker.publish(ctx) // what was the last process's doing, readers may still see as under way
	s.resumed = err == nil
	return err
}

// resume goes on with what the last process left of some jobs. An instant that has passed sees to
// that itself.
func (s *scheduler) resume(ctx context.Context, of func(*job.Spec) bool) {
	for i := range s.engine.Config.Jobs {
		spec := &s.engine.Config.Jobs[i]
		if !of(spec) || spec.Disabled || s.isDue(spec) || s.worker.runOf(spec.Name) != nil {
			continue
		}
		left, err := s.engine.Facts().LeftOver(spec)
		if err != nil {
			s.engine.log().Error("unfinished runs not continued", "job", spec.Name, "err", err)
		}
		for j := range left {
			if ctx.Err() == nil && s.worker.underWay(left[j].ID) == nil && s.goOn(ctx, spec, &left[j]) {
				break // the others are for the next instant
			}
		}
	}
}

// isDue reports whether a job has an instant that has passed.
func (s *scheduler) isDue(spec *job.Spec) bool {
	return slices.ContainsFunc(s.agenda, func(a *Appointment) bool {
		return a.Spec.Name == spec.Name && a.Ready(time.Now())
	})
}

// beginDue begins what is due. An instant is over when a run for it is on record, and
// not before.
func (s *scheduler) beginDue(ctx context.Context) {
	if now := time.Now(); !s.pauseEnds.IsZero() && !now.Before(s.pauseEnds) {
		s.look(now)
	}
	for _, a := range s.agenda {
		now := time.Now()
		if a.Paused != nil {
			continue
		}
		if a.Begins.After(now) {
			s.bringForward(a, now)
			continue
		}
		if late := s.engine.next(a.Spec, a.Due.Add(-1), now); late != nil && late.Due.After(a.Due) {
			*a = *late
		}
		if a.Begins.After(now) {
			continue // too late for a job that does not catch up
		}
		if !s.mayBegin(ctx, a) || !s.start(ctx, a) {
			continue
		}
		if next := s.engine.next(a.Spec, a.Due, time.Now()); next != nil {
			*a = *next
			s.engine.log().Info("job scheduled", a.Attrs(s.engine.Config.Timezone)...)
		}
	}
	s.fire(ctx)
	s.fired = slices.DeleteFunc(s.fired, func(a *Appointment) bool {
		return s.mayBegin(ctx, a) && s.start(ctx, a)
	})
}

// look makes the agenda anew. An instant is over when its run is on record, so nothing is lost
// with the old agenda. If the state does not answer, that one holds for now.
func (s *scheduler) look(now time.Time) {
	agenda, err := s.engine.Agenda(now)
	if err != nil {
		s.engine.log().Error("schedule not checked again", "err", err)
		s.pauseEnds = now.Add(nap)
		return
	}
	s.agenda, s.fired = agenda, nil
	if s.worker != nil {
		s.worker.followUpsDue = true
	}
	s.notePauses(now)
}

// notePauses finds when to look anew because a pause ends.
func (s *scheduler) notePauses(now time.Time) {
	pauses, err := s.engine.Store.Runs.Pauses(now)
	if err != nil {
		s.engine.log().Error("pauses not read", "err", err)
		s.pauseEnds = now.Add(nap)
		return
	}
	s.pauseEnds = time.Time{}
	for _, p := range pauses {
		if !p.Until.IsZero() && (s.pauseEnds.IsZero() || p.Until.Before(s.pauseEnds)) {
			s.pauseEnds = p.Until
		}
	}
}

// bringForward replaces an instant that is not the next one from now: a clock was ahead when
// it was found.
func (s *scheduler) bringForward(a *Appointment, now time.Time) {
	zone := s.engine.Config.Timezone
	if next := a.Spec.Next(now, zone); next.Before(a.Due) {
		a.Due, a.Begins, a.Trigger = next, a.Spec.Begins(next, zone), Scheduled
	}
}

// fire finds the jobs that come after others and have to run, once readers have the pages of
// those others. While no sink works they wait.
func (s *scheduler) fire(ctx context.Context) {
	if !s.worker.followUpsDue || !s.worker.loader.Working() || time.Now().Before(s.fireAt) {
		return
	}
	due, err := s.engine.FollowUps(time.Now())
	if err == nil && len(due) > 0 {
		err = s.worker.publish(ctx)
	}
	if err != nil {
		s.engine.log().Error("jobs that come after others are delayed", "err", err)
		s.fireAt = time.Now().Add(nap)
		return
	}
	if s.worker.loader.Working() {
		s.fired, s.worker.followUpsDue = due, false
	}
}

// mayBegin makes way for the run of a due instant, and reports whether it may begin. A run
// of the job that still takes pages goes before it; one that has them ends. Then what the
// job has unfinished goes on, once for each instant: if that is still stuck, the instant's
// own run is next, and is on record whatever becomes of it.
func (s *scheduler) mayBegin(ctx context.Context, a *Appointment) bool {
	if ctx.Err() != nil || time.Now().Before(s.held[a.Spec.Name]) || s.isStale(a) {
		return false
	}
	if r := s.worker.runOf(a.Spec.Name); r != nil {
		if !r.searched {
			return false
		}
		if err := r.endForNext(ctx); err != nil {
			s.engine.log().Error("run not ended", "job", a.Spec.Name, "err", err)
			s.held[a.Spec.Name] = time.Now().Add(nap)
			return false
		}
	}
	rows, err := s.engine.Facts().Unfinished(a.Spec, a.Due)
	if err != nil {
		s.engine.log().Error("unfinished runs not continued", "job", a.Spec.Name, "err", err)
	}
	for i := range rows {
		old := &rows[i]
		if s.worker.underWay(old.ID) == nil && s.tryOnce(a, old.ID) && s.goOn(ctx, a.Spec, old) {
			return false
		}
	}
	return true
}

// triedRuns are the runs of a job that were continued before a due instant.
type triedRuns struct {
	due  time.Time
	runs []string
}

// tryOnce reports whether a run has not been continued yet before the instant of an appointment,
// and notes that it is now.
func (s *scheduler) tryOnce(a *Appointment, run string) bool {
	tried := s.tried[a.Spec.Name]
	if !tried.due.Equal(a.Due) {
		tried = triedRuns{due: a.Due}
	}
	if slices.Contains(tried.runs, run) {
		return false
	}
	tried.runs = append(tried.runs, run)
	s.tried[a.Spec.Name] = tried
	return true
}

// isStale reports whether a job that comes after another one has to wait for the sink that
// its SQL reads. It logs that once for each due instant.
func (s *scheduler) isStale(a *Appointment) bool {
	err := s.worker.stale(a.Spec)
	if err != nil && a.Trigger == After && !s.stale[a.Spec.Name].Equal(a.Due) {
		s.stale[a.Spec.Name] = a.Due
		s.engine.log().Warn("run waits", "job", a.Spec.Name, "due", a.Due.In(s.engine.Config.Timezone), "err", err)
	}
	return err != nil && a.Trigger == After
}

// goOn continues an unfinished run, and reports whether it is under way.
func (s *scheduler) goOn(ctx context.Context, spec *job.Spec, old *runs.Run) bool {
	log := s.engine.log().With("job", spec.Name, "run", old.ID)
	if _, err := s.worker.begin(ctx, &Order{Spec: spec, Trigger: CatchUp, Old: old}); err != nil {
		log.Error("run not continued", "err", err)
		return false
	}
	log.Info("run continued", "due", old.Due.In(s.engine.Config.Timezone))
	return true
}

// start begins the run of a due instant. It reports false if there is no record of it, as
// when the disk is full; then it is tried again after a while.
func (s *scheduler) start(ctx context.Context, a *Appointment) (recorded bool) {
	log := s.engine.log().With("job", a.Spec.Name)
	about := []any{"due", a.Due.In(s.engine.Config.Timezone), "trigger", a.Trigger}
	r, err := s.worker.begin(ctx, &Order{Spec: a.Spec, Trigger: a.Trigger, Due: a.Due})
	if err == nil {
		log.Info("run started", append([]any{"run", r.row.ID}, about...)...)
		return true
	}
	if isWaiting(err) {
		if !s.logged[a.Spec.Name].Equal(a.Due) {
			s.logged[a.Spec.Name] = a.Due
			log.Info("run waits", append(about, "until", waitsUntil(err).In(s.engine.Config.Timezone))...)
		}
		s.held[a.Spec.Name] = waitsUntil(err)
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	log.Error("run failed", append(about, "err", err)...)
	if done, err := s.engine.Store.Runs.Performed(a.Spec.Name, a.Due); err == nil && done {
		return true
	}
	s.held[a.Spec.Name] = time.Now().Add(nap)
	return false
}

// longestPause bounds the pauses of the queue.
const longestPause = 8 * nap

// park puts on record that the runs under way wait for the rate limit.
func (s *scheduler) park(long error) {
	for _, r := range s.worker.runs {
		if r.parked {
			continue
		}
		row := r.row
		err := s.engine.tally(&row, r.steps)
		if err == nil {
			row.Status, row.Error = runs.PausedQuota, long.Error()
			err = s.engine.Store.Finish(row)
		}
		if err != nil {
			s.engine.log().Error("wait for the rate limit not recorded", "job", row.Job, "err", err)
			continue
		}
		r.parked = true
		s.engine.log().Info("run waits for the rate limit", "job", row.Job, "run", row.ID, "err", long)
	}
}

// unpark puts on record that the runs under way go on. If somebody waited for a run in this turn,
// only such runs were asked whether they could.
func (s *scheduler) unpark(waited bool) {
	for _, r := range s.worker.runs {
		if !r.parked || waited && r.urgent == 0 {
			continue
		}
		if err := s.engine.Store.Runs.Resume(r.row.ID); err != nil {
			s.engine.log().Error("end of the wait not recorded", "job", r.row.Job, "err", err)
			continue
		}
		r.parked = false
	}
}

// trouble pauses the queue, longer each time until a call is answered. The runs under way
// go on after that.
func (s *scheduler) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the runs end with the loop
	}
	s.worker.pausedUntil = time.Now().Add(min(nap<<min(s.worker.pauses, 8), longestPause))
	s.worker.pauses++
	s.engine.waits.add(waitRetry, time.Until(s.worker.pausedUntil))
	if cannotKeep(err) {
		s.worker.fullUntil = s.worker.pausedUntil
	}
	s.engine.log().Error("queue paused", "until", s.worker.pausedUntil.In(s.engine.Config.Timezone), "err", err)
}

// stop ends what is under way; the next start goes on with it. What the queue brought
// in idle time is shown to readers, too.
func (s *scheduler) stop(ctx context.Context) {
	var err error
	if len(s.worker.runs) > 0 {
		s.worker.endAll(ctx, slices.Clone(s.worker.runs), func(*run) error { return context.Cause(ctx) })
	} else {
		err = errors.Join(s.worker.loader.Retry(ctx, true), s.worker.publish(ctx))
	}
	if err := errors.Join(err, s.worker.loader.Problems()); err != nil {
		s.engine.log().Error("the last answers are not published yet", "err", err)
	}
}

// report logs how a run ended, after a line for each of its searches that ended early,
// was cut or was skipped.
func (s *scheduler) report(r *run) {
	log := s.engine.log().With("job", r.row.Job, "run", r.row.ID)
	if isCancelled(r.err) {
		log.Info("run cancelled")
		return
	}
	if r.row.Status == runs.Interrupted {
		log.Info("run interrupted; the next start continues it")
		return
	}
	ends, err := s.engine.endings((&Order{UseReserve: r.useReserve}).facts(s.engine), &r.row, r.plan,
		slices.Clone(r.steps))
	if err != nil {
		log.Error("endings of searches not read", "err", err)
	}
	for i := range ends {
		if message := ends[i].message(); message != "" {
			log.Info(message, ends[i].Attrs()...)
		}
	}
	attrs := Summary(&r.row, ends)
	if queued, err := s.engine.Store.Queue.Queued(queue.Filter{Job: r.row.Job}); err != nil {
		log.Error("queue not counted", "err", err)
	} else if queued > 0 {
		attrs = append(attrs, "queued", queued)
	}
	if spend, err := s.engine.Store.Ledger.Spent(r.row.ID); err != nil {
		log.Error("spending not read", "err", err)
	} else if spend.Unknown > 0 {
		attrs = append(attrs, "credits_unknown", spend.Unknown)
	}
	if skipped := sumOfFresh(r.fresh); skipped > 0 {
		attrs = append(attrs, "skipped_fresh", skipped)
	}
	if r.err != nil {
		if r.row.Error == "" {
			attrs = append(attrs, "err", r.err)
		}
		log.Error("run failed", attrs...)
		return
	}
	log.Info("run finished", attrs...)
}

// idle sleeps until there may be something to do, after readers were shown what idle
// time has brought, if that is due.
func (s *scheduler) idle(ctx context.Context) {
	until := time.Now().Add(nap)
	err := s.publishIdle(ctx)
	if err == nil {
		until, err = s.wakes()
	}
	if err != nil {
		s.trouble(ctx, err)
	} else if time.Now().Before(until) {
		until = earlier(until, s.upkeep())
	}
	s.pause(ctx, time.Until(until))
}

// upkeep does a little of what nothing waits for, and returns when there may be more of it.
func (s *scheduler) upkeep() time.Time {
	again, err := s.worker.upkeep()
	if err != nil {
		s.engine.log().Warn("journal not pruned", "err", err)
	}
	return again
}

// pause sleeps until there may be something to do, or somebody asks for something.
func (s *scheduler) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.engine.requests.came:
	case <-ctx.Done():
	}
}

// publishIdle publishes what readers do not see yet, if that is due.
func (s *scheduler) publishIdle(ctx context.Context) error {
	if !s.worker.loader.PublishDue() {
		return nil
	}
	unseen, err := s.worker.loader.Unseen()
	if err != nil || !unseen {
		s.worker.loader.PagesIn = false // they came from the journal
		return err
	}
	return s.worker.publish(ctx)
}

// wakes is when there may be something to do.
func (s *scheduler) wakes() (time.Time, error) {
	until := time.Now().Add(nap)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	sooner(s.pauseEnds)
	for _, a := range s.agenda {
		if a.Paused != nil {
			continue
		}
		if r := s.worker.runOf(a.Spec.Name); r != nil && !r.searched {
			continue
		}
		if held := s.held[a.Spec.Name]; a.Begins.Before(held) {
			sooner(held)
		} else {
			sooner(a.Begins)
		}
	}
	for _, r := range s.worker.runs {
		sooner(r.wake)
	}
	sooner(s.worker.slot)
	for _, again := range s.engine.requests.waits() {
		sooner(again)
	}
	sooner(s.worker.loader.NextRetry())
	if s.worker.loader.PagesIn {
		sooner(s.worker.loader.PublishAt())
	}
	if s.worker.pausedUntil.After(time.Now()) {
		sooner(s.worker.pausedUntil)
	}
	retry, err := s.engine.Store.Queue.NextRetry(time.Now(), s.worker.filter)
	sooner(retry)
	return until, err
}

// Summary is a finished run as log attributes, with what the endings of its searches come
// to: what they saved, and what they left.
func Summary(row *runs.Run, ends []Ending) []any {
	took := row.Ended.Sub(row.Started).Round(time.Second)
	attrs := []any{"status", row.Status, "pages", row.Pages, "hits", row.Hits, "new", row.NewHits,
		"requests", row.Requests, "credits", row.Credits, "took", took.String()}
	attrs = append(attrs, sumOf(ends)...)
	if row.Error != "" {
		attrs = append(attrs, "err", row.Error)
	}
	return attrs
}
