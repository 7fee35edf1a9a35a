package facts

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// Continue returns the plan of a run that has begun, with the progress of its steps. If calls is
// set, queued data calls are counted.
func (r *Reader) Continue(name string, stored plan.Stored, steps []runs.Step, calls bool) (
	*plan.Plan, error) {
	f := factsWithoutJob(r.Config)
	f.Now = time.Now()
	all := slices.Clone(steps)
	for i := range all {
		step := &all[i]
		var err error
		if step.Paid, err = paidScan(r.Store.Scans, step); err != nil {
			return nil, err
		}
		if err := r.addPaging(f, step.Query.Op()); err != nil {
			return nil, err
		}
		if step.Query.Op() == outlier.OpStartScan && step.Stop == "" {
			if err := r.addLive(f, step.Ordinal, step, stored.Again); err != nil {
				return nil, err
			}
		}
	}
	if calls {
		if err := r.addCalls(f, name, &stored); err != nil {
			return nil, err
		}
	}
	return plan.Continue(stored, all, f), nil
}

// Left returns what a resumed run still has to do and what that may cost: its steps as planned when
// it began, within what its cap leaves.
func (r *Reader) Left(old *runs.Run, own job.JobBudget) (p *plan.Plan, c plan.Cost, err error) {
	steps, err := r.Store.Steps.OfRun(old.ID)
	if err != nil {
		return nil, c, err
	}
	spent, err := spentBy(r.Store, old.ID)
	if err != nil {
		return nil, c, err
	}
	if p, err = r.Continue(old.Job, *old.Plan, steps, true); err != nil {
		return nil, c, err
	}
	return p, p.Cost(own, spent), nil
}

// spentBy returns what a run has used of its own caps.
func spentBy(s *state.Store, run string) (plan.Spent, error) {
	spent, err := s.Ledger.Spent(run)
	if err != nil {
		return plan.Spent{}, err
	}
	requests, err := ledger.Requests(s.DB, run)
	return plan.Spent{Credits: spent.Charged + spent.Unknown + spent.Reserved, Requests: int(requests)}, err
}
