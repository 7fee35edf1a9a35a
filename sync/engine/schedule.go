package engine

import (
	"context"
	"errors"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// nap bounds a single sleep of the schedule: the wall clock may be set, and timers
// stand still while a machine is suspended.
const nap = time.Minute

// Appointment is when a job is due next.
type Appointment struct {
	Spec    *job.Spec
	Due     time.Time
	Trigger Trigger // CatchUp if Due has passed
}

// Agenda tells for each scheduled job, in the order of the file, when it is due
// next, seen from now.
func (e *Engine) Agenda(now time.Time) ([]*Appointment, error) {
	var agenda []*Appointment
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		last, err := e.Store.LastDue(spec.Name)
		if err != nil {
			return nil, err
		}
		if last.IsZero() {
			if last, err = e.Store.FirstSeen(spec.Name, now); err != nil {
				return nil, err
			}
		}
		if a := e.next(spec, last, now); a != nil {
			agenda = append(agenda, a)
		}
	}
	return agenda, nil
}

// next is the job's next appointment: the latest instant that passed since the
// last one, or else the first to come. A job that never ran owes nothing for the
// time before it was first seen.
func (e *Engine) next(spec *job.Spec, last, now time.Time) *Appointment {
	zone := e.Config.Timezone
	a := &Appointment{Spec: spec, Due: spec.Next(now, zone), Trigger: Scheduled}
	if a.Due.IsZero() {
		return nil
	}
	for due := spec.Next(last, zone); !due.IsZero() && !due.After(now); due = spec.Next(due, zone) {
		a.Due, a.Trigger = due, CatchUp
	}
	return a
}

// Serve runs the jobs of the agenda when they are due until ctx ends, and returns
// when the run under way has stopped. A failed run is logged; the schedule goes on.
//
// Runs happen one after another: the pace is shared by all jobs, so two at once
// would only both take longer. A job that comes due during another's run starts
// after it, and instants of one job that pass meanwhile, or while nothing ran at
// all, collapse into one run, because its window covers them all.
func (e *Engine) Serve(ctx context.Context, agenda []*Appointment) {
	for ctx.Err() == nil {
		a := earliest(agenda)
		e.idle(ctx, a)
		if ctx.Err() != nil {
			return
		}
		e.keepAppointment(ctx, a)
		if next := e.next(a.Spec, a.Due, time.Now()); next != nil {
			*a = *next
			e.log().Info("job scheduled", "job", a.Spec.Name, "due", a.Due.In(e.Config.Timezone))
		}
	}
}

// earliest is the appointment that comes first; nil if there is none.
func earliest(agenda []*Appointment) *Appointment {
	var first *Appointment
	for _, a := range agenda {
		if first == nil || a.Due.Before(first.Due) {
			first = a
		}
	}
	return first
}

func (e *Engine) keepAppointment(ctx context.Context, a *Appointment) {
	log := e.log().With("job", a.Spec.Name)
	log.Info("run due", "due", a.Due.In(e.Config.Timezone), "trigger", a.Trigger)
	row, err := e.Run(ctx, a.Spec, a.Trigger, a.Due)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("run interrupted; the next start continues it")
	case err != nil:
		log.Error("run failed", "err", err)
	default:
		log.Info("run finished", Summary(row)...)
	}
}

// Summary is a finished run as log attributes.
func Summary(row *state.Run) []any {
	attrs := []any{"run", row.ID, "status", row.Status, "pages", row.Pages, "hits", row.Hits, "new", row.NewHits,
		"requests", row.Requests, "credits", row.Credits, "took", row.Ended.Sub(row.Started).Round(time.Second).String()}
	if row.Error != "" {
		attrs = append(attrs, "err", row.Error)
	}
	return attrs
}

// idle waits for the appointment (nil: one that never comes) and spends the time
// on the calls that earlier runs left in the queue.
func (e *Engine) idle(ctx context.Context, a *Appointment) {
	for ctx.Err() == nil {
		until := time.Now().Add(nap)
		if a != nil && a.Due.Before(until) {
			until = a.Due
		}
		if err := e.drainQueue(ctx, until); err != nil && ctx.Err() == nil {
			e.log().Error("queue left for later", "err", err)
		}
		if wait := time.Until(until); wait > 0 {
			_ = pause(ctx, wait) // why it ended is ctx's to say, at the head of the loop
		}
		if a != nil && !time.Now().Before(a.Due) {
			return
		}
	}
}

// drainQueue makes the calls that are due, of whatever job, until the given time.
func (e *Engine) drainQueue(ctx context.Context, until time.Time) error {
	task, err := e.Store.NextTask(time.Now(), state.Filter{})
	if err != nil || task == nil {
		return err
	}
	loader, err := newLoader(ctx, e.Store, e.Sinks, e.log())
	if err != nil {
		return err
	}
	r := &run{Engine: e, loader: loader, until: until}
	r.progress = Progress{Started: time.Now(), Tasks: map[outlier.Operation]int{}}
	cause := r.drain(ctx, state.Filter{})
	return errors.Join(cause, loader.load(ctx, true), loader.publishAll(ctx), loader.problems())
}
