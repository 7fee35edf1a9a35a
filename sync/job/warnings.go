package job

import (
	"cmp"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// warnRefreshAfter warns of a job of channels or videos that is due again before its refresh_after has passed: some of
// its runs find everything fresh and make no calls.
func warnRefreshAfter(c *Config, root *yamltree.Node) {
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		n := root.Get("jobs").Get(spec.Name).Get(string(spec.Verb)).Get("refresh_after")
		if len(spec.Fetch) == 0 || n == nil || n.Wrong {
			continue
		}
		between := c.ScheduledBy(spec).shortestInterval()
		if between > 0 && spec.Fetch[0].RefreshAfter > between {
			n.Warn("remove it to fetch everything in each run, or write at most "+FormatDuration(between),
				"%s is longer than the %s between two runs, so some runs have nothing to fetch",
				n.Shown(), FormatDuration(between))
		}
	}
}

// shortestInterval returns the shortest time between two due times of a job's own schedule, apart from clock
// changes; 0 if it has none. It examines a few hundred due times.
func (s *Spec) shortestInterval() (least time.Duration) {
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

// warnBudget warns if a budget cannot last, because even the cheapest runs of all jobs cost more than a day or
// a cycle allows.
func warnBudget(c *Config, root *yamltree.Node) {
	month, perDay := c.Budget.Scheduled(), c.Budget.PerDay
	if month == nil && perDay == nil {
		return
	}
	days := c.cheapestMonth()
	if perDay != nil {
		if dearest := slices.Max(days[:]); dearest > *perDay {
			root.Get("budget").Get("per_day").Warn("raise it, or let jobs run less often",
				"all jobs together cost at least %d credits on the busiest day, the budget is %d", dearest, *perDay)
		}
		for i := range days { // what exceeds the cap of a day is not spent on it
			days[i] = min(days[i], *perDay)
		}
	}
	if month == nil {
		return
	}
	var sum outlier.Credits
	last := 0
	for i, spent := range days {
		if sum += spent; sum > *month && last == 0 {
			last = i + 1
		}
	}
	if last > 0 {
		root.Get("budget").Get("per_month").Warn("raise it, or let jobs run less often",
			"all jobs together cost at least %d credits in a cycle of 31 days, the budget is %d: "+
				"it lasts until day %d", sum, *month, last)
	}
}

// cheapestMonth returns what the cheapest runs of all jobs cost on each day of the cycle of [MonthOf].
func (c *Config) cheapestMonth() (days [MonthDays]outlier.Credits) {
	calendar := MonthOf(c)
	for i := range c.Jobs {
		spec := &c.Jobs[i]
		price := spec.cheapest(c.Service.Prices)
		if spec.Auto || price == 0 {
			continue // it takes what the budget has, see [refuseShortAuto], or it is free
		}
		most := cmp.Or(spec.Budget.PerMonth, new(MaxCredits))
		runs, fresh := len(calendar.Dues(spec)), max(spec.ReuseFor, spec.SeedsFresh)
		for n, due := range calendar.Purchases(spec, runs, time.Time{}, fresh) {
			if outlier.Credits(n+1)*price <= *most {
				days[min(int(due.Sub(calendar.from)/day), MonthDays-1)] += price
			}
		}
	}
	return days
}

// knownTopics counts the combinations of for_each that are in the file. A list from elsewhere counts as one value.
func (s *Spec) knownTopics() int {
	n := 1
	for _, l := range s.Loops {
		n *= max(len(l.Source.Values), 1)
	}
	return n
}

// cheapest returns the minimum cost of a run of the job that finds anything to request: the sum over the
// combinations in the file, unless its cap ends it earlier.
func (s *Spec) cheapest(prices outlier.Prices) outlier.Credits {
	price := s.leastCost(prices) * outlier.Credits(s.knownTopics())
	if most := s.Budget.PerRun; most != nil {
		price = min(price, *most)
	}
	return price
}
