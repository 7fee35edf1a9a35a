package engine

import (
	"context"
	"slices"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # What comes after
//
// A job with `after` is begun when the pages of its parent's run can be read, while the
// parent may still ask about its hits. It is due at the instant of the parent's run, so
// that no instant begins it twice, however often that run is continued or the process
// starts anew. A parent that was run by hand fires nothing by itself.

// follow fires the jobs that come after the job of r, once readers have its pages. If
// they cannot be published, the run fails, and whoever continues it fires them.
func (w *watch) follow(ctx context.Context, r *run) error {
	due := r.row.Due
	if due.IsZero() || r.row.Trigger == string(Manual) {
		return nil
	}
	var fired []*Appointment
	for i := range w.Config.Jobs {
		if spec := &w.Config.Jobs[i]; spec.After == r.row.Job && !spec.Disabled {
			fired = append(fired, &Appointment{Spec: spec, Due: due, Trigger: After})
		}
	}
	if len(fired) == 0 {
		return nil
	}
	if err := w.publish(ctx); err != nil {
		return err
	}
	if !w.loader.working() {
		return nil
	}
	for _, a := range fired {
		if err := w.summon(a); err != nil {
			return err
		}
	}
	return nil
}

// summon begins an appointment in its turn, unless its instant had its run. It takes
// the place of an earlier one that still waits.
func (w *watch) summon(a *Appointment) error {
	last, err := w.Store.LastDue(a.Spec.Name)
	if err != nil || !a.Due.After(last) {
		return err
	}
	w.fired = slices.DeleteFunc(w.fired, func(old *Appointment) bool { return old.Spec == a.Spec })
	w.fired = append(w.fired, a)
	return nil
}

// fires are the ends of a run after which other jobs come.
var fires = []state.Status{state.OK, state.OKEmpty, state.Partial}

// owed fires a job whose parent has ended since it was begun last: the process was
// ended in between.
func (w *watch) owed(spec *job.Spec) error {
	if spec.After == "" {
		return nil
	}
	seen, err := w.Store.FirstSeen(spec.Name, time.Now())
	if err != nil {
		return err
	}
	runs, err := w.Store.Runs(spec.After, 1)
	if err != nil || len(runs) == 0 {
		return err
	}
	parent := runs[0]
	if !slices.Contains(fires, parent.Status) || parent.Due.IsZero() || parent.Trigger == string(Manual) || parent.Started.Before(seen) {
		return nil
	}
	return w.summon(&Appointment{Spec: spec, Due: parent.Due, Trigger: After})
}
