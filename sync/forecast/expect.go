package forecast

import (
	"math"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/plan"
)

// addExpected estimates the credits and requests of the next run from earlier runs: by the pages or scans that
// they bought, at today's prices. The calls of a watch are known.
func (f *Job) addExpected(h History, spec *job.Spec, p *plan.Plan, prices outlier.Prices) {
	all := h.samples(prices)
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
			f.each += c.Cost * float64(prices.Of(outlier.OpSearch, ""))
		}
		f.whole, f.Expected.Cost, f.Expected.Credits = outlier.Credits(f.each), f.Worst.Cost, 0
		for _, search := range f.Searches {
			f.Expected.Credits += search.Credits
		}
		return
	}
	f.Expected.Cost, f.each = f.Worst.Cost, float64(max(f.Worst.Credits, f.whole))
	n := int64(f.Basis)
	if n == 0 || len(spec.Fetch) > 0 {
		return
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
