package forecast

import (
	"context"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
)

// Budget is what may be spent, what was spent, and what blocks spending.
type Budget struct {
	At          time.Time           `json:"at"` // the service's time, by which periods begin
	Cycle       Cycle               `json:"cycle"`
	Caps        []CapBalance        `json:"caps"`                      // of the cycle, the day, jobs with a cap or spending, and assistants today
	PerSession  outlier.Credits     `json:"mcp_per_session,omitempty"` // of a session of an assistant
	Adjustments []ledger.Adjustment `json:"adjustments,omitempty"`
	Refusals    []ledger.Block      `json:"refusals,omitempty"`
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

// Budget returns the state of the budget. [Reader.Forecast] projects the end of the cycle.
func (r *Reader) Budget(ctx context.Context) (*Budget, error) {
	f, err := r.Forecast(ctx)
	if err != nil {
		return nil, err
	}
	now, cycle := r.Facts.Store.Clock.Now(), r.Facts.Cycle()
	b := &Budget{At: now, Cycle: f.Cycle, PerSession: r.Facts.Config.Assistants.PerSession}
	if err := r.addCaps(b, cycle, ledger.Day(now, r.Facts.Config.Timezone)); err != nil {
		return nil, err
	}
	if b.Adjustments, err = r.Facts.Store.Ledger.Adjustments(cycle); err != nil {
		return nil, err
	}
	b.Refusals, err = r.Refusals()
	return b, err
}

func (r *Reader) addCaps(b *Budget, cycle, day string) error {
	if err := r.addShared(&b.Caps, cycle, day); err != nil {
		return err
	}
	add := func(job string, most *outlier.Credits) error {
		period := ledger.JobCycle(job, cycle)
		c, err := r.capBalance(CapBalance{Scope: ledger.ScopeJobMonth, Period: period, Job: job, Max: most})
		if c.Max != nil || c.Balance != (ledger.Balance{}) {
			b.Caps = append(b.Caps, c)
		}
		return err
	}
	for i := range r.Facts.Config.Jobs {
		spec := &r.Facts.Config.Jobs[i]
		if err := add(spec.Name, spec.Budget.PerMonth); err != nil {
			return err
		}
	}
	if err := add(ledger.ByHand, r.Facts.Config.Budget.ByHand); err != nil {
		return err
	}
	c, err := r.capBalance(CapBalance{Scope: ledger.ScopeJobDay, Period: ledger.JobCycle(ledger.Assistants, day), Job: ledger.Assistants,
		Max: &r.Facts.Config.Assistants.PerDay})
	if *c.Max > 0 || c.Balance != (ledger.Balance{}) {
		b.Caps = append(b.Caps, c)
	}
	return err
}

// addShared adds the billing cycle and the day, which all jobs share.
func (r *Reader) addShared(caps *[]CapBalance, cycle, day string) error {
	all := r.Facts.Config.Budget
	month := CapBalance{Scope: ledger.ScopeMonth, Period: cycle, Max: all.PerMonth}
	if all.PerMonth != nil && all.Reserve != nil {
		month.Kept = *all.Reserve
	}
	for _, c := range []CapBalance{month, {Scope: ledger.ScopeDay, Period: day, Max: all.PerDay}} {
		c, err := r.capBalance(c)
		if err != nil {
			return err
		}
		*caps = append(*caps, c)
	}
	return nil
}

// capBalance adds to a period what it holds and has left.
func (r *Reader) capBalance(c CapBalance) (CapBalance, error) {
	balance, err := r.Facts.Store.Ledger.Balance(ledger.Cap{Scope: c.Scope, Period: c.Period})
	c.Balance, c.Held = balance, balance.Taken()
	if c.Max != nil {
		c.Left = new(max(0, *c.Max+balance.Bought()-c.Kept-c.Held))
	}
	return c, err
}

// Refusals returns the blocks of the key, and that of the clock, that have not expired.
func (r *Reader) Refusals() ([]ledger.Block, error) {
	return r.Facts.Store.Blocks.Standing(r.Key, r.Facts.Store.Clock.Now())
}
