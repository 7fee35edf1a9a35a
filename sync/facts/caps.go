package facts

import (
	"math"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// CapsOf returns a function that gives the caps of a paid call of a run at a given service time,
// with the periods current at that time.
func (r *Reader) CapsOf(run *runs.Run, f plan.Stored, own job.JobBudget) func(time.Time) []ledger.Cap {
	budget, zone := r.Config.Budget, r.Config.Timezone
	var reserve outlier.Credits // which no run touches by itself
	if budget.Reserve != nil && !r.UseReserve && !f.UseReserve {
		reserve = *budget.Reserve
	}
	return func(now time.Time) []ledger.Cap {
		cycle := ledger.Cycle(now, zone, budget.Renews)
		var caps []ledger.Cap
		add := func(scope ledger.Scope, period string, limit *outlier.Credits, reserve outlier.Credits) {
			if limit != nil {
				c := ledger.Cap{Scope: scope, Period: period, Max: *limit - reserve, Reserve: reserve}
				caps = append(caps, c)
			}
		}
		add(ledger.ScopeRun, run.ID, new(f.CapFor(own)), 0)
		month := own.PerMonth
		if strings.HasPrefix(run.Job, ledger.ByHand) {
			month = budget.ByHand
		}
		add(ledger.ScopeJobMonth, ledger.JobCycle(run.Job, cycle), month, 0)
		if day := ledger.Day(now, zone); strings.HasPrefix(run.Job, ledger.Assistants) {
			add(ledger.ScopeJobDay, ledger.JobCycle(run.Job, day), &r.Config.Assistants.PerDay, 0)
		}
		add(ledger.ScopeDay, ledger.Day(now, zone), budget.PerDay, 0)
		add(ledger.ScopeMonth, cycle, budget.PerMonth, reserve)
		return caps
	}
}

// Affords returns the most that a run may cost, lost answers included: at most what all caps leave,
// plus what the run has on hold.
func (r *Reader) Affords(run *runs.Run, f plan.Stored, own job.JobBudget, c plan.Cost) (
	outlier.Credits, error) {
	spent, err := r.Store.Ledger.Spent(run.ID)
	if err != nil {
		return 0, err
	}
	leaves, err := r.Leaves(run, f, own)
	return min(c.Lost, leaves+spent.Held), err
}

// Leaves returns what the caps leave for a run now: its own, its job's, the day's and the cycle's.
func (r *Reader) Leaves(run *runs.Run, f plan.Stored, own job.JobBudget) (outlier.Credits, error) {
	least := outlier.Credits(math.MaxInt64)
	for _, c := range r.CapsOf(run, f, own)(r.Store.Clock.Now()) {
		held, err := r.Store.Ledger.Held(c)
		if err != nil {
			return 0, err
		}
		least = min(least, max(0, c.Max-held))
	}
	return least, nil
}

// Cycle returns the key of the current billing cycle.
func (r *Reader) Cycle() string {
	return ledger.Cycle(r.Store.Clock.Now(), r.Config.Timezone, r.Config.Budget.Renews)
}

// CycleBounds returns when the current billing cycle began and when the next one begins.
func (r *Reader) CycleBounds() (from, turn time.Time) {
	return ledger.CycleBounds(r.Store.Clock.Now(), r.Config.Timezone, r.Config.Budget.Renews)
}
