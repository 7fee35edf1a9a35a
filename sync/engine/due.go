package engine

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// # Due times
//
// A due time is a row from when it comes until its run is recorded ([runs.Due]), so that a kill or an outage loses
// none. A job with `after` runs once for each run of its parent, as soon as the parent's pages are published, even if
// the parent is still making data calls. Its due time is that of the parent's run: the row is written when the
// parent's searches have ended, and a resumed parent does not write it twice. A manual run of the parent starts no
// follow-up. [readDues] notes what has come, and drops what `catch_up` does without.

// missedAfter is how late a job with `catch_up: none` may still run. An external scheduler calls
// `run --due` only every few minutes.
const missedAfter = 10 * time.Minute

// A DueRun is a run that a schedule or another run calls for: one that is due, or the next one of a job.
type DueRun struct {
	Spec    *job.Spec
	Due     time.Time
	Begins  time.Time   // Due plus the job's jitter, if it has any; of a late run in quiet hours their end
	Trigger Trigger     // CatchUp if it is late
	Paused  *runs.Pause // the pause of the job's schedule, during which no run starts; nil if it is not paused

	noted runs.Due // its row, once the due time has come
}

// Attrs returns the run as log attributes, with times in the given zone.
func (a *DueRun) Attrs(zone *time.Location) []any {
	attrs := []any{"job", a.Spec.Name, "due", a.Due.In(zone)}
	if a.Begins.After(a.Due) {
		attrs = append(attrs, "begins", a.Begins.In(zone))
	}
	return attrs
}

// startsAt returns when the run may start; zero if that is not known.
func (a *DueRun) startsAt(now time.Time) time.Time {
	again := a.noted.NotBefore
	switch {
	case a.Paused != nil:
		return a.Paused.Until
	case again.After(a.Begins) && !again.After(now.Add(maxSleep)): // else the clock was ahead
		return again
	}
	return a.Begins
}

// dueList has the due times of all jobs at a time.
type dueList struct {
	due  []*DueRun // that have come: those of schedules in the order of the file, then follow-ups, oldest first
	next []*DueRun // the one after those of each scheduled job, in the order of the file; it may be late, too
}

// Agenda returns the next run of each scheduled job as of now, in the order of the file: one that is due, if there is.
func (e *Engine) Agenda(now time.Time) ([]*DueRun, error) {
	since := now
	if s := e.turns.schedule.Load(); s != nil {
		since = s.started
	}
	l, err := readDues(e.Config, e.Store, e.log(), now, since)
	for i, next := range l.next {
		isSame := func(a *DueRun) bool { return a.Spec == next.Spec && a.Trigger != After }
		if at := slices.IndexFunc(l.due, isSame); at >= 0 {
			l.next[i] = l.due[at]
		}
	}
	return l.next, err
}

// DueNow returns the runs that are due, as [Engine.Serve] would start them: those of schedules in the order of the
// file, then those of jobs with `after`. `catch_up` decides about what has come due since the last time. Of the due
// times that a job with `catch_up: all` has missed it returns the first one, until that has its run.
func (e *Engine) DueNow(now time.Time) ([]*DueRun, error) {
	l, err := readDues(e.Config, e.Store, e.log(), now, now)
	return slices.DeleteFunc(l.due, func(a *DueRun) bool { return a.Begins.After(now) }), err
}

// readDues returns the due times at a time, and records which ones have come since the last time, and which ones will
// have no run. While one of them waits for its run, a job with `catch_up: all` gets no other, however many it has
// missed. Of a paused job none comes: when the pause ends, catch_up decides. since is when the process began to run
// the schedule.
func readDues(config *job.Config, in *state.Store, log *slog.Logger, now, since time.Time) (l dueList, err error) {
	c, err := in.Schedule.DueTimes(now)
	if err != nil {
		return l, err
	}
	var come []runs.Due
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		if spec.Disabled {
			continue
		}
		last, err := lastDue(in.Schedule, c.Noted[spec.Name], log, spec, now, config.Timezone)
		if err != nil {
			return l, err
		}
		if c.Pauses[spec.Name] != nil {
			last = now
		}
		due, next := dueSince(last, spec, now, config.Timezone)
		if next != nil {
			next.Paused = c.Pauses[spec.Name]
			l.next = append(l.next, next)
		}
		isOfJob := func(d runs.Due) bool { return d.Job == spec.Name }
		waits := spec.CatchUp == job.CatchUpAll && slices.ContainsFunc(c.Dues, isOfJob)
		if due == nil || waits || spec.CatchUp == job.CatchUpNone && now.Sub(due.Begins) > missedAfter {
			continue
		}
		if due.Begins.After(since) && now.Sub(due.Begins) <= 2*maxSleep { // a call and a sleep
			due.Trigger = Scheduled
		}
		come = append(come, runs.Due{Job: spec.Name, At: due.Due, Trigger: string(due.Trigger)})
		if next != nil && next.Begins.After(now) {
			log.Info("job scheduled", next.Attrs(config.Timezone)...)
		}
	}
	if len(come) > 0 {
		err = in.DB.Update(func(tx *store.Tx) error { return runs.NoteDues(tx, come) })
		if err == nil {
			c.Dues, err = in.Schedule.Dues()
		}
	}
	var dropped []runs.Due
	for i, d := range c.Dues {
		spec, paused := config.Job(d.Job), c.Pauses[d.Job] != nil
		later := slices.ContainsFunc(c.Dues[i+1:], func(other runs.Due) bool { return other.Job == d.Job })
		switch {
		case passesOver(spec, d, later, paused || d.Noted.Before(since), now, config.Timezone):
			dropped = append(dropped, d)
		case !paused && !spec.Disabled:
			l.due = append(l.due, newDueRun(spec, d, now, config.Timezone))
		}
	}
	slices.SortStableFunc(l.due, func(a, b *DueRun) int { return placeOf(config, a) - placeOf(config, b) })
	if len(dropped) > 0 {
		err = errors.Join(err, in.DB.Update(func(tx *store.Tx) error { return runs.DropDues(tx, dropped) }))
	}
	return l, err
}

