package engine

import (
	"fmt"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// # Follow-ups
//
// A job with `after` runs once for each run of its parent, as soon as the parent's pages are published,
// even if the parent is still making data calls. Its due time is that of the parent's run. The
// follow-up is recorded when the parent's searches have ended, and removed when its own run is
// recorded, so a kill in between loses nothing and a resumed parent does not start it twice. A manual
// run of the parent starts no follow-up.

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

// dueRuns returns the runs of the due times that have come: those of schedules in the order of the file, then
// follow-ups, oldest first, without those of paused jobs. It drops the due times that will have no run. since is when the
// process began to run the schedule.
func dueRuns(config *job.Config, in *state.Store, now, since time.Time) ([]*DueRun, error) {
	noted, err := in.Schedule.Dues()
	if err != nil || len(noted) == 0 {
		return nil, err
	}
	pauses, err := in.Schedule.Pauses(now)
	if err != nil {
		return nil, err
	}
	latest := map[string]time.Time{}
	for _, d := range noted {
		latest[d.Job] = d.At
	}
	var all []*DueRun
	var dropped []runs.Due
	for _, d := range noted {
		spec, paused := config.Job(d.Job), pauses[d.Job]
		switch {
		case passesOver(spec, d, latest[d.Job], paused != nil || d.Noted.Before(since), now, config.Timezone):
			dropped = append(dropped, d)
		case paused == nil && !spec.Disabled:
			a := &DueRun{Spec: spec, Due: d.At, Begins: d.At, Trigger: Trigger(d.Trigger), noted: d}
			if all = append(all, a); a.Trigger != After {
				a.awaitQuietEnd(now, config.Timezone)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *DueRun) int { return placeOf(config, a) - placeOf(config, b) })
	if len(dropped) == 0 {
		return all, nil
	}
	return all, in.DB.Update(func(tx *store.Tx) error { return runs.DropDues(tx, dropped) })
}

// placeOf returns the place of a due run among those of other jobs. All follow-ups have the same.
func placeOf(config *job.Config, a *DueRun) int {
	if a.Trigger == After {
		return len(config.Jobs)
	}
	return slices.IndexFunc(config.Jobs, func(spec job.Spec) bool { return spec.Name == a.Spec.Name })
}

// passesOver reports whether a due time will have no run: its job does not have it any more, or `catch_up` does
// without it. latest is the last one of the job; missed is set if the job was paused, or no process was running, when
// it came.
func passesOver(spec *job.Spec, d runs.Due, latest time.Time, missed bool, now time.Time, zone *time.Location) bool {
	follows := d.Trigger == string(After)
	switch {
	case spec == nil, follows && spec.After == "":
		return true
	case !follows && (d.At.After(now) || !spec.Next(d.At.Add(-1), zone).Equal(d.At)):
		return true
	case !follows && spec.CatchUp != job.CatchUpAll && d.At.Before(latest):
		return true
	case spec.CatchUp == job.CatchUpAll || now.Sub(d.Noted) <= missedAfter:
		return false
	case spec.CatchUp == job.CatchUpNone:
		return missed
	}
	return d.At.Before(latest)
}

// checkStale returns an error for a job with `after` while the sink that its SQL reads is disabled: the tables do not
// have the rows of the job that it comes after.
func checkStale(l *load.Loader, spec *job.Spec) error {
	if spec.After == "" || len(spec.SQL()) == 0 {
		return nil
	}
	if err := l.Problem(job.SinkDuckDB); err != nil {
		return fmt.Errorf("its SQL cannot see the rows of job %s yet, because sink %s is disabled; "+
			"run it when the sink works again: %w", spec.After, job.SinkDuckDB, err)
	}
	return nil
}
