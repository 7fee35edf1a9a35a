package engine

import (
	"context"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
)

// Budget is what may be spent, what was spent, and what stands in the way.
type Budget struct {
	At          time.Time           `json:"at"` // the service's time, by which periods turn
	Cycle       CycleForecast       `json:"cycle"`
	Caps        []CapBalance        `json:"caps"` // of the cycle, the day, and each job that has a cap or has spent something
	Adjustments []ledger.Adjustment `json:"adjustments,omitempty"`
	Refusals    []Refusal           `json:"refusals,omitempty"`
}

// CapBalance is one period, whether or not it has a cap.
type CapBalance struct {
	Scope  ledger.Scope     `json:"scope"`
	Period string           `json:"period"`
	Job    string           `json:"job,omitempty"`
	Max    *outlier.Credits `json:"max"`               // nil for no cap; the reserve is in it
	Left   *outlier.Credits `json:"left"`              // of Max, for runs that do not use the reserve
	Held   outlier.Credits  `json:"held"`              // all that counts; what was bought on top is room beside Max
	Kept   outlier.Credits  `json:"reserve,omitempty"` // for `run --use-reserve`

	ledger.Balance
}

// Refusal is a refusal of the service that stands for later calls.
type Refusal struct {
	Block  ledger.BlockKind `json:"block"`
	Reason string           `json:"reason"`
	Since  time.Time        `json:"since"`
	Until  time.Time        `json:"until,omitzero"` // when it is tried again by itself
}

// Budget tells how the budget stands. Like [Engine.Forecast], from which it takes how
// the cycle ends, it sends nothing and changes nothing.
func (e *Engine) Budget(ctx context.Context) (*Budget, error) {
	f, err := e.Forecast(ctx)
	if err != nil {
		return nil, err
	}
	now, zone := e.Store.Ledger.ServiceTime(), e.Config.Timezone
	cycle := ledger.Cycle(now, zone, e.Config.Budget.Renews)
	b := &Budget{At: now, Cycle: f.Cycle}
	if err := e.addCaps(b, cycle, ledger.Day(now, zone)); err != nil {
		return nil, err
	}
	if b.Adjustments, err = e.Store.Ledger.Adjustments(cycle); err != nil {
		return nil, err
	}
	b.Refusals, err = e.refusals()
	return b, err
}

func (e *Engine) addCaps(b *Budget, cycle, day string) error {
	all := e.Config.Budget
	add := func(c CapBalance) error {
		balance, err := e.Store.Ledger.Balance(ledger.Cap{Scope: c.Scope, Period: c.Period})
		if err != nil {
			return err
		}
		c.Balance, c.Held = balance, balance.Taken()
		if c.Max != nil {
			c.Left = new(max(0, *c.Max+balance.Bought()-c.Kept-c.Held))
		}
		if c.Job == "" || c.Max != nil || balance != (ledger.Balance{}) {
			b.Caps = append(b.Caps, c)
		}
		return nil
	}
	if err := add(CapBalance{Scope: ledger.ScopeMonth, Period: cycle, Max: all.PerMonth, Kept: b.Cycle.Reserve}); err != nil {
		return err
	}
	if err := add(CapBalance{Scope: ledger.ScopeDay, Period: day, Max: all.PerDay}); err != nil {
		return err
	}
	for i := range e.Config.Jobs {
		spec := &e.Config.Jobs[i]
		err := add(CapBalance{Scope: ledger.ScopeJobMonth, Period: ledger.JobCycle(spec.Name, cycle), Job: spec.Name, Max: spec.Budget.PerMonth})
		if err != nil {
			return err
		}
	}
	return nil
}

// refusals are the blocks that stand for the key, and that of the clock, whose time
// is not over.
func (e *Engine) refusals() (all []Refusal, err error) {
	for _, block := range []ledger.BlockKind{ledger.BlockKey, ledger.BlockCredits, ledger.BlockClock} {
		of := e.Client.Key.Fingerprint()
		if block == ledger.BlockClock {
			of = ""
		}
		fallen, err := e.Store.Ledger.Block(block, of)
		if err != nil {
			return nil, err
		}
		if fallen != nil && stands(fallen, e.Store.Ledger.ServiceTime()) {
			all = append(all, Refusal{block, fallen.Reason, fallen.Since, fallen.Until})
		}
	}
	return all, nil
}
