package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
)

// Month is what the scheduled runs of a cycle of 31 days cost if every page is full, without the cap of the cycle.
type Month struct {
	Jobs   []facts.JobMonth `json:"jobs"`
	PerDay *outlier.Credits `json:"per_day,omitempty"` // the cap of a day
	config *job.Config
}

// Credits returns what the runs of all jobs cost.
func (m *Month) Credits() (sum outlier.Credits) {
	for i := range m.Jobs {
		sum += m.Jobs[i].Credits()
	}
	if m.PerDay != nil {
		sum = min(sum, job.MonthDays**m.PerDay)
	}
	return sum
}

// Month computes the cost of the cycle of [job.MonthOf]. Jobs that run by hand only are left out.
func (r *Reader) Month(ctx context.Context) (*Month, error) {
	m := &Month{PerDay: r.Config.Budget.PerDay, config: r.Config}
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

// Change is a change of the job file that makes a [Month] cheaper.
type Change struct {
	Job   string          `json:"job"`
	Write string          `json:"write"` // the key and its new value
	Saves outlier.Credits `json:"saves"`
}

// Changes returns the changes of single jobs after which a month costs at most most, the smallest saving first: fewer
// pages, or fewer runs.
func (r *Reader) Changes(ctx context.Context, m *Month, most outlier.Credits) (all []Change, err error) {
	whole := m.Credits()
	for i := range m.Jobs {
		spec := m.config.Job(m.Jobs[i].Job)
		if spec.Auto {
			continue // it takes what the others leave
		}
		consider := func(write string, change func(*facts.JobMonth)) bool {
			next := Month{Jobs: slices.Clone(m.Jobs), PerDay: m.PerDay}
			for k := range next.Jobs {
				change(&next.Jobs[k])
			}
			fits := next.Credits() <= most
			if fits {
				all = append(all, Change{spec.Name, write, whole - next.Credits()})
			}
			return fits
		}
		for pages := spec.Pages - 1; pages > 0 && spec.Pages != job.AllPages; pages-- {
			fewer, err := spec.With(job.Overrides{Pages: pages})
			if err != nil {
				break // its answer has no pages
			}
			_, cost, err := r.WorstCase(ctx, &fewer, true)
			if err != nil {
				return nil, err
			}
			if consider(fmt.Sprintf("pages: %d", pages), func(j *facts.JobMonth) {
				if j.Job == spec.Name {
					j.Each = cost.Credits
				}
			}) {
				break
			}
		}
		for days := 2; days < job.MonthDays && spec.After == ""; days++ {
			runs := (job.MonthDays + days - 1) / days
			if runs < m.Jobs[i].Runs && consider(fmt.Sprintf("every: %dd", days), func(j *facts.JobMonth) {
				if m.config.ScheduledBy(m.config.Job(j.Job)) == spec {
					j.Runs = runs
				}
			}) {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(a.Saves, b.Saves) })
	return all, nil
}
