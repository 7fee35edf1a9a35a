package plan

import "outlierd/outlier"

// # Spending evenly
//
// With `budget.pace: even` a scheduled run spends at most its fair share of what is left of the
// cycle (see [ledger.Share]). The share is a cap of the run. If that is less than its searches
// cost, they take turns: the searches that ran longest ago are its first steps, and page one of
// each comes before page two of any. A search for which the share has no room, or no more, ends as
// "share": the run has done its work, and the watermark does not move, so that the next turn
// covers what this one left.
//
// A manual run is not limited to a share: the person who starts it has decided.

// Round returns after how many runs each search has had its turn; 0 if there is no share, or none
// that is enough for a search.
func (p *Plan) Round() int {
	if p.Stored.Share == nil {
		return 0
	}
	left, turns, all := *p.Stored.Share, 0, 0
	for i := range p.Steps {
		if p.Steps[i].Stop != "" {
			continue
		}
		all++
		one := p.itemOf(i)
		if price := one.least(); price <= left {
			left -= price
			turns++
		}
	}
	return (all + turns - 1) / max(1, turns) * min(1, turns)
}

// PriceOfScan returns the price of the scan of a step including reading it. A scan that is joined
// costs only its reading.
func (f *Stored) PriceOfScan(prices outlier.Prices, ordinal int) outlier.Credits {
	start, reading := f.Scan.Price(prices, f.Pages)
	if _, joined := f.Joins[ordinal]; joined {
		return reading
	}
	return start + reading
}
