package plan

import (
	"slices"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// # Spending evenly
//
// With `budget.pace: even` a scheduled run spends at most its fair share of what is left of the
// cycle (see [ledger.Share]). If that is less than its searches cost, they take turns: the
// searches that ran longest ago come first, and page one of each comes before page two of any. A
// search that got no page, or fewer than the job wants, is closed as "share": the run has done its
// work, and the watermark does not move, so that the next turn covers what this one left.
//
// A manual run is not limited to a share: the person who starts it has decided.

// Limit limits a new run to its budget share. A share that covers everything that the run wants
// changes nothing.
func (p *Plan) Limit(share outlier.Credits, own job.JobBudget) {
	if wanted := p.Wants(own); wanted == 0 || share >= wanted {
		return
	}
	p.Stored.SharePages = p.dealPages(share)
	p.Stored.Share = &share
	for i := range p.Steps {
		if step := &p.Steps[i]; step.Stop == "" && p.Stored.SharePages[i] == 0 {
			step.Stop, step.Left = StopShare, p.wantedPages(step.Query.Op())
		}
	}
}

// dealPages gives pages to steps in the order of their turns, one page each per round, as long as the
// share lasts. A scan is started only if the share also covers reading it.
func (p *Plan) dealPages(share outlier.Credits) map[int]int {
	dealt, order := map[int]int{}, p.orderTurns()
	for page := 0; ; page++ {
		given := false
		for _, i := range order {
			price, pages := p.priceOfTurn(i), p.wantedPages(p.Steps[i].Query.Op())
			if page < pages && dealt[i] == page && price <= share {
				share -= price
				dealt[i]++
				given = true
			}
		}
		if !given {
			return dealt
		}
	}
}

// wantedPages returns how many pages the job wants of a step; a scan counts as one.
func (p *Plan) wantedPages(op outlier.Operation) int {
	if op == outlier.OpTrendingFormats || op == outlier.OpStartScan {
		return 1
	}
	return p.Stored.Pages
}

// priceOfTurn returns the price of one turn of a step: a page, or a scan and all its pages,
// without the start if it is joined.
func (p *Plan) priceOfTurn(i int) outlier.Credits {
	step := &p.Steps[i]
	if step.Query.Op() != outlier.OpStartScan {
		return p.prices[i]
	}
	return p.Stored.PriceOfScan(p.facts.Prices, step.Ordinal)
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

// orderTurns returns the open steps, those searched longest ago or never first.
func (p *Plan) orderTurns() []int {
	var order []int
	for i := range p.Steps {
		if p.Steps[i].Stop == "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return p.facts.Searched[p.Steps[a].Watermark].Compare(p.facts.Searched[p.Steps[b].Watermark])
	})
	return order
}

// Round returns after how many runs each search has had its turn; 0 if there is no share.
func (p *Plan) Round() int {
	turns, all := 0, 0
	for i := range p.Steps {
		switch p.Steps[i].Stop {
		case "":
			turns++
			all++
		case StopShare:
			all++
		}
	}
	if p.Stored.Share == nil || turns == 0 {
		return 0
	}
	return (all + turns - 1) / turns
}
