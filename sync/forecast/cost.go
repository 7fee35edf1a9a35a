package forecast

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// WorstCase returns what a run of spec that starts now costs if every page is full. It runs SQL on the
// published tables and sends nothing. For a later run, one row is assumed if SQL finds nothing now, and
// assumed is true.
func (r *Reader) WorstCase(ctx context.Context, spec *job.Spec, later bool) (c plan.Cost, assumed bool, err error) {
	read := r.Facts.Facts
	if r.Facts.Store == nil {
		read = r.Facts.NeverRun
	}
	known, err := read(ctx, spec, facts.Options{At: time.Now(), Now: true, Assume: later, Calls: true})
	if err != nil {
		return c, false, err
	}
	p, err := plan.New(spec, known)
	if err != nil {
		return c, false, err
	}
	return p.Cost(spec.Budget, plan.Spent{}), p.Assumed, nil
}

// MayCost returns the maximum that a manual run of spec may cost, including lost answers: what is left of
// the cap of the run that it resumes, or the cap of a new run, and no more than all other caps leave.
// later is set if other runs come first.
func (r *Reader) MayCost(ctx context.Context, spec *job.Spec, later bool) (outlier.Credits, error) {
	old, err := r.Facts.Continues(spec)
	if err != nil {
		return 0, err
	}
	if old == nil {
		p, err := r.Facts.Plan(ctx, spec, facts.Options{At: time.Now(), Now: true, Assume: later, Calls: true})
		if err != nil {
			return 0, err
		}
		next, c := runs.Run{ID: "next", Job: spec.Name}, p.Cost(spec.Budget, plan.Spent{})
		return r.Facts.Affords(&next, p.Stored, spec.Budget, c)
	}
	p, c, err := r.Facts.Left(old, spec.Budget)
	if err != nil {
		return 0, err
	}
	return r.Facts.Affords(old, p.Stored, spec.Budget, c)
}

// paceInForce returns the pace in force: the learned one, or else the configured one.
func (r *Reader) paceInForce() pace.Quota {
	if r.Pace != nil {
		now := r.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return r.Facts.Config.Service.Limit
}

// PaceText formats the pace in force, and the configured pace if it differs.
func (r *Reader) PaceText() string {
	if r.Pace == nil {
		return r.Facts.Config.Service.Limit.String()
	}
	now := r.Pace.Status()
	if !now.Learned {
		return now.Pace()
	}
	return fmt.Sprintf("%s (service.limit is %s)", now.Pace(), r.Facts.Config.Service.Limit)
}

// Time returns how long the given number of requests takes at the pace in force.
func (r *Reader) Time(requests int) time.Duration { return r.paceInForce().Time(requests) }

// minutesFor returns how many minutes the given number of requests takes, rounded to hundredths, which
// is less than a second.
func (r *Reader) minutesFor(requests int) float64 {
	return math.Round(r.Time(requests).Minutes()*100) / 100
}

// Joins returns the scans of other runs that a run of spec would join if it started now.
func (r *Reader) Joins(ctx context.Context, spec *job.Spec) (all []runs.Scan, err error) {
	p, err := r.Facts.Plan(ctx, spec, facts.Options{At: time.Now(), Now: true})
	if err != nil {
		return nil, err
	}
	for _, ordinal := range slices.Sorted(maps.Keys(p.Stored.Joins)) {
		scan, err := r.Facts.Store.Scans.ByID(p.Stored.Joins[ordinal])
		if err != nil {
			return nil, err
		}
		if scan != nil {
			all = append(all, *scan)
		}
	}
	return all, nil
}

// Backfill returns the searches that a backfill of spec would make, in order.
func (r *Reader) Backfill(ctx context.Context, spec *job.Spec) ([]runs.Step, error) {
	p, err := r.Facts.Plan(ctx, spec, facts.Options{At: time.Now()})
	if err != nil {
		return nil, err
	}
	return p.Steps, nil
}
