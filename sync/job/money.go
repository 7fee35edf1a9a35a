package job

import (
	"cmp"
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// checkCaps refuses amounts that contradict each other, and caps that the smallest step exceeds: such a job
// could never do anything.
func checkCaps(c *Config, root *yamltree.Node, spec *Spec, n *yamltree.Node) {
	all := root.Get("budget")
	month := c.Budget.PerMonth
	atMost(n.Get("per_run"), spec.Budget.PerMonth, "the job's own per_month")
	atMost(n.Get("per_run"), month, "the budget's per_month")
	atMost(n.Get("per_month"), month, "the budget's per_month")
	price, what := spec.smallestPurchase(c.Service.Prices)
	caps := []*yamltree.Node{n.Get("per_run"), n.Get("per_month"), all.Get("per_day"), all.Get("per_month")}
	for _, cap := range caps {
		atLeast(cap, price, 0, what)
	}
	if reserve := readCredits(all.Get("reserve")); reserve != nil {
		atLeast(all.Get("per_month"), price, *reserve, what)
	}
	if most := n.Get("max_requests"); spec.Scan != nil &&
		most.Has(yamltree.Whole) && spec.MaxRequests < 3 {
		most.Refuse("must be at least 3 for a scan (start, poll, read), got %s", most.Shown())
	}
}

// atMost refuses a cap above another one, whose name is for the message. A nil limit allows any amount.
func atMost(n *yamltree.Node, limit *outlier.Credits, name string) {
	if amount := readCredits(n); amount != nil && limit != nil && *amount > *limit {
		n.Refuse("must be at most %d, %s, got %s", *limit, name, n.Shown())
	}
}

// atLeast refuses a cap that leaves less than the price, in credits, besides the reserve.
func atLeast(n *yamltree.Node, price, reserve outlier.Credits, what string) {
	switch amount := readCredits(n); {
	case amount == nil || *amount-reserve >= price:
	case reserve > 0:
		n.Refuse("must be at least %s, the reserve and the price of %s, got %s",
			inCredits(reserve+price), what, n.Shown())
	default:
		n.Refuse("must be at least %s, the price of %s, got %s", inCredits(price), what, n.Shown())
	}
}

func inCredits(price outlier.Credits) string {
	if price == 1 {
		return "1 credit"
	}
	return fmt.Sprintf("%d credits", price)
}

// refuseUnbounded refuses `pages: all` without a cap for the run, because the number of pages is unknown.
func refuseUnbounded(spec *Spec, job, verb *yamltree.Node) {
	if spec.Pages == AllPages && job.Get("budget").Get("per_run") == nil {
		pages := cmp.Or(verb.Get("pages"), verb.Get("read").Get("pages"))
		pages.RefuseWithHint("add per_run to the job's budget", "\"all\" needs a budget for the run")
	}
}

// refuseUncapped refuses a file that may buy something without a cap for the month.
func refuseUncapped(c *Config, root, n *yamltree.Node) {
	const why = "; without a cap nothing is bought"
	switch {
	case !isPaid(c) || n.Get("per_month") != nil:
	case n == nil:
		root.Missing("budget", "add budget: {per_month: 400}"+why)
	case n.Has(yamltree.Mapping):
		n.Missing("per_month", "add per_month: 400"+why)
	}
}

// smallestPurchase returns the price of the smallest purchase of the job, and what that is: a page, or a scan with
// all the pages to read of its results, because a run holds their price before it starts the scan. It is
// 0 without paid requests.
func (s *Spec) smallestPurchase(prices outlier.Prices) (price outlier.Credits, what string) {
	if s.Scan == nil {
		return s.leastCost(prices), "a page of " + string(s.Verb)
	}
	start, reading := s.Scan.Price(prices, s.Pages)
	pages := "a page"
	if n := s.Scan.Pages(s.Pages); n > 1 {
		pages = fmt.Sprintf("%d pages", n)
	}
	return start + reading, fmt.Sprintf("a %s scan with %s of its results", s.Scan.Mode, pages)
}

// leastCost returns the minimum that the job pays once it buys anything. Of a scan's results that is one page,
// because there may be no more.
func (s *Spec) leastCost(prices outlier.Prices) outlier.Credits {
	if s.Scan == nil {
		return prices.Of(s.ask.Op, "")
	}
	start, reading := s.Scan.Price(prices, 1)
	return start + reading
}
