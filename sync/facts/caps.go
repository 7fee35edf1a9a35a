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

// Caps is what may be spent: the caps of the job file, and what the ledger counts against them.
type Caps struct {
	Config     *job.Config
	UseReserve bool // runs may spend the reserve

	ledger.Books
}

// Caps returns what the runs of the reader may spend.
func (r *Reader) Caps() *Caps {
	return &Caps{Config: r.Config, UseReserve: r.UseReserve, Books: r.Store.Books}
}

// CapBalance is one period, whether or not it has a cap.
type CapBalance struct {
	Scope  ledger.Scope     `json:"scope"`
	Period string           `json:"period"`
	Job    string           `json:"job,omitempty"`     // [ledger.ByHand] for one-off requests
	Max    *outlier.Credits `json:"max"`               // nil for no cap; includes the reserve
	Left   *outlier.Credits `json:"left"`              // of Max, for runs that do not use the reserve
	Held   outlier.Credits  `json:"held"`              // all that counts; credits bought in addition raise Max
	Kept   outlier.Credits  `json:"reserve,omitempty"` // for `run --use-reserve`

	ledger.Balance
}

// Raised returns Max with the credits that were bought in addition, nil for no cap.
func (b *CapBalance) Raised() *outlier.Credits {
	if b.Max == nil {
		return nil
	}
	return new(*b.Max + b.Bought())
}

// Leaves returns Left, or more than anything costs if there is no cap.
func (b *CapBalance) Leaves() outlier.Credits {
	if b.Left == nil {
		return math.MaxInt64
	}
	return *b.Left
}

// OfMonth returns the billing cycle of a time.
func (c *Caps) OfMonth(at time.Time) (CapBalance, error) {
	all := c.Config.Budget
	b := CapBalance{Scope: ledger.ScopeMonth, Period: c.cycle(at), Max: all.PerMonth}
	if all.PerMonth != nil && all.Reserve != nil {
		b.Kept = *all.Reserve
	}
	return c.fill(b)
}

// OfDay returns the day of a time.
func (c *Caps) OfDay(at time.Time) (CapBalance, error) {
	return c.fill(CapBalance{Scope: ledger.ScopeDay, Period: ledger.Day(at, c.Config.Timezone), Max: c.Config.Budget.PerDay})
}

// OfJob returns the billing cycle of a time for the job with a name and a cap.
func (c *Caps) OfJob(name string, most *outlier.Credits, at time.Time) (CapBalance, error) {
	return c.fill(CapBalance{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(name, c.cycle(at)), Job: name, Max: most})
}

// OfAssistants returns the day of a time for the requests of assistants.
func (c *Caps) OfAssistants(at time.Time) (CapBalance, error) {
	return c.fill(CapBalance{Scope: ledger.ScopeJobDay, Job: ledger.Assistants, Max: &c.Config.Assistants.PerDay,
		Period: ledger.JobCycle(ledger.Assistants, ledger.Day(at, c.Config.Timezone))})
}

// fill adds to a period what it holds and has left.
func (c *Caps) fill(b CapBalance) (_ CapBalance, err error) {
	b.Balance, err = c.Ledger.Balance(ledger.Cap{Scope: b.Scope, Period: b.Period})
	b.Held = b.Taken()
	if most := b.Raised(); most != nil {
		b.Left = new(max(0, *most-b.Kept-b.Held))
	}
	return b, err
}

// LeftOfJob returns what a job's own cap leaves in the cycle of a time.
func (c *Caps) LeftOfJob(spec *job.Spec, at time.Time) (outlier.Credits, error) {
	if spec.Budget.PerMonth == nil {
		return math.MaxInt64, nil
	}
	b, err := c.OfJob(spec.Name, spec.Budget.PerMonth, at)
	return b.Leaves(), err
}

func (c *Caps) cycle(at time.Time) string {
	return ledger.Cycle(at, c.Config.Timezone, c.Config.Budget.Renews)
}

// CycleBounds returns when the current billing cycle began and when the next one begins.
func (c *Caps) CycleBounds() (from, turn time.Time) { return c.boundsAt(c.Clock.Now()) }

func (c *Caps) boundsAt(at time.Time) (from, turn time.Time) {
	return ledger.CycleBounds(at, c.Config.Timezone, c.Config.Budget.Renews)
}

// CapsOf returns the caps of a paid call of a run at a service time.
func (c *Caps) CapsOf(run *runs.Run, f plan.Stored, own job.JobBudget, at time.Time) (caps []ledger.Cap) {
	budget, cycle, day := c.Config.Budget, c.cycle(at), ledger.Day(at, c.Config.Timezone)
	add := func(scope ledger.Scope, period string, limit *outlier.Credits, reserve outlier.Credits) {
		if limit != nil {
			caps = append(caps, ledger.Cap{Scope: scope, Period: period, Max: *limit - reserve, Reserve: reserve})
		}
	}
	add(ledger.ScopeRun, run.ID, new(f.CapFor(own)), 0)
	month := own.PerMonth
	if strings.HasPrefix(run.Job, ledger.ByHand) {
		month = budget.ByHand
	}
	add(ledger.ScopeJobMonth, ledger.JobCycle(run.Job, cycle), month, 0)
	if strings.HasPrefix(run.Job, ledger.Assistants) {
		add(ledger.ScopeJobDay, ledger.JobCycle(run.Job, day), &c.Config.Assistants.PerDay, 0)
	}
	add(ledger.ScopeDay, day, budget.PerDay, 0)
	var reserve outlier.Credits // which no run touches by itself
	if budget.Reserve != nil && !c.UseReserve && !f.UseReserve {
		reserve = *budget.Reserve
	}
	add(ledger.ScopeMonth, cycle, budget.PerMonth, reserve)
	return caps
}

// Affords returns the most that a run may cost, lost answers included: at most what all caps leave,
// plus what the run has on hold.
func (c *Caps) Affords(run *runs.Run, f plan.Stored, own job.JobBudget, cost plan.Cost) (outlier.Credits, error) {
	spent, err := c.Ledger.Spent(run.ID)
	if err != nil {
		return 0, err
	}
	leaves, err := c.Leaves(run, f, own)
	return min(cost.Lost, leaves+spent.Held), err
}

// Leaves returns what the caps leave for a run now: its own, its job's, the day's and the cycle's.
func (c *Caps) Leaves(run *runs.Run, f plan.Stored, own job.JobBudget) (outlier.Credits, error) {
	least := outlier.Credits(math.MaxInt64)
	for _, one := range c.CapsOf(run, f, own, c.Clock.Now()) {
		held, err := c.Ledger.Held(one)
		if err != nil {
			return 0, err
		}
		least = min(least, max(0, one.Max-held))
	}
	return least, nil
}
