package job

import (
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// ages warns of a job of channels or videos that is due again before its refresh_after has passed: some of
// its runs find everything fresh and make no calls.
func (b *builder) ages() {
	if len(b.file.Mistakes()) > 0 {
		return // a schedule may be one of the mistakes
	}
	for i := range b.cfg.Jobs {
		spec := &b.cfg.Jobs[i]
		n := b.root.Get("jobs").Get(spec.Name).Get(string(spec.Verb)).Get("refresh_after")
		if len(spec.Fetch) == 0 || n == nil || n.Wrong {
			continue
		}
		between := b.cfg.root(spec).shortest()
		if between > 0 && spec.Fetch[0].RefreshAfter >= between {
			n.Warn("remove it to fetch everything in each run, or write less than "+Duration(between).String(),
				"%s is not shorter than the %s between two runs, so some runs have nothing to fetch",
				n.Shown(), Duration(between))
		}
	}
}

// root returns the job whose schedule decides when spec is due: spec, or the first job in its chain of
// `after`.
func (c *Config) root(spec *Spec) *Spec {
	for range c.Jobs { // a chain is no longer than the file
		parent := c.Job(spec.After)
		if parent == nil {
			break
		}
		spec = parent
	}
	return spec
}

// shortest returns the shortest time between two due times of a job's own schedule, apart from clock
// changes; 0 if it has none. It examines a few hundred due times.
func (s *Spec) shortest() (least time.Duration) {
	begin := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	last := s.Next(begin, time.UTC)
	for range 500 {
		next := s.Next(last, time.UTC)
		if last.IsZero() || next.IsZero() {
			break
		}
		if between := next.Sub(last); least == 0 || between < least {
			least = between
		}
		last = next
	}
	return least
}

// spread warns of a jitter that is limited by the time to the next run.
func (b *builder) spread() {
	if len(b.file.Mistakes()) > 0 {
		return // a schedule may be one of the mistakes
	}
	for i := range b.cfg.Jobs {
		spec := &b.cfg.Jobs[i]
		n := b.root.Get("jobs").Get(spec.Name).Get("jitter")
		if n == nil || spec.Jitter == 0 {
			continue
		}
		if between := spec.shortest(); between > 0 && spec.Jitter > between {
			n.Warn("write at most "+Duration(between).String(),
				"%s is longer than the %s between two runs; a run never starts later than the next one is due",
				n.Shown(), Duration(between))
		}
	}
}

// idle warns of keys that have no effect yet.
func (b *builder) idle() {
	keys := []*yamltree.Node{b.root.Get("daemon").Get("log")}
	if sinks := b.root.Get("sinks"); sinks.Has(yamltree.List) {
		for _, item := range sinks.Items {
			keys = append(keys, item.Get("compact"))
		}
	}
	for _, n := range keys {
		if n != nil && !n.Wrong {
			n.Head().Warn("", "has no effect yet")
		}
	}
}

// floor warns if a budget cannot last, because even the cheapest runs of all jobs cost more than a day or
// a cycle allows. Since the file does not depend on the date, it uses the cycle from July to August, which
// has 31 days whenever it begins.
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
		for i := range f.days { // what exceeds the cap of a day is not spent on it
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
			"all jobs together cost at least %d credits in a cycle of 31 days, the budget is %d: "+
				"it lasts until day %d", sum, left, last)
	}
}

// forecast is what the cheapest runs cost on each day of a cycle.
type forecast struct {
	prices outlier.Prices
	zone   *time.Location
	begin  time.Time
	days   [31]outlier.Credits
	dues   int // number of due times that may still be counted
}

// maxDues is more due times than a few jobs have that are due every minute. A file with more of them costs
// more than is counted.
const maxDues = 200_000

// add adds the runs of a job, which are due by its own schedule or that of the first job in its chain of
// `after`.
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
	next := func(after time.Time) time.Time { return root.Next(after, f.zone) }
	for due := next(f.begin.Add(-time.Second)); !due.IsZero() && due.Before(end) && f.dues > 0; due = next(due) {
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

// cheapest returns the minimum cost of a run of the job that finds anything to request: the sum over the
// combinations in the file, unless its cap ends it earlier.
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
