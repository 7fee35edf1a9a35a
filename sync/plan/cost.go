package plan

import (
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// # What a run may cost
//
// The commands plan, lint, budget and run, the confirmation of a run, its cap and its budget share
// all use one function for credits, [Plan.Buys], and one for free calls, [Plan.dataCalls]. A
// resumed run uses the same functions for what it has left, so that it never exceeds what it
// announced when it began.

// Cost is the worst case of a job in credits and requests.
type Cost struct {
	Credits  outlier.Credits `json:"credits"`  // if every answer arrives
	Lost     outlier.Credits `json:"cap"`      // if answers are lost and asked for again: the run's cap
	Requests int             `json:"requests"` // if every answer arrives
}

// LimitTo limits a cost to a cap, which buys a multiple of the smallest purchase. Requests are reduced in
// proportion, because data calls follow from the pages.
func (c *Cost) LimitTo(most, least outlier.Credits) {
	if most >= c.Credits {
		return
	}
	most -= most % max(least, 1)
	c.Requests = int(int64(c.Requests) * int64(most) / int64(c.Credits))
	c.Credits = most
}

// RoundToStep rounds an average to a multiple of the smallest purchase.
func RoundToStep(average float64, least outlier.Credits) outlier.Credits {
	least = max(least, 1)
	return outlier.Credits(math.Round(average/float64(least))) * least
}

// Spent is what a run has used of its own caps.
type Spent struct {
	Credits  outlier.Credits // charged, unknown and reserved
	Requests int
}

// Cost returns what a run that has spent something may still ask for, within its own cap. A scan
// that was paid for is read to its end, however many requests that takes.
func (p *Plan) Cost(own job.JobBudget, spent Spent) Cost {
	c, pages := p.Buys(p.Stored.CapFor(own) - spent.Credits)
	for i := range p.Steps {
		pages += p.Steps[i].Pages
	}
	c.Requests += p.dataCalls(pages)
	if most := p.Stored.MaxRequests; most > 0 && p.Stored.Scan == nil {
		c.Requests = min(c.Requests, max(0, most-spent.Requests))
	}
	return c
}

// Buys returns the most that the open steps ask for with room credits, and the number of pages.
func (p *Plan) Buys(room outlier.Credits) (c Cost, pages int) {
	items := p.items()
	c, pages = fitRoom(items, room)
	c.Lost = min(ifLost(items), max(0, room))
	return c, pages
}

// Wants returns the credits that the open steps cost within the run's own cap, if no answer is
// lost.
func (p *Plan) Wants(own job.JobBudget) outlier.Credits {
	c, _ := p.Buys(p.Stored.CapFor(own))
	return c.Credits
}

// Least returns the price in credits of the smallest purchase for an open step; 0 if the steps ask
// for nothing.
func (p *Plan) Least() (least outlier.Credits) {
	items := p.items()
	for i := range items {
		if price := items[i].least(); least == 0 || price < least {
			least = price
		}
	}
	return least
}

// dataCalls returns the maximum number of free calls of a run after the given number of pages:
// those of the job's earlier runs that are queued, and its own that are not queued yet.
func (p *Plan) dataCalls(pages int) int {
	n := p.facts.Queued
	for i := range p.Steps {
		if p.Steps[i].Stop == "" { // calls about the hits are queued once all searches have ended
			for _, call := range p.Stored.Enrich {
				n += call.Most(pages, len(p.Steps))
			}
			break
		}
	}
	for _, call := range p.Stored.Fetch {
		n += p.facts.Unasked[call.Op]
	}
	return n
}

// An item is what one open step asks for if every page is full.
type item struct {
	start outlier.Credits // of a scan that is not started yet; sent once
	polls int             // requests for a scan that are not pages
	whole bool            // all or nothing: a scan is started only if reading it fits as well
	price outlier.Credits // of a page
	pages int
}

func (i *item) credits() outlier.Credits { return i.start + outlier.Credits(i.pages)*i.price }

// least returns the price of the smallest part that can be bought.
func (i *item) least() outlier.Credits {
	if i.whole {
		return i.credits()
	}
	return i.price
}

// items returns what the open steps ask for, and for each endpoint one page that may be wasted on
// learning what `from` counts. These pages come last, so that they do not take the room of a scan,
// which is bought as a whole.
func (p *Plan) items() (all []item) {
	if p.Stored.Auto != nil {
		return p.autoItem()
	}
	var waste []item
	wasted := map[outlier.Operation]bool{}
	for i := range p.Steps {
		step := &p.Steps[i]
		if step.Stop != "" {
			continue
		}
		one := p.itemOf(i)
		all = append(all, one)
		if op := PagedBy(step.Query.Op()); one.pages > 0 && !wasted[op] && p.mayWaste(step) {
			wasted[op] = true
			waste = append(waste, item{price: one.price, pages: 1})
		}
	}
	return append(all, waste...)
}

// itemOf returns what an open step still asks for. A scan is counted as polled until its deadline.
func (p *Plan) itemOf(i int) item {
	step := &p.Steps[i]
	switch step.Query.Op() {
	case outlier.OpTrendingFormats:
		return item{price: p.prices[i], pages: max(0, 1-step.Next)}
	case outlier.OpStartScan:
		return item{
			start: p.priceOfStart(i), polls: 1 + countPolls(p.Stored.Scan), whole: !step.Paid,
			price: p.facts.Prices.Of(outlier.OpSearch, ""), pages: p.Stored.ReadPages(),
		}
	}
	return item{price: p.prices[i], pages: max(0, p.Stored.PagesOf(step.Ordinal)-step.Next)}
}

// priceOfStart returns the price of starting the scan of a step: 0 if it was paid for or is
// joined.
func (p *Plan) priceOfStart(i int) outlier.Credits {
	if _, joined := p.Stored.Joins[p.Steps[i].Ordinal]; joined || p.Steps[i].Paid {
		return 0
	}
	return p.prices[i]
}

// PagedBy returns the endpoint that a step gets its pages from. The results of a scan are read by
// a search.
func PagedBy(op outlier.Operation) outlier.Operation {
	if op == outlier.OpStartScan {
		return outlier.OpSearch
	}
	return op
}

// mayWaste reports whether a page of the step may be wasted on learning what `from` counts.
func (p *Plan) mayWaste(step *Step) bool {
	pages := p.Stored.PagesOf(step.Ordinal)
	if step.Query.Op() == outlier.OpStartScan {
		pages = p.Stored.ReadPages()
	}
	return step.Query.Op() != outlier.OpTrendingFormats && pages > 1 && step.Reading == "" &&
		p.facts.Paging[PagedBy(step.Query.Op())] == ""
}

// fitRoom returns what room credits buy of items, and the number of pages.
func fitRoom(items []item, room outlier.Credits) (c Cost, pages int) {
	left := max(0, room)
	for _, one := range items {
		if one.whole && one.credits() > left {
			continue
		}
		if !one.whole {
			one.pages = min(one.pages, int(left/max(1, one.price)))
		}
		left -= one.credits()
		c.Credits += one.credits()
		c.Requests += one.polls + one.pages
		pages += one.pages
	}
	return c, pages
}

// ifLost returns what items cost if each page is requested as often as a run retries.
func ifLost(items []item) (sum outlier.Credits) {
	for _, one := range items {
		sum = min(sum+one.start+outlier.Credits(one.pages)*one.price*Attempts, beyondCaps)
	}
	return sum
}

// beyondCaps is more than any cap allows. Worst cases are not counted beyond it, so that their sums do not overflow.
const beyondCaps = 1000 * job.MaxCredits

// PollPause returns how long to wait before a scan is polled again: twice as long each time,
// within the bounds of the job.
func PollPause(scan *job.Scan, polls int) time.Duration {
	pause := scan.PollMin
	for range min(polls, 20) {
		pause = min(2*pause, scan.PollMax)
	}
	return pause
}

// countPolls returns how often a scan is polled until its deadline.
func countPolls(scan *job.Scan) (n int) {
	for t := time.Duration(0); t < scan.Deadline; n++ {
		t += PollPause(scan, n)
	}
	return n
}

// LeftOf returns the maximum number of pages that an open step has left, and what they cost,
// including the start of a scan that was not started. A search without an end is limited to most
// credits.
func (p *Plan) LeftOf(i int, most outlier.Credits) (pages int, credits outlier.Credits) {
	one := p.itemOf(i)
	if p.Stored.Pages == job.AllPages && p.Steps[i].Query.Op() != outlier.OpStartScan {
		one.pages = min(one.pages, int(most/max(1, one.price)))
	}
	return one.pages, one.credits()
}

// Fits reports whether the next purchase of a step costs at most left credits, or was paid for or set
// aside before: held is what remains of the hold for reading its scan.
func (p *Plan) Fits(i int, left, held outlier.Credits) bool {
	step, one := &p.Steps[i], p.itemOf(i)
	return one.least() <= left || step.Paid && (step.Query.Op() == outlier.OpStartScan || one.price <= held)
}

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
