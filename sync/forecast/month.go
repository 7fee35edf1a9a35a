package forecast

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
)

// Month returns what the scheduled runs of the cycle of [job.MonthOf] cost by job if every page is full, and what they
// cost together, without the cap of the cycle. Jobs that run by hand only are left out. Those with `schedule: auto` cost
// what the other jobs leave, at most their own caps.
func (r *Reader) Month(ctx context.Context) (jobs []facts.JobMonth, worst outlier.Credits, err error) {
	month, err := r.Reader.Month(job.MonthOf(r.Config), time.Now())
	if err != nil {
		return nil, 0, err
	}
	if jobs, err = month.After(ctx, time.Time{}); err != nil {
		return nil, 0, err
	}
	jobs = slices.DeleteFunc(jobs, func(j facts.JobMonth) bool { return j.Runs == 0 })
	most, takes := r.Config.Budget.Scheduled(), outlier.Credits(0) // by jobs with `schedule: auto`
	for i := range jobs {
		switch j := &jobs[i]; {
		case !j.Auto:
			worst += j.Credits()
		case j.Cap != nil:
			takes += *j.Cap
		default:
			takes += *most // the file must have one
		}
	}
	if most != nil {
		takes = min(takes, max(0, *most-worst))
	}
	worst += takes
	if perDay := r.Config.Budget.PerDay; perDay != nil {
		worst = min(worst, job.MonthDays**perDay)
	}
	return jobs, worst, nil
}
