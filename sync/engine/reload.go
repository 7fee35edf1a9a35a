package engine

import (
	"outlierd/sync/job"
)

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
			log.Info("job is new")
		case job.JobRemoved:
			log.Info("job is gone; its data stays")
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
