package engine

import (
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// expectFrom is from how many earlier runs is drawn what to expect of the next one.
const expectFrom = 10

// expect draws from earlier runs what the next one will ask of the two scarcities.
// What counts are the pages that they bought, at the prices of today.
func (e *Engine) expect(f *JobForecast, spec *job.Spec) error {
	runs, err := e.Store.Runs(spec.Name, expectFrom)
	if err != nil {
		return err
	}
	var credits, rationed, shares outlier.Credits
	var requests int64
	for _, run := range runs {
		if run.Status != state.OK && run.Status != state.OKEmpty && run.Status != state.Partial {
			continue
		}
		bought, share, err := e.boughtBy(&run)
		if err != nil {
			return err
		}
		if share > 0 {
			rationed, shares = rationed+bought, shares+share
		}
		credits += bought
		requests += run.Requests
		f.Basis++
	}
	f.Expected.Cost, f.each = f.Worst.Cost, max(f.Worst.Credits, f.whole)
	if len(spec.Fetch) > 0 {
		f.Expected.Requests = f.Calls
	}
	if n := outlier.Credits(f.Basis); n > 0 {
		average := (credits + n/2) / n
		f.Expected.Credits = min(average, f.Worst.Credits)
		f.Expected.Requests = min(int((requests+int64(n)/2)/int64(n)), f.Worst.Requests)
		switch {
		case shares > 0: // how much of what it gets the job makes use of
			f.each = f.each * min(rationed, shares) / shares
		case f.Continues != "":
			f.each = average
		default:
			f.each = min(average, f.each)
		}
	}
	return nil
}

// boughtBy is what the pages that a run bought would cost today, and its share of the
// month then; 0 if there was none.
func (e *Engine) boughtBy(run *state.Run) (bought, share outlier.Credits, err error) {
	steps, err := e.Store.Steps(run.ID)
	if err != nil {
		return 0, 0, err
	}
	for i := range steps {
		bought += e.bought(&steps[i])
	}
	if len(run.Plan) == 0 {
		return bought, 0, nil
	}
	plan, err := thaw(run.Plan)
	if plan.Share != nil {
		share = *plan.Share
	}
	return bought, share, err
}

// bought is what the pages of a step would cost today.
func (e *Engine) bought(step *state.Step) outlier.Credits {
	if step.Op == outlier.OpStartScan {
		if step.Began.IsZero() && step.Stop == "" {
			return 0
		}
		return e.priceOf(step)
	}
	return outlier.Credits(step.Pages-step.Reused) * e.priceOf(step)
}
