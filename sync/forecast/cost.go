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

// WorstCase is what a run of spec that begins now costs if every page is full. Nothing is
// sent; SQL is asked of the published tables.
func (r *Reader) WorstCase(ctx context.Context, spec *job.Spec) (plan.Cost, error) {
	c, _, err := r.worstCase(ctx, spec, false)
	return c, err
}

// WorstCaseLater is what a run of spec that is to come costs if every page is full. Where
// SQL finds nothing now, one row is assumed, which is then reported.
func (r *Reader) WorstCaseLater(ctx context.Context, spec *job.Spec) (c plan.Cost, assumed bool, err error) {
	return r.worstCase(ctx, spec, true)
}

func (r *Reader) worstCase(ctx context.Context, spec *job.Spec, later bool) (
	c plan.Cost, assumed bool, err error) {
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

// MayCost is the most that a run by hand of spec may cost, answers that are lost included:
// what is left of the cap of one that it continues, or else the cap of a new one, and no more
// than all other caps leave. later says that other runs come before it.
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

// pace is the pace that counts: what was learned of it, or else what is configured.
func (r *Reader) pace() pace.Quota {
	if r.Pace != nil {
		now := r.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return r.Facts.Config.Service.Limit
}

// PaceText is the pace that counts, for people, and what is configured where that is another.
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

// Time is how long so many requests take at the pace that counts.
func (r *Reader) Time(requests int) time.Duration { return r.pace().Time(requests) }

// minutes is how long so many requests take, to the hundredth: less than a second.
func (r *Reader) minutes(requests int) float64 {
	return math.Round(r.Time(requests).Minutes()*100) / 100
}

// Joins are the scans of other runs that a run of spec would join if it began now.
func (r *Reader) Joins(ctx context.Context, spec *job.Spec) (all []runs.Scan, err error) {
	p, err := r.Facts.Plan(ctx, spec, facts.Options{At: time.Now(), Now: true})
	if err != nil {
		return nil, err
	}
	for _, ordinal := range slices.Sorted(maps.Keys(p.Stored.Joins)) {
		scan, err := r.Facts.Store.Runs.ScanByID(p.Stored.Joins[ordinal])
		if err != nil {
			return nil, err
		}
		if scan != nil {
			all = append(all, *scan)
		}
	}
	return all, nil
}

// Backfill are the searches that a backfill of spec would make, in their order.
func (r *Reader) Backfill(ctx context.Context, spec *job.Spec) ([]runs.Step, error) {
	p, err := r.Facts.Plan(ctx, spec, facts.Options{At: time.Now()})
	if err != nil {
		return nil, err
	}
	return facts.StepsOf(p), nil
}
