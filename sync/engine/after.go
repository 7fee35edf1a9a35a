package engine

import (
	"fmt"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
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
func (r *run) followUps() (all []runs.FollowUp) {
	if r.row.Due.IsZero() || r.row.Trigger == string(Manual) || r.capErr != nil || r.searchErr != nil {
		return nil
	}
	for i := range r.engine.Config.Jobs {
		if spec := &r.engine.Config.Jobs[i]; spec.After == r.row.Job && !spec.Disabled {
			all = append(all, runs.FollowUp{Job: spec.Name, Due: r.row.Due})
		}
	}
	return all
}

// FollowUps returns the due runs of jobs with `after`, in the order of their due times. `catch_up` applies
// to overdue ones as to any missed due time. Follow-ups of a job that no longer has `after` are dropped,
// and those of a paused job wait.
func (e *Engine) FollowUps(now time.Time) ([]*DueRun, error) {
	return e.followUps(now, func(string, time.Time) bool { return false })
}

// followUps is FollowUps for a process for which the due times that waiting knows are not overdue: it was running at
// them.
func (e *Engine) followUps(now time.Time, waiting func(job string, due time.Time) bool) ([]*DueRun, error) {
	followUps, err := e.Store.Runs.FollowUps()
	if err != nil || len(followUps) == 0 {
		return nil, err
	}
	pauses, err := e.Store.Runs.Pauses(now)
	if err != nil {
		return nil, err
	}
	latest := map[string]time.Time{}
	for _, d := range followUps {
		latest[d.Job] = d.Due
	}
	var all []*DueRun
	var dropped []runs.FollowUp
	for _, d := range followUps {
		switch spec := e.Config.Job(d.Job); {
		case pauses[d.Job] != nil: // waits; if too late by the end of the pause, it is dropped then
		case spec == nil || spec.After == "" || passed(spec, d, latest[d.Job], waiting(d.Job, d.Due), now):
			dropped = append(dropped, d)
		case !spec.Disabled:
			all = append(all, &DueRun{Spec: spec, Due: d.Due, Begins: d.Due, Trigger: After})
		}
	}
	if len(dropped) == 0 {
		return all, nil
	}
	return all, e.Store.DB.Update(func(tx *store.Tx) error { return runs.DropFollowUps(tx, dropped) })
}

// passed reports whether an overdue follow-up is dropped. latest is the last one of the job; waiting reports whether
// the process was running at its due time.
func passed(spec *job.Spec, d runs.FollowUp, latest time.Time, waiting bool, now time.Time) bool {
	switch {
	case spec.CatchUp == job.CatchUpAll || now.Sub(d.Noted) <= missedAfter:
		return false
	case spec.CatchUp == job.CatchUpNone:
		return !waiting
	}
	return d.Due.Before(latest)
}

// StaleError reports that a job has to wait because the tables that its SQL reads do not have the rows
// of the job that it comes after.
type StaleError struct {
	Job, After string
	Err        error // why the sink is disabled
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("its SQL cannot see the rows of job %s yet, because sink %s is disabled; "+
		"run it when the sink works again: %v",
		e.After, job.SinkDuckDB, e.Err)
}

func (e *StaleError) Unwrap() error { return e.Err }

// stale returns a [StaleError] for a job with `after` and SQL while the sink that SQL reads is disabled.
func (w *worker) stale(spec *job.Spec) error {
	if spec.After == "" || len(spec.SQL()) == 0 {
		return nil
	}
	if err := w.loader.Problem(job.SinkDuckDB); err != nil {
		return &StaleError{Job: spec.Name, After: spec.After, Err: err}
	}
	return nil
}
