package forecast

import (
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

// Budget is what may be spent, what was spent, and what blocks spending.
type Budget struct {
	At          time.Time           `json:"at"` // the service's time, by which periods begin
	Cycle       Cycle               `json:"cycle"`
	Caps        []facts.CapBalance  `json:"caps"`                      // of the cycle, the day, jobs with a cap or spending, and assistants today
	PerSession  outlier.Credits     `json:"mcp_per_session,omitempty"` // of a session of an assistant
	Adjustments []ledger.Adjustment `json:"adjustments,omitempty"`
	Refusals    []ledger.Block      `json:"refusals,omitempty"`
}

// Budget returns the state of the budget. [Reader.Forecast] projects the end of the cycle.
func (r *Reader) Budget(ctx context.Context) (*Budget, error) {
	f, err := r.Forecast(ctx)
	if err != nil {
		return nil, err
	}
	b := &Budget{At: r.Store.Clock.Now(), Cycle: f.Cycle, PerSession: r.Config.Assistants.PerSession, Refusals: f.Refused}
	if b.Caps, err = sharedCaps(r.Caps(), b.At); err != nil {
		return nil, err
	}
	b.Adjustments, err = r.Store.Ledger.Adjustments(b.Caps[0].Period)
	if err != nil {
		return nil, err
	}
	return b, r.addCapsOfJobs(b)
}

// addCapsOfJobs adds the jobs of the file, one-off requests, assistants, and jobs that the file no longer has.
func (r *Reader) addCapsOfJobs(b *Budget) error {
	caps := r.Caps()
	add := func(c facts.CapBalance, err error) error {
		if c.Balance != (ledger.Balance{}) || c.Max != nil && (*c.Max > 0 || c.Job != ledger.Assistants) {
			b.Caps = append(b.Caps, c)
		}
		return err
	}
	for i := range r.Config.Jobs {
		spec := &r.Config.Jobs[i]
		if err := add(caps.OfJob(spec.Name, spec.Budget.PerMonth, b.At)); err != nil {
			return err
		}
	}
	if err := add(caps.OfJob(ledger.ByHand, r.Config.Budget.ByHand, b.At)); err != nil {
		return err
	}
	if err := add(caps.OfAssistants(b.At)); err != nil {
		return err
	}
	names, err := r.removedJobs()
	for _, name := range names {
		if err := add(caps.OfJob(name, nil, b.At)); err != nil {
			return err
		}
	}
	return err
}

// removedJobs returns the names of jobs in the state that are not in the job file.
func (r *Reader) removedJobs() ([]string, error) {
	names, err := r.Store.Jobs()
	return slices.DeleteFunc(names, func(name string) bool {
		return job.IsOnce(name) || r.Config.Job(name) != nil
	}), err
}

// sharedCaps returns the billing cycle and the day of a time, which all jobs share.
func sharedCaps(caps *facts.Caps, at time.Time) ([]facts.CapBalance, error) {
	month, err := caps.OfMonth(at)
	if err != nil {
		return nil, err
	}
	day, err := caps.OfDay(at)
	return []facts.CapBalance{month, day}, err
}

// Refusals returns the blocks of the key, and that of the clock, that have not expired.
func (r *Reader) Refusals() ([]ledger.Block, error) {
	return r.Store.Blocks.Standing(r.Key, r.Store.Clock.Now())
}
