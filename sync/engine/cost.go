package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// rest is what a run that is continued has left to do, and what that may cost: its steps as
// they were meant when it began, within what its cap leaves.
func (e *Engine) rest(old *runs.Run, own job.JobBudget) (p *plan.Plan, c plan.Cost, err error) {
	frozen, err := plan.Thaw(old.Plan)
	if err != nil {
		return nil, c, err
	}
	steps, err := e.Store.Runs.Steps(old.ID)
	if err != nil {
		return nil, c, err
	}
	spent, err := e.Store.Ledger.Spent(old.ID)
	if err != nil {
		return nil, c, err
	}
	if p, err = e.continued(old.Job, frozen, steps, true); err != nil {
		return nil, c, err
	}
	return p, p.Cost(own, plan.Spent{
		Credits: spent.Charged + spent.Unknown + spent.Reserved, Requests: int(max(spent.Requests, old.Requests)),
	}), nil
}

// WorstCase is what a run of spec that begins now costs if every page is full. Nothing is
// sent; SQL is asked of the published tables.
func (e *Engine) WorstCase(ctx context.Context, spec *job.Spec) (plan.Cost, error) {
	c, _, err := e.worstCase(ctx, spec, false)
	return c, err
}

// WorstCaseLater is what a run of spec that is to come costs if every page is full. Where
// SQL finds nothing now, one row is taken for granted, which is then reported.
func (e *Engine) WorstCaseLater(ctx context.Context, spec *job.Spec) (c plan.Cost, assumed bool, err error) {
	return e.worstCase(ctx, spec, true)
}

func (e *Engine) worstCase(ctx context.Context, spec *job.Spec, later bool) (c plan.Cost, assumed bool, err error) {
	p, err := e.draw(ctx, spec, drawing{at: time.Now(), now: true, assume: later, calls: true})
	if err != nil {
		return c, false, err
	}
	return p.Cost(spec.Budget, plan.Spent{}), p.Assumed, nil
}

// MayCost is the most that a run by hand of spec may cost, answers that are lost included:
// what is left of the cap of one that it continues, or else the cap of a new one, and no more
// than all other caps leave. later says that other runs come before it.
func (e *Engine) MayCost(ctx context.Context, spec *job.Spec, later bool) (outlier.Credits, error) {
	old, err := e.Continues(spec)
	if err != nil {
		return 0, err
	}
	if old == nil {
		p, err := e.draw(ctx, spec, drawing{at: time.Now(), now: true, assume: later, calls: true})
		if err != nil {
			return 0, err
		}
		return e.affords(&runs.Run{ID: "next", Job: spec.Name}, p.Frozen, spec.Budget, p.Cost(spec.Budget, plan.Spent{}))
	}
	p, c, err := e.rest(old, spec.Budget)
	if err != nil {
		return 0, err
	}
	return e.affords(old, p.Frozen, spec.Budget, c)
}

// pace is the pace that counts: what was learned of it, or else what is configured.
func (e *Engine) pace() pace.Quota {
	if e.Pace != nil {
		now := e.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return e.Config.Service.Limit
}

// PaceText is the pace that counts, for people, and what is configured where that is another.
func (e *Engine) PaceText() string {
	if e.Pace == nil {
		return e.Config.Service.Limit.String()
	}
	now := e.Pace.Status()
	if !now.Learned {
		return now.Pace()
	}
	return fmt.Sprintf("%s (service.limit is %s)", now.Pace(), e.Config.Service.Limit)
}

// Time is how long so many requests take at the pace that counts.
func (e *Engine) Time(requests int) time.Duration { return e.pace().Time(requests) }

// minutes is how long so many requests take, to the hundredth: less than a second.
func (e *Engine) minutes(requests int) float64 {
	return math.Round(e.Time(requests).Minutes()*100) / 100
}
