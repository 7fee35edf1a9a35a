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
	all, err := e.samples(spec)
	if err != nil {
		return err
	}
	var credits, rationed, shares outlier.Credits
	var requests int64
	for _, s := range all {
		if s.share > 0 {
			rationed, shares = rationed+s.bought, shares+s.share
		}
		credits += s.bought
		requests += s.requests
	}
	f.Basis = len(all)
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

// curb keeps what is expected within what the caps leave beside what is set aside. The
// requests are fewer in proportion: what is fetched about hits follows from the pages.
func (f *JobForecast) curb() {
	f.rest = f.Expected.Credits
	for _, c := range f.Cuts {
		if most := c.Leaves + f.aside; most < f.Expected.Credits {
			f.Expected.Requests = int(int64(f.Expected.Requests) * int64(most) / int64(f.Expected.Credits))
			f.Expected.Credits = most
		}
	}
}

// A sample is what one earlier run tells of the next.
type sample struct {
	bought, share outlier.Credits // at the prices of today; its share of the month then, 0 if there was none
	requests      int64
	reused        bool // pages that the journal had, or a scan of another run, which the next one perhaps will not have
}

// samples are the latest runs that did what the file said then. Those that bought all
// their pages are the better ones: a run soon after another costs less than the one of
// tomorrow.
func (e *Engine) samples(spec *job.Spec) ([]sample, error) {
	runs, err := e.Store.OwnRuns(spec.Name, expectFrom)
	if err != nil {
		return nil, err
	}
	var all, full []sample
	for i := range runs {
		run := &runs[i]
		if run.Status != state.OK && run.Status != state.OKEmpty && run.Status != state.Partial {
			continue
		}
		plan := frozen{}
		if len(run.Plan) > 0 {
			if plan, err = thaw(run.Plan); err != nil {
				return nil, err
			}
		}
		s, err := e.sampleOf(run, plan)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		if !s.reused {
			full = append(full, s)
		}
	}
	if len(full) > 0 {
		return full, nil
	}
	return all, nil
}

func (e *Engine) sampleOf(run *state.Run, plan frozen) (sample, error) {
	s := sample{requests: run.Requests}
	if plan.Share != nil {
		s.share = *plan.Share
	}
	steps, err := e.Store.Steps(run.ID)
	for i := range steps {
		s.bought += e.bought(&steps[i])
		s.reused = s.reused || steps[i].Reused > 0
		if steps[i].Joined == 0 {
			continue
		}
		scan, err := e.Store.ScanOf(steps[i].ID)
		if err != nil {
			return s, err
		}
		s.reused = s.reused || scan != nil && scan.Run != run.ID
	}
	return s, err
}

// bought is what the pages of a step would cost today.
func (e *Engine) bought(step *state.Step) outlier.Credits {
	if step.Op == outlier.OpStartScan {
		if step.Began.IsZero() && step.Stop == "" || step.Joined != 0 {
			return 0
		}
		return e.priceOf(step)
	}
	return outlier.Credits(step.Pages-step.Reused) * e.priceOf(step)
}
