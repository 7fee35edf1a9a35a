package engine

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # Spending evenly
//
// With `budget.pace: even` a scheduled run spends no more than its fair share of what
// is left of the cycle (see [credit.Share]). If that is less than its searches cost,
// they take turns: those that were searched longest ago come first, page one of each
// before page two of any. What got no page, or fewer than the job wants, is closed as
// "share": the run did what it was meant to do, and the watermark stays where it is,
// so that the next turn covers what this one left.
//
// A run by hand takes no share: whoever starts it has decided.

// ration limits a run that begins at the given time to its share.
func (e *Engine) ration(ctx context.Context, spec *job.Spec, plan *frozen, steps []state.Step, now time.Time) error {
	if e.Config.Budget.Pace != job.PaceEven || e.Config.Budget.PerMonth == nil {
		return nil
	}
	all, _, err := e.purchases(*plan, steps, plan.cap(spec.Budget))
	wanted := all.Credits
	if err != nil || wanted == 0 {
		return err
	}
	share, err := e.share(ctx, spec, now)
	if err != nil || share >= wanted {
		return err
	}
	order, err := e.turns(spec, steps)
	if err != nil {
		return err
	}
	plan.Rations = e.deal(*plan, steps, order, share)
	plan.Share = &share
	for i := range steps {
		if steps[i].Stop == "" && plan.Rations[i] == 0 {
			steps[i].Stop, steps[i].Left = stopShare, wantedPages(*plan, &steps[i])
		}
	}
	return nil
}

// deal gives pages to steps in the order of their turns, one each and then another
// one, as long as the share lasts. A scan is started with all that reading it costs,
// or not at all.
func (e *Engine) deal(plan frozen, steps []state.Step, order []int, share outlier.Credits) map[int]int {
	dealt := map[int]int{}
	for page := 0; ; page++ {
		given := false
		for _, i := range order {
			price, pages := e.priceOfTurn(plan, &steps[i]), wantedPages(plan, &steps[i])
			if page < pages && dealt[i] == page && price <= share {
				share -= price
				dealt[i]++
				given = true
			}
		}
		if !given {
			return dealt
		}
	}
}

// wantedPages is how many pages the job wants of a step; a scan is had as a whole.
func wantedPages(plan frozen, step *state.Step) int {
	if step.Op == outlier.OpTrendingFormats || step.Op == outlier.OpStartScan {
		return 1
	}
	return plan.Pages
}

// priceOfTurn is what a turn of a step costs: a page, or a scan, unless it is joined, and
// all that reading it costs.
func (e *Engine) priceOfTurn(plan frozen, step *state.Step) outlier.Credits {
	if step.Op != outlier.OpStartScan {
		return e.priceOf(step)
	}
	price := outlier.Credits(plan.readPages()) * e.priceOfReading()
	if _, joins := plan.Joins[step.Ordinal]; !joins {
		price += e.priceOf(step)
	}
	return price
}

// turns are the open steps, those first that were searched longest ago or never.
func (e *Engine) turns(spec *job.Spec, steps []state.Step) ([]int, error) {
	var order []int
	last := make([]time.Time, len(steps))
	for i, step := range steps {
		if step.Stop != "" {
			continue
		}
		at, err := e.Store.LastSearched(spec.Name, step.Watermark)
		if err != nil {
			return nil, err
		}
		order, last[i] = append(order, i), at
	}
	slices.SortStableFunc(order, func(a, b int) int { return last[a].Compare(last[b]) })
	return order, nil
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
		in := e.inputs(ctx, spec, now)
		in.Assume = true // what comes after another job finds something by then
		steps, plan, err := e.draw(spec, in)
		if err != nil {
			continue
		}
		each, _, err := e.purchases(plan, steps, plan.cap(spec.Budget))
		if err != nil {
			return nil, err
		}
		least, err := e.least(plan, steps)
		if err != nil {
			return nil, err
		}
		all[i] = credit.Demand{Runs: runs, Each: each.Credits, Step: least}
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