// lastDue returns the time up to which the due times of a job have come: the recorded one. For a job that no schedule
// has seen before, or if the clock was ahead, that is now, which it records.
func lastDue(in *runs.Schedule, last time.Time, log *slog.Logger, spec *job.Spec, now time.Time, zone *time.Location) (
	time.Time, error) {
	if !last.IsZero() && !last.After(now) {
		return last, nil
	}
	if last.After(now) {
		log.Warn("due time in the future counted as now: the clock was ahead when it ran", "job", spec.Name,
			"due", last.In(zone))
	}
	return now, in.SetNoted(spec.Name, now)
}

// dueSince returns the run that a job is due for since a due time, nil if none has come, and its next one. Of several
// that have come it returns the first one for `catch_up: all`, and else the last one. A due time that jitter delays,
// at most the last one, has not come until its run may begin.
func dueSince(last time.Time, spec *job.Spec, now time.Time, zone *time.Location) (due, next *DueRun) {
	at := func(due time.Time) *DueRun {
		if due.IsZero() {
			return nil
		}
		return &DueRun{Spec: spec, Due: due, Begins: spec.Begins(due, zone), Trigger: Scheduled}
	}
	due = at(spec.Next(last, zone))
	if due == nil || due.Begins.After(now) {
		return nil, due
	}
	if newest := at(spec.Last(last, now, zone)); newest != nil && spec.CatchUp != job.CatchUpAll {
		due = newest
	}
	if next = at(spec.Next(due.Due, zone)); due.Begins.After(now) {
		due, next = at(spec.Last(last, due.Due.Add(-1), zone)), due
	}
	if due != nil {
		due.Trigger = CatchUp
	}
	return due, next
}

// newDueRun returns the run of a due time that has come. A late one waits for the end of its job's quiet hours.
func newDueRun(spec *job.Spec, d runs.Due, now time.Time, zone *time.Location) *DueRun {
	a := &DueRun{Spec: spec, Due: d.At, Begins: d.At, Trigger: Trigger(d.Trigger), noted: d}
	if end := spec.AfterQuiet(now, zone); a.Trigger != After && end.After(now) && end.After(a.Begins) {
		a.Begins = end
	}
	return a
}

// placeOf returns the place of a due run among those of other jobs. All follow-ups have the same.
func placeOf(config *job.Config, a *DueRun) int {
	if a.Trigger == After {
		return len(config.Jobs)
	}
	return slices.IndexFunc(config.Jobs, func(spec job.Spec) bool { return spec.Name == a.Spec.Name })
}

// passesOver reports whether a due time will have no run: its job does not have it any more, or `catch_up` does
// without it. later is set if the job has a later one; missed is set if the job was paused, or no process was
// running, when it came.
func passesOver(spec *job.Spec, d runs.Due, later, missed bool, now time.Time, zone *time.Location) bool {
	follows, old := d.Trigger == string(After), now.Sub(d.Noted) > missedAfter
	switch {
	case spec == nil, follows && spec.After == "":
		return true
	case !follows && (d.At.After(now) || !spec.Next(d.At.Add(-1), zone).Equal(d.At)):
		return true
	case spec.CatchUp == job.CatchUpAll:
		return false
	}
	return later && (!follows || old) || spec.CatchUp == job.CatchUpNone && missed && old
}

// followUps returns the follow-ups of this run, whose searches have ended.
func (r *run) followUps(steps []runs.Step) (all []runs.Due) {
	if r.row.Due.IsZero() || r.row.Trigger == string(Manual) || r.searchErr(steps) != nil {
		return nil
	}
	for i := range r.engine.Config.Jobs {
		if spec := &r.engine.Config.Jobs[i]; spec.After == r.row.Job && !spec.Disabled {
			all = append(all, runs.Due{Job: spec.Name, At: r.row.Due, Trigger: string(After)})
		}
	}
	return all
}
