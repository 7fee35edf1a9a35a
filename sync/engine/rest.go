package engine

import (
	"context"
	"fmt"
	"math"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// rest is what a run that is continued has left to do, and what that may cost: its open
// steps as they were meant when it began, within what its cap leaves.
func (e *Engine) rest(old *state.Run, own job.JobBudget) (open []state.Step, plan frozen, c Cost, err error) {
	if plan, err = thaw(old.Plan); err != nil {
		return nil, plan, c, err
	}
	steps, err := e.Store.Steps(old.ID)
	if err != nil {
		return nil, plan, c, err
	}
	spent, err := e.Store.Spent(old.ID)
	if err != nil {
		return nil, plan, c, err
	}
	if plan.Joins, err = e.joins(steps, plan.Again); err != nil {
		return nil, plan, c, err
	}
	pages, taken := 0, 0
	for i := range steps {
		taken += steps[i].Pages
		if steps[i].Stop != "" {
			continue
		}
		left, err := e.restOf(&c, plan, &steps[i])
		if err != nil {
			return nil, plan, c, err
		}
		pages += left
		open = append(open, steps[i])
	}
	left := max(0, plan.cap(own)-spent.Charged-spent.Unknown-spent.Reserved)
	c.Credits, c.Lost = min(c.Credits, left), min(c.Lost, left)
	if len(open) > 0 {
		pages = min(pages, int(left/max(1, e.cheapest(open))))
	}
	queued, err := e.Store.Queued(state.Filter{Job: old.Job})
	if err != nil {
		return nil, plan, c, err
	}
	if len(open) > 0 {
		queued = max(queued, calls(plan, taken+pages, len(steps))) // what the hits to come are worth asking is not queued yet
	}
	c.Requests += pages + queued
	if plan.MaxRequests > 0 && plan.Scan == nil {
		c.Requests = min(c.Requests, max(0, plan.MaxRequests-int(spent.Requests)))
	}
	return open, plan, c, nil
}

// restOf adds what is left of a step to c and returns how many pages it may take. A
// scan that was started is paid for, and its results have still to be read.
func (e *Engine) restOf(c *Cost, plan frozen, step *state.Step) (pages int, err error) {
	wasted := e.mayWaste(plan, step) // page two is the one that tells, and may be all that is left
	if step.Op != outlier.OpStartScan {
		return e.addStep(c, plan, step, wasted), nil
	}
	started, err := e.paidScan(step)
	if err != nil || !started {
		return e.addStep(c, plan, step, wasted), err
	}
	pages = plan.readPages() + wasted
	c.Credits += outlier.Credits(pages) * e.priceOfReading()
	c.Lost += outlier.Credits(pages) * e.priceOfReading() * maxAttempts
	c.Requests += scanRequests(plan.Scan)
	return pages, nil
}

// scanRequests is how many requests a scan takes before its results are read: the start,
// and looks at it until its deadline.
func scanRequests(plan *job.Scan) int { return 1 + looks(plan) }

// MayCost is the most that a run by hand of spec which begins now may cost, answers that
// are lost included: what is left of the cap of one that it continues, or else the cap of
// a new one.
func (e *Engine) MayCost(ctx context.Context, spec *job.Spec) (outlier.Credits, error) {
	old, err := e.Continues(spec)
	if err != nil {
		return 0, err
	}
	if old != nil {
		_, _, c, err := e.rest(old, spec.Budget)
		return c.Lost, err
	}
	c, err := e.WorstCase(ctx, spec)
	return c.Lost, err
}

// within bounds a cost by the share of the month, if the run has one.
func (e *Engine) within(c Cost, spec *job.Spec, plan frozen, steps []state.Step) Cost {
	if plan.Share == nil {
		return c
	}
	most := plan.cap(spec.Budget)
	c.Credits, c.Lost = min(c.Credits, most), min(c.Lost, most)
	pages := int(most / max(1, e.cheapest(steps)))
	requests := pages + calls(plan, pages, len(steps))
	for i := range steps {
		if steps[i].Stop == "" && steps[i].Op == outlier.OpStartScan {
			requests += scanRequests(plan.Scan)
		}
	}
	c.Requests = min(c.Requests, requests)
	return c
}

// pace is the pace that counts: what was learned of it, or else what is configured.
func (e *Engine) pace() pace.Quota {
	if e.Pace != nil {
		now := e.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return e.Config.Service.Limit
}

// paceText is the pace that counts, for people, and what is configured where that is another.
func (e *Engine) paceText() string {
	if e.Pace == nil {
		return e.Config.Service.Limit.String()
	}
	now := e.Pace.Status()
	if !now.Learned {
		return now.Pace()
	}
	return fmt.Sprintf("%s (service.limit is %s)", now.Pace(), e.Config.Service.Limit)
}

// minutes is how long so many requests take, to the tenth.
func (e *Engine) minutes(requests int) float64 {
	q := e.pace()
	return math.Round(float64(requests)*q.Window.Minutes()/float64(max(q.Requests, 1))*10) / 10
}
