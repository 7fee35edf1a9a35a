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

// unfinished is a run that will be resumed, and its open searches.
type unfinished struct {
	spec *job.Spec // only its name if the file has no such job
	run  *runs.Run
	plan plan.Stored
	open []runs.Step
	own  bool // the job's next run resumes it, not only the command that started it
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
		for j := range rows {
			if rows[j].Fate == facts.Supersede {
				continue
			}
			u, err := r.openSearches(spec, &rows[j].Run)
			if err != nil {
				return nil, err
			}
			u.own = rows[j].Continues()
			all = append(all, u)
		}
	}
	for row, err := range r.Facts.Store.Runs.Newest(runs.Filter{Status: runs.Running}) {
		if err != nil {
			return nil, err
		}
		if run := *row; r.Facts.Config.Job(run.Job) == nil {
			u, err := r.openSearches(&job.Spec{Name: run.Job}, &run)
			if err != nil {
				return nil, err
			}
			all = append(all, u)
		}
	}
	return all, nil
}

// openSearches returns a run with its open searches.
func (r *Reader) openSearches(spec *job.Spec, run *runs.Run) (u unfinished, err error) {
	u = unfinished{spec: spec, run: run}
	if run.Plan != nil { // else it has not begun
		u.plan = *run.Plan
	}
	u.open, err = r.Facts.Store.Runs.Steps(run.ID)
	u.open = slices.DeleteFunc(u.open, func(s runs.Step) bool { return s.Stop != "" })
	return u, err
}

// continuesByItself reports whether a process performs the run, or would as soon as one works on the
// job. A run that reached a cap or failed waits for the job's next due time, and an overridden one for
// the same command.
func (u *unfinished) continuesByItself() bool {
	return u.run.Status == runs.Running || u.run.Status.Open() && u.own
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
