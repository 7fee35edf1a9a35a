package forecast

import (
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// unfinishedRuns returns the unfinished runs of the file's jobs, in the order of the file. Runs in progress
// that belong to none of them come last: of one-off requests, and of jobs that were removed from the file.
func (r *Reader) unfinishedRuns() (all []facts.Unfinished, err error) {
	for i := range r.Config.Jobs {
		rows, err := r.Unfinished(&r.Config.Jobs[i], time.Time{})
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	rows, err := r.Store.Runs.List(runs.Filter{Status: runs.Running}, 0)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if r.Config.Job(row.Job) != nil {
			continue
		}
		steps, err := r.Store.Steps.OfRun(row.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, facts.Unfinished{Run: row, Spec: &job.Spec{Name: row.Job}, Steps: steps})
	}
	return all, nil
}

// planOf returns what a run keeps of its plan; nothing if it has not begun.
func planOf(run *runs.Run) plan.Stored {
	if run.Plan == nil {
		return plan.Stored{}
	}
	return *run.Plan
}

// continuesByItself reports whether a process performs an unfinished run, or would as soon as one works on the
// job. A run that reached a cap or failed waits for the job's next due time, and an overridden one for
// the same command.
func continuesByItself(u *facts.Unfinished) bool {
	return u.Run.Status == runs.Running || u.Run.Status.Open() && u.Continues()
}

// nextOf returns when a job is due after now, or the first job of its chain of `after`; zero for never.
func nextOf(config *job.Config, spec *job.Spec, now time.Time) time.Time {
	return config.ScheduledBy(spec).Next(now, config.Timezone)
}

// addUnsettled adds to the forecast of an unfinished run, whose rest is p, which of its scans wait for a person
// because their start was not confirmed. The run still performs its other searches. A scan whose start was not
// sent does not count: the run sends it.
func (c *calculation) addUnsettled(f *Job, p *plan.Plan) error {
	if f.Continues == "" {
		return nil
	}
	var waits []string
	for i := range p.Steps {
		if p.Steps[i].Query.Op() != outlier.OpStartScan {
			continue
		}
		scan, err := c.Store.Scans.OfStep(p.Steps[i].ID)
		if err != nil {
			return err
		}
		if scan != nil && scan.State == runs.ScanUnknown {
			waits = append(waits,
				fmt.Sprintf("a scan of %q may have been started: %s", scan.Queries, scan.HowToSettle()))
		}
	}
	if len(waits) > 0 && len(waits) == len(p.Steps) {
		f.Problem = waits[0]
		return nil
	}
	f.Changes = append(f.Changes, waits...)
	return nil
}
