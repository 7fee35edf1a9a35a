package job

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// step is the price of the smallest thing that the job buys, and what that is: a page,
// or a scan together with all that is to be read of its results, for which a run sets
// the price aside before it starts one. Without paid requests it is 0.
func (s *Spec) step(prices outlier.Prices) (outlier.Credits, string) {
	price := s.least(prices)
	switch s.ask.Op {
	case outlier.OpSearch:
		return price, "a page of a search"
	case outlier.OpRelated:
		return price, "a page of a related search"
	case outlier.OpFindChannels, outlier.OpFindRelatedChannels:
		return price, "a page of channels"
	case outlier.OpTrendingFormats:
		return price, "a page of trending formats"
	case outlier.OpStartScan:
		pages := s.Scan.Pages(s.Pages)
		price += outlier.Credits(pages-1) * prices.Of(outlier.PageRequest(outlier.OpSearch, nil))
		if pages == 1 {
			return price, fmt.Sprintf("a %s scan with a page of its results", s.Scan.Mode)
		}
		return price, fmt.Sprintf("a %s scan with %d pages of its results", s.Scan.Mode, pages)
	}
	return 0, ""
}

// least is what the job pays at least once it buys anything: of a scan's results a
// page, which may turn out to be the only one.
func (s *Spec) least(prices outlier.Prices) outlier.Credits {
	if s.ask.Op != outlier.OpStartScan {
		return prices.Of(outlier.PageRequest(s.ask.Op, nil))
	}
	start := outlier.StartScanRequest(url.Values{"mode": {s.Scan.Mode}})
	return prices.Of(start) + prices.Of(outlier.PageRequest(outlier.OpSearch, nil))
}

// caps refuses amounts that contradict each other, and those that not even the
// smallest step fits into: such a job would never do anything.
func (b *builder) caps(spec *Spec, n *yamltree.Node) {
	all := b.root.Get("budget")
	month := b.cfg.Budget.PerMonth
	b.exceeds(n.Get("per_run"), spec.Budget.PerMonth, "the job's own per_month")
	b.exceeds(n.Get("per_run"), month, "the budget's per_month")
	b.exceeds(n.Get("per_month"), month, "the budget's per_month")
	price, what := spec.step(b.cfg.Service.Prices)
	for _, cap := range []*yamltree.Node{n.Get("per_run"), n.Get("per_month"), all.Get("per_day"), all.Get("per_month")} {
		b.holds(cap, price, 0, what)
	}
	if reserve := credits(all.Get("reserve")); reserve != nil {
		b.holds(all.Get("per_month"), price, *reserve, what)
	}
	if most := n.Get("max_requests"); spec.Scan != nil && most.Has(yamltree.Whole) && spec.Budget.MaxRequests < 3 {
		most.Refuse("must be at least 3 for a scan (start, poll, read), got %s", most.Shown())
	}
}

func (b *builder) exceeds(n *yamltree.Node, limit *outlier.Credits, name string) {
	if amount := credits(n); amount != nil && limit != nil && *amount > *limit {
		n.Refuse("must be at most %d, %s, got %s", *limit, name, n.Shown())
	}
}

func (b *builder) holds(n *yamltree.Node, price, reserve outlier.Credits, what string) {
	switch amount := credits(n); {
	case amount == nil || *amount-reserve >= price:
	case reserve > 0:
		n.Refuse("must be at least %s, the reserve and the price of %s, got %s", inCredits(reserve+price), what, n.Shown())
	default:
		n.Refuse("must be at least %s, the price of %s, got %s", inCredits(price), what, n.Shown())
	}
}

// unbounded refuses all pages without a cap for the run: nobody knows how many there
// are. The cap that it advises holds the smallest step and exceeds no other cap.
func (b *builder) unbounded(spec *Spec, job, verb *yamltree.Node) {
	budget := b.own(job, "budget")
	if spec.Pages != AllPages || budget.Get("per_run") != nil {
		return
	}
	price, _ := spec.step(b.cfg.Service.Prices)
	amount := outlier.Credits(20)
	for _, most := range []*outlier.Credits{spec.Budget.PerMonth, b.cfg.Budget.PerMonth} {
		if most != nil {
			amount = min(amount, *most)
		}
	}
	amount = max(amount, price) // a month that does not hold it is refused for that
	hint := fmt.Sprintf("add budget: {per_run: %d} to the job", amount)
	switch {
	case job.Get("budget") != nil:
		hint = fmt.Sprintf("add per_run: %d to the job's budget", amount)
	case budget != nil:
		hint += ", which then replaces that of defaults"
	}
	pages := cmp.Or(verb.Get("pages"), verb.Get("read").Get("pages"))
	pages.RefuseWithHint(hint, "\"all\" needs a budget for the run")
}

