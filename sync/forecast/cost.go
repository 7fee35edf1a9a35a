package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// WorstCase returns the plan of a run of spec that starts now, and what it costs if every page is full. It runs SQL on
// the published tables and sends nothing. For a later run, one row is assumed if SQL finds nothing now.
func (r *Reader) WorstCase(ctx context.Context, spec *job.Spec, later bool) (p *plan.Plan, c plan.Cost, err error) {
	p, err = r.Plan(ctx, spec, facts.Options{At: time.Now(), Now: true, Assume: later, Calls: true})
	if err == nil {
		c = p.Cost(spec.Budget, plan.Spent{})
	}
	return p, c, err
}

// Next is what a run of a job by hand does.
type Next struct {
	Old  *runs.Run // the unfinished run that it continues; nil for a new one
	Plan *plan.Plan
	Cost plan.Cost       // of all that it does, or has left to do, if every page is full
	Most outlier.Credits // that it may cost, lost answers included, and no more than all caps leave
}

// Next returns what a run of spec by hand does now. later is set if other runs come first.
func (r *Reader) Next(ctx context.Context, spec *job.Spec, later bool) (n Next, err error) {
	if n.Old, err = r.Continues(spec); err != nil {
		return n, err
	}
	if n.Old != nil {
		n.Plan, n.Cost, err = r.Left(n.Old, spec.Budget)
	} else {
		n.Plan, n.Cost, err = r.WorstCase(ctx, spec, later)
	}
	if err == nil {
		run := cmp.Or(n.Old, &runs.Run{ID: "next", Job: spec.Name})
		n.Most, err = r.Caps().Affords(run, n.Plan.Stored, spec.Budget, n.Cost)
	}
	return n, err
}

// paceInForce returns the pace in force: the learned one, or else the configured one.
func (r *Reader) paceInForce() pace.Quota {
	if r.Pace != nil {
		now := r.Pace.Status()
		return pace.Quota{Requests: now.Limit, Window: now.Window}
	}
	return r.Config.Service.Limit
}

// PaceText formats the pace in force, and the configured pace if it differs.
func (r *Reader) PaceText() string {
	if r.Pace == nil {
		return r.Config.Service.Limit.String()
	}
	now := r.Pace.Status()
	if !now.Learned {
		return now.Pace()
	}
	return fmt.Sprintf("%s (service.limit is %s)", now.Pace(), r.Config.Service.Limit)
}

// Time returns how long the given number of requests takes at the pace in force.
func (r *Reader) Time(requests int) time.Duration { return r.paceInForce().Time(requests) }

// minutesFor returns how many minutes the given number of requests takes, rounded to hundredths, which
// is less than a second.
func (r *Reader) minutesFor(requests int) float64 {
	return math.Round(r.Time(requests).Minutes()*100) / 100
}

// addExpected estimates the credits and requests of the next run from earlier runs: by the pages or scans that
// they bought, at today's prices. The calls of a watch are known.
func (f *Job) addExpected(h History, spec *job.Spec, p *plan.Plan, prices outlier.Prices) {
	past := h.sumSpent(prices)
	f.least = p.Least()
	if f.Assumed { // the SQL may return again what it returned before
		room := p.Stored.CapFor(spec.Budget)
		if spec.Budget.PerRun == nil && p.Stored.Share == nil {
			room = max(room, past.dearest)
		}
		f.Worst.Credits = max(f.Worst.Credits, min(past.dearest, room))
		f.Worst.Lost = max(f.Worst.Lost, f.Worst.Credits)
		f.Worst.Requests = max(f.Worst.Requests, int(past.busiest))
		f.whole = max(f.whole, f.Worst.Credits)
	}
	f.Basis = past.runs
	if a := p.Stored.Auto; a != nil { // whatever earlier runs took
		f.each = 0
		for _, c := range a.Choices {
			f.each += c.Cost * float64(prices.Of(outlier.OpSearch, ""))
		}
		f.whole, f.Expected.Cost, f.Expected.Credits = outlier.Credits(f.each), f.Worst.Cost, 0
		for _, search := range f.Searches {
			f.Expected.Credits += search.Credits
		}
		return
	}
	f.Expected.Cost, f.each = f.Worst.Cost, float64(max(f.Worst.Credits, f.whole))
	n := int64(past.runs)
	if n == 0 || len(spec.Fetch) > 0 {
		return
	}
	average := float64(past.credits) / float64(n)
	f.Expected.Credits = min(plan.RoundToStep(average, f.least), f.Worst.Credits)
	f.Expected.Requests = min(int((past.requests+n/2)/n), f.Worst.Requests)
	switch {
	case past.shares > 0: // the part of its share that the job uses
		f.each *= float64(min(past.used, past.shares)) / float64(past.shares)
	case f.Continues != "":
		f.each = average
	default:
		f.each = min(average, f.each)
	}
}
