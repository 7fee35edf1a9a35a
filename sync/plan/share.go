package plan

import (
	"slices"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// # Spending evenly
//
// With `budget.pace: even` a scheduled run spends no more than its fair share of what
// is left of the cycle (see [ledger.Share]). If that is less than its searches cost,
// they take turns: those that were searched longest ago come first, page one of each
// before page two of any. What got no page, or fewer than the job wants, is closed as
// "share": the run did what it was meant to do, and the watermark stays where it is,
// so that the next turn covers what this one left.
//
// A run by hand takes no share: the person who starts it has decided.

// Limit limits a run that begins to its budget share. A share that is enough for all that the
// run wants changes nothing.
func (p *Plan) Limit(share outlier.Credits, own job.JobBudget) {
	if wanted := p.Wants(own); wanted == 0 || share >= wanted {
		return
	}
	p.Stored.SharePages = p.deal(share)
	p.Stored.Share = &share
	for i := range p.Steps {
		if step := &p.Steps[i]; step.Stop == "" && p.Stored.SharePages[i] == 0 {
			step.Stop, step.Left = StopShare, p.wantedPages(step.Query.Op())
		}
	}
}

// deal gives pages to steps in the order of their turns, one each and then another
// one, as long as the share lasts. A scan is started with all that reading it costs,
// or not at all.
func (p *Plan) deal(share outlier.Credits) map[int]int {
	dealt, order := map[int]int{}, p.turns()
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

// wantedPages is how many pages the job wants of a step; a scan is had as a whole.
func (p *Plan) wantedPages(op outlier.Operation) int {
	if op == outlier.OpTrendingFormats || op == outlier.OpStartScan {
		return 1
	}
	return p.Stored.Pages
}

// priceOfTurn is what a turn of a step costs: a page, or a scan, unless it is joined, and
// all that reading it costs.
func (p *Plan) priceOfTurn(i int) outlier.Credits {
	step := &p.Steps[i]
	if step.Query.Op() != outlier.OpStartScan {
		return p.prices[i]
	}
	return p.Stored.PriceOfScan(p.facts.Prices, step.Ordinal)
}

// PriceOfScan is what the scan of a step costs with all that reading it costs. A scan that is
// joined costs its reading alone.
func (f *Stored) PriceOfScan(prices outlier.Prices, ordinal int) outlier.Credits {
	start, reading := f.Scan.Price(prices, f.Pages)
	if _, joined := f.Joins[ordinal]; joined {
		return reading
	}
	return start + reading
}

// WholeOf is what a step costs from its beginning, whatever the budget share has for it: the
// price of a turn, and how many turns the job wants.
func (p *Plan) WholeOf(i int) (each outlier.Credits, turns int) {
	return p.priceOfTurn(i), p.wantedPages(p.Steps[i].Query.Op())
}

// turns are the open steps, those first that were searched longest ago or never.
func (p *Plan) turns() []int {
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

// Round is after how many runs each search has had its turn; 0 if there is no share.
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
