package engine

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
)

// resolve draws up the plan of a run that starts now, limited to what it may spend.
func (e *Engine) resolve(ctx context.Context, spec *job.Spec, trigger Trigger, now time.Time) (*plan.Plan, error) {
	share := trigger != Manual && e.shares()
	p, err := e.draw(ctx, spec, drawing{at: now, now: true, share: share})
	if err != nil || !share {
		return p, err
	}
	_, turn := ledger.CycleBounds(e.Store.Ledger.ServiceTime(), e.Config.Timezone, e.Config.Budget.Renews)
	return p, e.limit(ctx, &demands{calendar: plan.NewCalendar(e.Config, now, turn)}, spec, p, now)
}

// shares reports whether runs on a schedule are limited to budget shares.
func (e *Engine) shares() bool {
	return e.Config.Budget.Pace == job.PaceEven && e.Config.Budget.PerMonth != nil
}

// limit limits the plan of a run that begins at the given time to its budget share.
func (e *Engine) limit(ctx context.Context, d *demands, spec *job.Spec, p *plan.Plan, now time.Time) error {
	if p.Wants(spec.Budget) == 0 {
		return nil
	}
	left, err := e.leftOfCycle()
	if err != nil {
		return err
	}
	if d.jobs == nil {
		if err := d.read(ctx, e, now); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(e.Config.Jobs, func(s job.Spec) bool { return s.Name == spec.Name })
	if i >= 0 {
		all := d.at(now)
		all[i].Runs++ // this one
		left = ledger.Share(left, all, i)
	}
	p.Limit(left, spec.Budget)
	return nil
}

// leftOfCycle is what may still be spent by runs on a schedule.
func (e *Engine) leftOfCycle() (outlier.Credits, error) {
	budget, now := e.Config.Budget, e.Store.Ledger.ServiceTime()
	held, err := e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeMonth, Period: ledger.Cycle(now, e.Config.Timezone, budget.Renews)})
	if err != nil {
		return 0, err
	}
	left := *budget.PerMonth - held
	if budget.Reserve != nil {
		left -= *budget.Reserve
	}
	return max(left, 0), nil
}

// demands are what the jobs of the file want until the cycle turns. What they ask for is read
// once, however many runs are asked about.
type demands struct {
	calendar *plan.Calendar
	jobs     []wanted // in the order of the file
}

// wanted is what the runs of one job ask for.
type wanted struct {
	spec  *job.Spec
	facts *plan.Facts // nil if the job cannot be resolved: it wants nothing, and its run will say why
	each  ledger.Demand
}

// read reads what the jobs ask for. What comes after another job finds something by then.
func (d *demands) read(ctx context.Context, e *Engine, now time.Time) error {
	d.jobs = make([]wanted, len(e.Config.Jobs))
	for i := range e.Config.Jobs {
		w := &d.jobs[i]
		if w.spec = &e.Config.Jobs[i]; w.spec.After == "" && w.spec.Schedule == "" && w.spec.Every == 0 {
			continue
		}
		facts, err := e.factsFor(ctx, w.spec, drawing{at: now, assume: true})
		if err != nil {
			continue
		}
		if p, err := plan.New(w.spec, facts); err == nil {
			w.facts, w.each = facts, demandOf(w.spec, p)
		}
	}
	return ctx.Err()
}

func demandOf(spec *job.Spec, p *plan.Plan) ledger.Demand {
	return ledger.Demand{Each: p.Wants(spec.Budget), Step: p.Least()}
}

// at is what the jobs want from the given time on. Which seeds are bought again depends on
// it; nothing else that has a price does.
func (d *demands) at(now time.Time) []ledger.Demand {
	all := make([]ledger.Demand, len(d.jobs))
	for i := range d.jobs {
		w := &d.jobs[i]
		if w.facts == nil {
			continue
		}
		all[i] = w.each
		if w.spec.SeedsFresh > 0 {
			then := *w.facts
			then.Now = now
			if p, err := plan.New(w.spec, &then); err == nil {
				all[i] = demandOf(w.spec, p)
			}
		}
		all[i].Runs = d.calendar.Runs(w.spec, now)
	}
	return all
}

// nextOf is when a job is due after now, or the job that it comes after in the end; zero
// for never.
func (e *Engine) nextOf(spec *job.Spec, now time.Time) time.Time {
	return plan.Clock(e.Config, spec).Next(now, e.Config.Timezone)
}
