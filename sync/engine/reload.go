package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # Reloading the job file
//
// The scheduler continues with an edited file as a restart would, without ending any run. Between two
// calls, the new jobs replace the old ones: renames are carried out, queued calls that no job wants any
// more are removed. The due times follow from the file and the state, so they are those of a process that has just
// started.
//
// A run in progress reads its stored plan and never the file, so it finishes as it started. It takes
// the new name of its job and the caps of the new file. If its job was removed from the file, the run
// keeps its caps and its queued calls, and the job does not start again.
//
// What a process has opened is not reopened, so the caller must not change the service's address, the data
// folder, the sinks or the calendar.

// Settle brings the state in line with the job file: it renames jobs, and removes the queued calls that no job wants
// any more, except those of runs in progress.
func (e *Engine) Settle() error {
	for i := range e.Config.Jobs {
		if spec := &e.Config.Jobs[i]; spec.Was != "" {
			if err := e.Store.Rename(spec.Was, spec.Name); err != nil {
				return err
			}
		}
	}
	going, err := e.Store.Runs.InProgress()
	if err != nil {
		return err
	}
	isGoing := func(name string) bool {
		return slices.ContainsFunc(going, func(r runs.Run) bool { return r.Job == name })
	}
	dropped, err := e.Store.Queue.DropUnwanted(func(name string, op outlier.Operation) bool {
		spec, isOp := e.Config.Job(name), func(c job.Call) bool { return c.Op == op }
		return job.IsOnce(name) || isGoing(name) ||
			spec != nil && slices.ContainsFunc(slices.Concat(spec.Enrich, spec.Fetch), isOp)
	})
	if dropped > 0 {
		e.log().Info("unwanted calls cancelled", "calls", dropped)
	}
	return err
}

// Reload replaces the configuration, and calls then once the state is settled for it. If that fails, the old
// configuration stays in use.
func (e *Engine) Reload(ctx context.Context, config *job.Config, then func()) error {
	return e.turns.take(ctx, func(ctx context.Context, s *scheduler) error {
		err := s.reload(ctx, config)
		if err == nil {
			then()
		}
		return err
	})
}

func (s *scheduler) reload(ctx context.Context, config *job.Config) error {
	e, old := s.engine, s.engine.Config
	before, err := e.Agenda(time.Now())
	if err != nil {
		return err
	}
	e.Config = config
	if err := e.Settle(); err != nil {
		e.Config = old
		return err
	}
	if err := NoteJobs(config, e.Store.DB, e.log()); err != nil {
		e.log().Error("job changes not recorded", "err", err)
	}
	e.rekeyed()
	agenda, err := e.Agenda(time.Now())
	if err != nil {
		e.log().Error("schedule not read", "err", err)
	}
	for _, a := range agenda {
		known := func(b *DueRun) bool { return b.Spec.Name == a.Spec.Name && b.Begins.Equal(a.Begins) }
		if !slices.ContainsFunc(before, known) && a.Paused == nil {
			e.log().Info("job scheduled", append(a.Attrs(config.Timezone), "trigger", a.Trigger)...)
		}
	}
	if s.worker != nil && s.resumed {
		s.resumeUnfinished(ctx, func(spec *job.Spec) bool { // only jobs that were not scheduled before
			was := old.Job(spec.Name)
			return was == nil || was.Disabled
		})
	}
	return nil
}

// NoteJobs logs how the jobs of the file have changed since a schedule last ran, and records them for the
// next time. For a new state it logs nothing.
func NoteJobs(config *job.Config, in *store.Store, log *slog.Logger) error {
	earlier, err := servedJobs.Get(in)
	if err != nil {
		return err
	}
	found := earlier != nil
	var changes []job.Change
	if found {
		changes = config.ChangesSince(earlier)
	}
	for _, c := range changes {
		switch log := log.With("job", c.Job); c.Kind {
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
	return servedJobs.Set(in, config.Known())
}

// servedJobs has the jobs of the last schedule.
var servedJobs = store.Cell[[]job.Known]{Key: "jobs of the schedule"}
