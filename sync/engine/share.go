package engine

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/job"
	"outlierd/sync/plan"
)

// resolve draws up the plan of a run that starts now, limited to what it may spend.
func (e *Engine) resolve(ctx context.Context, spec *job.Spec, trigger Trigger, now time.Time) (*plan.Plan, error) {
	share := trigger != Manual && e.shares()
	p, err := e.draw(ctx, spec, drawing{at: now, now: true, share: share})
	if err != nil || !share {
		return p, err
	}
	return p, e.limit(ctx, spec, p, now)
}

// shares reports whether runs on a schedule are limited to budget shares.
func (e *Engine) shares() bool {
	return e.Config.Budget.Pace == job.PaceEven && e.Config.Budget.PerMonth != nil
}

// limit limits the plan of a run that begins at the given time to its budget share.
func (e *Engine) limit(ctx context.Context, spec *job.Spec, p *plan.Plan, now time.Time) error {
	if p.Wants(spec.Budget) == 0 {
		return nil
	}
	share, err := e.share(ctx, spec, now)
	if err == nil {
		p.Limit(share, spec.Budget)
	}
	return err
}

// share is what the next run of spec may spend of what is left of the cycle.
func (e *Engine) share(ctx context.Context, spec *job.Spec, now time.Time) (outlier.Credits, error) {
	left, turn, err := e.leftOfCycle()
	if err != nil {
		return 0, err
	}
	all, err := e.demands(ctx, now, turn)
	if err != nil {
		return 0, err
	}
	names := slices.IndexFunc(e.Config.Jobs, func(s job.Spec) bool { return s.Name == spec.Name })
	if names < 0 {
		return left, nil
	}
	all[names].Runs++ // this one
	return credit.Share(left, all, names), nil
}

// leftOfCycle is what may still be spent by runs on a schedule, and until when.
func (e *Engine) leftOfCycle() (outlier.Credits, time.Time, error) {
	budget, now := e.Config.Budget, e.Store.ServiceTime()
	_, turn := credit.CycleBounds(now, e.Config.Timezone, budget.Renews)
	held, err := e.Store.Held(credit.Cap{Scope: credit.AllMonth, Period: credit.Cycle(now, e.Config.Timezone, budget.Renews)})
	if err != nil {
		return 0, turn, err
	}
	left := *budget.PerMonth - held
	if budget.Reserve != nil {
		left -= *budget.Reserve
	}
	return max(left, 0), turn, nil
}

// demands are what the jobs of the file want from now to the turn of the cycle, in
// their order. A job that cannot be resolved wants nothing: its run will say why.
func (e *Engine) demands(ctx context.Context, now, turn time.Time) ([]credit.Demand, error) {
	all := make([]credit.Demand, len(e.Config.Jobs))
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		runs := e.runsUntil(spec, now, turn)
		if runs == 0 && spec.After == "" && spec.Schedule == "" && spec.Every == 0 {
			continue
		}
		p, err := e.draw(ctx, spec, drawing{at: now, assume: true}) // what comes after another job finds something by then
		if err != nil {
			continue
		}
		all[i] = credit.Demand{Runs: runs, Each: p.Wants(spec.Budget), Step: p.Least()}
	}
	return all, ctx.Err()
}

// runsUntil counts the runs of a job that are due after now and before the given time.
func (e *Engine) runsUntil(spec *job.Spec, now, until time.Time) (n int) {
	for due := e.nextOf(spec, now); !due.IsZero() && due.Before(until); due = e.nextOf(spec, due) {
		n++
	}
	return n
}

// nextOf is when a job is due after now, or the job that it comes after in the end; zero
// for never.
func (e *Engine) nextOf(spec *job.Spec, now time.Time) time.Time {
	for range e.Config.Jobs { // a chain of `after` is no longer than the file
		parent := e.Config.Job(spec.After)
		if parent == nil || spec.Disabled {
			break
		}
		spec = parent
	}
	return spec.Next(now, e.Config.Timezone)
}
