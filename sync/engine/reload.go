package engine

import (
	"context"
	"slices"
	"time"

	"outlierd/sync/job"
)

// # Another state of the job file
//
// The schedule goes on with an edited file as a restart would, and ends nothing for it. Between
// two calls the new jobs take the place of the old ones: renames are carried out, what no job
// wants any more leaves the queue, and the agenda is made anew from what is on record, so that
// the due instants are those of a process that had just been started.
//
// A run under way reads its stored plan and never the file, so it finishes as it began. It goes
// by the new name of its job, and its caps are those of the new file. Of a job that has left the
// file the run keeps the job's own caps and its queued calls; nothing of it is begun again.
//
// What a process has opened stays as it is, so the caller must not change the service's address,
// the data folder, the sinks or the calendar.

// Reload goes on with another state of the job file. settle brings the state in line with it, when
// [Engine.Config] is the new file; underWay says which jobs have runs whose calls have to stay. If
// it fails, the old file stays in use.
func (e *Engine) Reload(ctx context.Context, config *job.Config,
	settle func(ctx context.Context, underWay func(name string) bool) error) error {
	return e.Between(ctx, func(ctx context.Context) error { return e.requests.scheduler.reload(ctx, config, settle) })
}

func (s *scheduler) reload(ctx context.Context, config *job.Config,
	settle func(ctx context.Context, underWay func(name string) bool) error) error {
	e, old := s.engine, s.engine.Config
	e.Config = config
	if err := settle(ctx, s.busy); err != nil {
		e.Config = old
		return err
	}
	s.rename()
	if err := e.NoteJobs(); err != nil {
		e.log().Error("changes of jobs not noted", "err", err)
	}
	e.rekeyed()
	before := s.agenda
	s.look(time.Now())
	for _, a := range s.agenda {
		known := func(b *Appointment) bool { return b.Spec.Name == a.Spec.Name && b.Begins.Equal(a.Begins) }
		if !slices.ContainsFunc(before, known) && a.Paused == nil {
			e.log().Info("job scheduled", append(a.Attrs(config.Timezone), "trigger", a.Trigger)...)
		}
	}
	if s.worker != nil && s.resumed {
		s.resume(ctx, func(spec *job.Spec) bool { // of jobs that were not kept before
			was := old.Job(spec.Name)
			return was == nil || was.Disabled
		})
	}
	return nil
}

// busy reports whether a run of a job is under way, by the name that the job has or had.
func (s *scheduler) busy(name string) bool {
	if s.worker == nil {
		return false
	}
	spec := s.engine.Config.Job(name)
	return s.worker.find(func(r *run) bool { return r.row.Job == name || spec != nil && r.row.Job == spec.Was }) != nil
}

// rename lets the runs under way go by the names that their jobs have now, under today's caps.
func (s *scheduler) rename() {
	if s.worker == nil {
		return
	}
	for _, r := range s.worker.runs {
		for i := range s.engine.Config.Jobs {
			if spec := &s.engine.Config.Jobs[i]; spec.Was == r.row.Job {
				r.row.Job, r.progress.Job = spec.Name, spec.Name
			}
		}
		own := r.own
		if spec := s.engine.Config.Job(r.row.Job); spec != nil && !r.row.Overridden {
			own = spec.Budget
		}
		r.limit(own)
		r.updated()
	}
}

// NoteJobs logs what happened to the jobs of the file since a process kept the schedule last, and
// keeps today's for the next one. In a new state there is nothing to tell.
func (e *Engine) NoteJobs() error {
	var earlier []job.Known
	found, err := e.Store.Runs.Served(&earlier)
	if err != nil {
		return err
	}
	var changes []job.Change
	if found {
		changes = e.Config.ChangesSince(earlier)
	}
	for _, c := range changes {
		switch log := e.log().With("job", c.Job); c.Kind {
		case job.JobAdded:
			log.Info("job added")
		case job.JobRemoved:
			log.Info("job removed; its data stays")
		case job.JobRenamed:
			log.Info("job renamed", "was", c.Was, "changes", c.Changes)
		default:
			log.Info("job changed", "changes", c.Changes)
		}
	}
	if found && len(changes) == 0 {
		return nil
	}
	return e.Store.Runs.SetServed(e.Config.Known())
}
