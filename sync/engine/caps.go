package engine

import (
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// capsOf are the limits that a paid call of a run at the given service time has to
// keep, with the periods that are then current.
func (e *Engine) capsOf(run *runs.Run, f plan.Frozen, own job.JobBudget) func(time.Time) []ledger.Cap {
	budget, zone := e.Config.Budget, e.Config.Timezone
	var reserve outlier.Credits // which no run touches by itself
	if budget.Reserve != nil && !e.UseReserve {
		reserve = *budget.Reserve
	}
	return func(now time.Time) []ledger.Cap {
		cycle := ledger.Cycle(now, zone, budget.Renews)
		var caps []ledger.Cap
		add := func(scope ledger.Scope, period string, limit *outlier.Credits, reserve outlier.Credits) {
			if limit != nil {
				caps = append(caps, ledger.Cap{Scope: scope, Period: period, Max: *limit - reserve, Reserve: reserve})
			}
		}
		add(ledger.ScopeRun, run.ID, new(f.CapFor(own)), 0)
		add(ledger.ScopeJobMonth, ledger.JobCycle(run.Job, cycle), own.PerMonth, 0)
		add(ledger.ScopeDay, ledger.Day(now, zone), budget.PerDay, 0)
		add(ledger.ScopeMonth, cycle, budget.PerMonth, reserve)
		return caps
	}
}

// affords is the most that a run may cost, answers that are lost included: no more than all
// caps leave beside what it has set aside.
func (e *Engine) affords(run *runs.Run, f plan.Frozen, own job.JobBudget, c plan.Cost) (outlier.Credits, error) {
	spent, err := e.Store.Ledger.Spent(run.ID)
	if err != nil {
		return 0, err
	}
	leaves, err := e.leaves(run, f, own)
	return min(c.Lost, leaves+spent.Held), err
}

// leaves is what the caps leave for a run now: its own, its job's, the day's and the cycle's.
func (e *Engine) leaves(run *runs.Run, f plan.Frozen, own job.JobBudget) (outlier.Credits, error) {
	least := outlier.Credits(math.MaxInt64)
	for _, c := range e.capsOf(run, f, own)(e.Store.Ledger.ServiceTime()) {
		held, err := e.Store.Ledger.Held(c)
		if err != nil {
			return 0, err
		}
		least = min(least, max(0, c.Max-held))
	}
	return least, nil
}