// budgeted refuses a file that may buy without a cap for the month. The cap that it
// advises is one that the jobs can live with.
func (b *builder) budgeted(n *yamltree.Node) {
	if !b.paid() || n.Get("per_month") != nil || n != nil && !n.Has(yamltree.Mapping) {
		return
	}
	month := outlier.Credits(400)
	for _, spec := range b.cfg.Jobs {
		price, _ := spec.step(b.cfg.Service.Prices)
		month = max(month, price)
		for _, most := range []*outlier.Credits{spec.Budget.PerRun, spec.Budget.PerMonth} {
			if most != nil {
				month = max(month, *most)
			}
		}
	}
	if reserve := b.cfg.Budget.Reserve; reserve != nil {
		month += *reserve
	}
	const why = "without a cap nothing is bought"
	if n == nil {
		b.root.Missing("budget", fmt.Sprintf("add budget: {per_month: %d}; %s", month, why))
		return
	}
	n.Missing("per_month", fmt.Sprintf("add per_month: %d; %s", month, why))
}

func inCredits(price outlier.Credits) string {
	if price == 1 {
		return "1 credit"
	}
	return fmt.Sprintf("%d credits", price)
}

// floor warns if a budget cannot last: if even the cheapest run of each job at each of its
// due times costs more than a day or a cycle allows. As the file does not know what day it
// is, the cycle from July to August stands for all: it has 31 days, whenever it begins.
func (b *builder) floor() {
	month, perDay := b.cfg.Budget.PerMonth, b.cfg.Budget.PerDay
	if month == nil && perDay == nil || len(b.file.Mistakes()) > 0 {
		return
	}
	f := forecast{prices: b.cfg.Service.Prices, zone: b.cfg.Timezone, dues: maxDues}
	f.begin = time.Date(2026, time.July, b.cfg.Budget.Renews, 0, 0, 0, 0, b.cfg.Timezone)
	for i := range b.cfg.Jobs {
		f.add(&b.cfg.Jobs[i], b.cfg)
	}
	if perDay != nil {
		if dearest := slices.Max(f.days[:]); dearest > *perDay {
			b.root.Get("budget").Get("per_day").Warn("raise it, or let jobs run less often",
				"all jobs together cost at least %d credits on the busiest day, the budget is %d", dearest, *perDay)
		}
		for i := range f.days { // what a day does not allow is not spent on it
			f.days[i] = min(f.days[i], *perDay)
		}
	}
	if month == nil {
		return
	}
	left := *month
	if b.cfg.Budget.Reserve != nil {
		left -= *b.cfg.Budget.Reserve
	}
	var sum outlier.Credits
	last := 0
	for i, spent := range f.days {
		if sum += spent; sum > left && last == 0 {
			last = i + 1
		}
	}
	if last > 0 {
		b.root.Get("budget").Get("per_month").Warn("raise it, or let jobs run less often",
			"all jobs together cost at least %d credits in a cycle of 31 days, the budget is %d: it lasts until day %d", sum, left, last)
	}
}

// forecast is what the cheapest runs cost on each day of a cycle.
type forecast struct {
	prices outlier.Prices
	zone   *time.Location
	begin  time.Time
	days   [31]outlier.Credits
	dues   int // how many more due times are looked at
}

// maxDues is more than a handful of jobs has that are due every minute. A file with
// still more of them costs more than is counted.
const maxDues = 200_000

// add counts the runs of a job: those of its own schedule, or of the job that all it
// comes after begins with.
func (f *forecast) add(spec *Spec, config *Config) {
	root := spec
	for root.After != "" && !root.Disabled {
		root = config.Job(root.After)
	}
	price := f.cheapest(spec)
	if price == 0 || spec.Disabled || root.Disabled {
		return
	}
	var bought time.Time
	var sum outlier.Credits
	fresh, most := max(spec.ReuseFor, spec.SeedsFresh), spec.Budget.PerMonth
	end := f.begin.AddDate(0, 0, len(f.days))
	for due := root.Next(f.begin.Add(-time.Second), f.zone); !due.IsZero() && due.Before(end) && f.dues > 0; due = root.Next(due, f.zone) {
		f.dues--
		if !bought.IsZero() && due.Sub(bought) < fresh {
			continue // the same again costs nothing
		}
		if sum += price; most != nil && sum > *most {
			return
		}
		bought = due
		f.days[min(int(due.Sub(f.begin)/day), len(f.days)-1)] += price
	}
}

// cheapest is the least that a run of the job costs if it finds anything to ask for:
// that of each combination of what the file says, unless its cap ends it before.
func (f *forecast) cheapest(spec *Spec) outlier.Credits {
	price := spec.least(f.prices)
	for _, l := range spec.Loops {
		price *= outlier.Credits(max(len(l.Source.Values), 1))
	}
	if most := spec.Budget.PerRun; most != nil {
		price = min(price, *most)
	}
	return price
}
