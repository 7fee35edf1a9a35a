package forecast

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// unfinished is an unfinished run of a job.
type unfinished struct {
	facts.Unfinished
	spec *job.Spec // only its name if the file has no such job
}

// unfinishedRuns returns the unfinished runs of the file's jobs, in the order of the file. Runs in progress
// that belong to none of them come last: of one-off requests, and of jobs that were removed from the file.
func (r *Reader) unfinishedRuns() (all []unfinished, err error) {
	for i := range r.Config.Jobs {
		spec := &r.Config.Jobs[i]
		rows, err := r.Unfinished(spec, time.Time{})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all = append(all, unfinished{row, spec})
		}
	}
	for row, err := range r.Store.Runs.Newest(runs.Filter{Status: runs.Running}) {
		if err != nil {
			return nil, err
		}
		if r.Config.Job(row.Job) != nil {
			continue
		}
		steps, err := r.Store.Steps.OfRun(row.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, unfinished{facts.Unfinished{Run: *row, Steps: steps}, &job.Spec{Name: row.Job}})
	}
	return all, nil
}

// open returns the searches that have not ended.
func (u *unfinished) open() []*runs.Step {
	var open []*runs.Step
	for i := range u.Steps {
		if u.Steps[i].Stop == "" {
			open = append(open, &u.Steps[i])
		}
	}
	return open
}

// plan returns what the run keeps of its plan; nothing if it has not begun.
func (u *unfinished) plan() plan.Stored {
	if u.Run.Plan == nil {
		return plan.Stored{}
	}
	return *u.Run.Plan
}

// continuesByItself reports whether a process performs the run, or would as soon as one works on the
// job. A run that reached a cap or failed waits for the job's next due time, and an overridden one for
// the same command.
func (u *unfinished) continuesByItself() bool {
	return u.Run.Status == runs.Running || u.Run.Status.Open() && u.Continues()
}

// pagesLeft returns how many pages an open search may still take: 0 if only the budget limits them, and for a
// scan, whose pages are read when it has ended.
func (u *unfinished) pagesLeft(step *runs.Step) int {
	stored := u.plan()
	if step.Query.Op() == outlier.OpStartScan || stored.Pages == job.AllPages {
		return 0
	}
	return max(0, stored.LimitOf(step.Ordinal, step.Scan)-step.Next)
}

// nextOf returns when a job is due after now, or the first job of its chain of `after`; zero for never.
func nextOf(config *job.Config, spec *job.Spec, now time.Time) time.Time {
	return config.ScheduledBy(spec).Next(now, config.Timezone)
}
