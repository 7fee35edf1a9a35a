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
// cost together, without the cap of the cycle. Jobs that run by hand only are left out. One with `schedule: auto` costs
// what its own cap or the other jobs leave it.
func (r *Reader) Month(ctx context.Context) (jobs []facts.JobMonth, worst outlier.Credits, err error) {
	month, err := r.Reader.Month(job.MonthOf(r.Config), time.Now())
	if err != nil {
		return nil, 0, err
	}
	if jobs, err = month.After(ctx, time.Time{}); err != nil {
		return nil, 0, err
	}
	jobs = slices.DeleteFunc(jobs, func(j facts.JobMonth) bool { return j.Runs == 0 })
	rest := outlier.Credits(0) // that the other jobs leave, if a job takes it
	for i := range jobs {
		switch j := &jobs[i]; {
		case !j.Auto:
			worst += j.Credits()
		case j.Cap != nil:
			worst += *j.Cap
		default:
			rest = *r.Config.Budget.Scheduled() // the file must have one
		}
	}
	worst = max(worst, rest)
	if perDay := r.Config.Budget.PerDay; perDay != nil {
		worst = min(worst, job.MonthDays**perDay)
	}
	return jobs, worst, nil
}
