package forecast

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// unfinished is an unfinished run, and its open searches.
type unfinished struct {
	facts.Unfinished
	spec *job.Spec // only its name if the file has no such job
	plan plan.Stored
	open []runs.Step
}

// unfinishedRuns returns the unfinished runs of the file's jobs, in the order of the file. Runs in progress
// that belong to none of them come last: of one-off requests, and of jobs that were removed from the file.
func (r *Reader) unfinishedRuns() (all []unfinished, err error) {
	for i := range r.Facts.Config.Jobs {
		spec := &r.Facts.Config.Jobs[i]
		rows, err := r.Facts.Unfinished(spec, time.Time{})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all = append(all, unfinished{Unfinished: row, spec: spec})
		}
	}
	for row, err := range r.Facts.Store.Runs.Newest(runs.Filter{Status: runs.Running}) {
		if err != nil {
			return nil, err
		}
		if r.Facts.Config.Job(row.Job) == nil {
			all = append(all, unfinished{Unfinished: facts.Unfinished{Run: *row}, spec: &job.Spec{Name: row.Job}})
		}
	}
	for i := range all {
		u := &all[i]
		if u.Run.Plan != nil { // else it has not begun
			u.plan = *u.Run.Plan
		}
		if u.open, err = r.Facts.Store.Steps.OfRun(u.Run.ID); err != nil {
			return nil, err
		}
		u.open = slices.DeleteFunc(u.open, func(s runs.Step) bool { return s.Stop != "" })
	}
	return all, nil
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
	if step.Query.Op() == outlier.OpStartScan || u.plan.Pages == job.AllPages {
		return 0
	}
	return max(0, u.plan.LimitOf(step.Ordinal, step.Scan)-step.Next)
}

// nextOf returns when a job is due after now, or the first job of its chain of `after`; zero for never.
func (r *Reader) nextOf(spec *job.Spec, now time.Time) time.Time {
	return r.Facts.Config.ScheduledBy(spec).Next(now, r.Facts.Config.Timezone)
}
