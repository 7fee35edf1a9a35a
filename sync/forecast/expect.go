package forecast

import (
	"math"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// expectFrom is the number of earlier runs that an estimate of the next one uses.
const expectFrom = 10

// addExpected estimates the credits and requests of the next run from earlier runs: by the pages or scans that
// they bought, at today's prices. The calls of a watch are known.
func (r *Reader) addExpected(f *Job, spec *job.Spec, p *plan.Plan) error {
	all, err := r.readSamples(spec)
	if err != nil {
		return err
	}
	f.least = p.Least()
	var credits, used, shares, dearest outlier.Credits
	var requests, most int64
	for _, s := range all {
		if s.share > 0 {
			used, shares = used+s.bought, shares+s.share
		}
		credits, requests = credits+s.bought, requests+s.requests
		dearest, most = max(dearest, s.bought), max(most, s.requests)
	}
	if f.Assumed { // the SQL may return again what it returned before
		room := p.Stored.CapFor(spec.Budget)
		if spec.Budget.PerRun == nil && p.Stored.Share == nil {
			room = max(room, dearest)
		}
		f.Worst.Credits = max(f.Worst.Credits, min(dearest, room))
		f.Worst.Lost = max(f.Worst.Lost, f.Worst.Credits)
		f.Worst.Requests = max(f.Worst.Requests, int(most))
		f.whole = max(f.whole, f.Worst.Credits)
	}
	f.Basis = len(all)
	if a := p.Stored.Auto; a != nil { // whatever earlier runs took
		f.each = 0
		for _, c := range a.Choices {
			f.each += c.Cost * float64(r.Facts.Config.Service.Prices.Of(outlier.OpSearch, ""))
		}
		f.whole, f.Expected.Cost, f.Expected.Credits = outlier.Credits(f.each), f.Worst.Cost, 0
		for _, search := range f.Searches {
			f.Expected.Credits += search.Credits
		}
		return nil
	}
	f.Expected.Cost, f.each = f.Worst.Cost, float64(max(f.Worst.Credits, f.whole))
	n := int64(f.Basis)
	if n == 0 || len(spec.Fetch) > 0 {
		return nil
	}
	average := float64(credits) / float64(n)
	f.Expected.Credits = min(roundToStep(average, f.least), f.Worst.Credits)
	f.Expected.Requests = min(int((requests+n/2)/n), f.Worst.Requests)
	switch {
	case shares > 0: // the part of its share that the job uses
		f.each *= float64(min(used, shares)) / float64(shares)
	case f.Continues != "":
		f.each = average
	default:
		f.each = min(average, f.each)
	}
	return nil
}

// roundToStep rounds an average to a multiple of the smallest purchase.
func roundToStep(average float64, least outlier.Credits) outlier.Credits {
	if least == 0 {
		return outlier.Credits(math.Round(average))
	}
	return outlier.Credits(math.Round(average/float64(least))) * least
}

// limitTo limits an estimate to a cap, which buys a multiple of the smallest purchase. Requests are reduced in
// proportion, because data calls follow from the pages.
func (e *Estimate) limitTo(most, least outlier.Credits) {
	if most >= e.Credits {
		return
	}
	if least > 0 {
		most -= most % least
	}
	e.Requests = int(int64(e.Requests) * int64(most) / int64(e.Credits))
	e.Credits = most
}

// A sample is an earlier run, for an estimate of the next one.
type sample struct {
	bought, share outlier.Credits // at today's prices; its budget share then, 0 for none
	requests      int64
	reused        bool // some pages were in the journal, or it joined another run's scan
}

// readSamples returns the latest runs that followed the file of their time. Runs that bought all their pages
// are preferred: a run soon after another one costs less than tomorrow's.
func (r *Reader) readSamples(spec *job.Spec) ([]sample, error) {
	rows, err := r.Facts.Store.Runs.OwnRuns(spec.Name, expectFrom)
	if err != nil {
		return nil, err
	}
	var all, full []sample
	for i := range rows {
		run := &rows[i]
		if !run.Status.EndedWell() {
			continue
		}
		stored := plan.Stored{}
		if run.Plan != nil {
			stored = *run.Plan
		}
		s, err := r.sampleOf(run, stored)
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

func (r *Reader) sampleOf(run *runs.Run, stored plan.Stored) (sample, error) {
	s := sample{requests: run.Requests}
	if stored.Share != nil {
		s.share = *stored.Share
	}
	steps, err := r.Facts.Store.Steps.OfRun(run.ID)
	for i := range steps {
		s.bought += r.priceBought(&steps[i])
		s.reused = s.reused || steps[i].Reused > 0
		if steps[i].Joined == 0 {
			continue
		}
		scan, err := r.Facts.Store.Scans.OfStep(steps[i].ID)
		if err != nil {
			return s, err
		}
		s.reused = s.reused || scan != nil && scan.Run != run.ID
	}
	return s, err
}

// priceBought returns what the pages of a step would cost today.
func (r *Reader) priceBought(step *runs.Step) outlier.Credits {
	if step.Query.Op() == outlier.OpStartScan {
		if step.Began.IsZero() && step.Stop == "" || step.Joined != 0 {
			return 0
		}
		return r.Facts.PriceOf(step)
	}
	return outlier.Credits(step.Pages-step.Reused) * r.Facts.PriceOf(step)
}

// Known returns how many of the hits that the latest runs of a job bought were known before, and the number of these
// runs. Its first run does not count.
func (r *Reader) Known(spec *job.Spec) (known, hits int64, n int, err error) {
	rows, err := r.Facts.Store.Runs.OwnRuns(spec.Name, expectFrom+1)
	for i := range rows[:max(0, len(rows)-1)] {
		if run := &rows[i]; run.Credits > 0 && run.Hits > 0 {
			known, hits, n = known+run.Hits-run.NewHits, hits+run.Hits, n+1
		}
	}
	return known, hits, n, err
}
