package engine

import (
	"fmt"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # What comes after
//
// A job with `after` runs once for each run of its parent, when the parent's pages can
// be read, while the parent may still ask about its hits. It is due at the instant of the
// parent's run. The follow-up is noted when the parent's searches have ended, and removed
// when its own run is on record: a kill in between loses nothing, and a parent that is
// continued starts nothing twice. A parent that was run by hand starts nothing by itself.

// followUps are the runs that follow this one, whose searches have ended.
func (r *run) followUps() (all []runs.FollowUp) {
	if r.row.Due.IsZero() || r.row.Trigger == string(Manual) || r.capped != nil || r.trouble != nil {
		return nil
	}
	for i := range r.engine.Config.Jobs {
		if spec := &r.engine.Config.Jobs[i]; spec.After == r.row.Job && !spec.Disabled {
			all = append(all, runs.FollowUp{Job: spec.Name, Due: r.row.Due})
		}
	}
	return all
}

// FollowUps are the runs that jobs with `after` have to make, in the order of their due
// instants. `catch_up` decides about overdue ones, as about any instants that passed. Those of a
// job that comes after no other any more are dropped, and those of a paused one wait.
func (e *Engine) FollowUps(now time.Time) ([]*Appointment, error) {
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
	var all []*Appointment
	var dropped []runs.FollowUp
	for _, d := range followUps {
		switch spec := e.Config.Job(d.Job); {
		case pauses[d.Job] != nil: // it waits; what is too late then is dropped then
		case spec == nil || spec.After == "" || passed(spec, d, latest[d.Job], now):
			dropped = append(dropped, d)
		case !spec.Disabled:
			all = append(all, &Appointment{Spec: spec, Due: d.Due, Begins: d.Due, Trigger: After})
		}
	}
	if len(dropped) == 0 {
		return all, nil
	}
	return all, e.Store.DB.Update(func(tx *store.Tx) error { return runs.DropFollowUps(tx, dropped) })
}

// passed reports whether an overdue follow-up is dropped.
func passed(spec *job.Spec, d runs.FollowUp, latest, now time.Time) bool {
	switch {
	case spec.CatchUp == job.CatchUpAll || now.Sub(d.Noted) <= missedAfter:
		return false
	case spec.CatchUp == job.CatchUpNone:
		return true
	}
	return d.Due.Before(latest)
}

// StaleError says that a job has to wait whose SQL is to find what another job has brought:
// the tables that SQL reads do not have it yet.
type StaleError struct {
	Job, After string
	Err        error // what the sink is disabled for
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("its SQL cannot see the rows of job %s yet, because sink %s is disabled; "+
		"run it when the sink works again: %v",
		e.After, job.SinkDuckDB, e.Err)
}

func (e *StaleError) Unwrap() error { return e.Err }

// stale returns a [StaleError] for a job that comes after another one and has SQL, while the
// tables that SQL reads are behind.
func (w *worker) stale(spec *job.Spec) error {
	if spec.After == "" || len(spec.SQL()) == 0 {
		return nil
	}
	if err := w.loader.Problem(job.SinkDuckDB); err != nil {
		return &StaleError{Job: spec.Name, After: spec.After, Err: err}
	}
	return nil
}
