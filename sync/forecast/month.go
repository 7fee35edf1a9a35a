package forecast

import (
	"context"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
)

// Month is what the scheduled runs of a cycle of 31 days cost if every page is full, without the cap of the cycle.
type Month struct {
	Jobs   []facts.JobMonth
	config *job.Config
}

// Credits returns what the runs of all jobs cost.
func (m *Month) Credits() (sum outlier.Credits) {
	for i := range m.Jobs {
		sum += m.Jobs[i].Credits()
	}
	if perDay := m.config.Budget.PerDay; perDay != nil {
		sum = min(sum, job.MonthDays**perDay)
	}
	return sum
}

// Month computes the cost of the cycle of [job.MonthOf]. Jobs that run by hand only are left out.
func (r *Reader) Month(ctx context.Context) (*Month, error) {
	m := &Month{config: r.Config}
	of, err := r.Reader.Month(job.MonthOf(r.Config), time.Now())
	if err == nil {
		m.Jobs, err = of.After(ctx, time.Time{})
	}
	m.Jobs = slices.DeleteFunc(m.Jobs, func(j facts.JobMonth) bool { return j.Runs == 0 })
	if err != nil {
		return nil, err
	}
	m.splitRest()
	return m, nil
}

// splitRest gives what the budget leaves after the other jobs to those with `schedule: auto`.
func (m *Month) splitRest() {
	var autos []*facts.JobMonth
	for i := range m.Jobs {
		if m.config.Job(m.Jobs[i].Job).Auto {
			m.Jobs[i].Each = 0
			autos = append(autos, &m.Jobs[i])
		}
	}
	for i, of := range autos {
		left := outlier.Credits(math.MaxInt32)
		if most := m.config.Budget.Scheduled(); most != nil {
			left = *most - m.Credits()
		}
		part := max(0, left) / outlier.Credits(len(autos)-i)
		if of.Cap != nil {
			part = min(part, *of.Cap)
		}
		of.Cap, of.Each = &part, (part+outlier.Credits(of.Runs)-1)/outlier.Credits(of.Runs)
	}
}
