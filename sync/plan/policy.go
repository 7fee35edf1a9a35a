package plan

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// # Schedule auto
//
// The topics of the jobs with `schedule: auto` share what the cycle has left. The policy knows only their past
// searches. From these it estimates how many new hits a topic has in a day, how many of them a page would
// have after a wait, and the price of a page: the number of new hits, weighted by freshness, that a page must
// bring so that the credits last to the end of the cycle. It buys what is worth this price.
//
// How videos become hits is an assumption: 60% within about two days of their publication, the others after five days
// in the median. If this is wrong, the policy finds less, but never spends more. Of what a client could find that knows
// the future, it finds 75%, 79% and 87% with 200, 400 and 1,000 credits a month: medians of 100 worlds. Jobs with
// intervals and pages set for the true rates find 72%, 77% and 82%; two fixed days a week by z_score 27%, 39% and 67%.

const (
	freshDays  = 7.0  // days after which a new hit is worth half
	memoryDays = 14.0 // days after which what a search has shown counts half
	priorRate  = 3.0  // new hits a day of a topic while nothing is known
	reachDays  = 30.0 // how far back a search goes at most, and the first one always
	planned    = 8    // pages of a search that are planned
	minPrice   = 0.5  // new hits that a page must bring even if credits are left over
	sameTotal  = 6    // a large total that was seen this often is only what the service shows at most
)

// A Topic is a search about which the policy decides.
type Topic struct {
	Job     string
	Search  string  // its watermark
	Name    string  // for people
	AtLeast int     // days within which it is searched at least once
	Visits  []Visit // oldest first
}

// A Visit is one search of a topic, newest hits first.
type Visit struct {
	At     time.Time // of page one
	Since  time.Time // the beginning of its window
	Oldest time.Time // publication of the oldest hit of its pages; zero if they had no hit
	Pages  int       // those that cost something
	New    int       // hits that no search had found before
	Seen   int       // distinct hits
	Total  int64     // according to the service; -1 if unknown
	Whole  bool      // there were no more hits
}

// Funds are what topics may cost, in pages.
type Funds struct {
	Left  int       // until the cycle ends
	Today int       // at most today, in addition to what was bought
	Days  int       // until the cycle ends, including today
	Until time.Time // when the cycle ends
}

// A Market has the topics that share funds.
type Market struct {
	Topics []Topic
	Funds  Funds
}

// Auto is a day's decision. It is stored in the plan of a run.
type Auto struct {
	Price   float64       `json:"price"`            // new hits that a page must bring
	Room    int           `json:"room"`             // pages for today
	Most    int           `json:"most"`             // pages that the funds allow today
	Greet   int           `json:"greet"`            // topics without a search that are searched beyond Room
	Left    int           `json:"left"`             // pages until the cycle ends
	Days    int           `json:"days"`             // until the cycle ends
	Until   time.Time     `json:"until"`            // when the cycle ends
	Topics  int           `json:"topics"`           // that share the pages, including those of other jobs
	Choices []Choice      `json:"choices"`          // the due ones in the order in which they are bought, then the others
	Totals  map[int64]int `json:"totals,omitempty"` // how often large totals were seen
}

// A Choice is the decision about one topic.
type Choice struct {
	Job      string    `json:"job"`
	Search   string    `json:"search"`
	Name     string    `json:"name"`
	Rate     float64   `json:"rate"`     // new hits a day
	Expected float64   `json:"expected"` // new hits on its first page today
	Wait     float64   `json:"wait"`     // days since its last search; -1 if there was none
	Depth    float64   `json:"depth"`    // days before its last search that this one covered
	Every    int       `json:"every"`    // days between two searches at the day's price
	AtLeast  int       `json:"at_least"` // days within which it is searched whatever the price
	Cost     float64   `json:"cost"`     // pages a day, at the day's price
	Pages    int       `json:"pages"`    // expected, of a search
	Since    time.Time `json:"since"`    // the beginning of its window
	Due      string    `json:"due"`      // why it is searched; "" if it waits
	Ahead    int       `json:"ahead"`    // pages of other jobs' topics that come before it
}

// Reasons for which a topic is due.
const (
	DueNew     = "new"     // it was never searched
	DuePromise = "promise" // its at_least ends today
	DueEvery   = "every"   // it brings what a page must bring
)

// Decide returns what to search on the day of now. The same market gives the same decision.
func (m *Market) Decide(now time.Time, zone *time.Location) *Auto {
	topics, funds := m.Topics, m.Funds
	known := learnVisits(topics, now)
	a := &Auto{Left: funds.Left, Days: max(1, funds.Days), Until: funds.Until, Topics: len(topics), Totals: known.totals}
	today := pagesOn(topics, now, zone)
	a.Room = int(math.Floor(float64(funds.Left+today)/float64(a.Days)+0.5)) - today
	a.Most = min(funds.Left, funds.Today)
	a.Room, a.Greet = max(0, min(a.Room, a.Most)), a.Most/3
	rates := known.rates()
	options, price := chooseOptions(topics, rates, float64(funds.Left)/float64(a.Days))
	a.Price = price
	for i, t := range topics {
		c := Choice{Job: t.Job, Search: t.Search, Name: t.Name, AtLeast: t.AtLeast, Rate: rates[i],
			Every: options[i].every, Cost: options[i].cost}
		c.Since = known.windowOf(known.topics[i], rates[i], options[i].pages, now, zone)
		c.judge(known.topics[i], now)
		c.Pages = c.expectPages(cmp.Or(known.topics[i].density, c.Rate), now, price)
		a.Choices = append(a.Choices, c)
	}
	rank := map[string]int{DueNew: 0, DuePromise: 0, DueEvery: 1, "": 2}
	slices.SortStableFunc(a.Choices, func(x, y Choice) int {
		return cmp.Or(rank[x.Due]-rank[y.Due], cmp.Compare(y.worth(), x.worth()))
	})
	return a
}

// judge sets whether a topic is due, and what its first page is expected to bring.
func (c *Choice) judge(b belief, now time.Time) {
	c.Wait, c.Depth, c.Due = -1, b.depth, DueNew
	if !b.last.IsZero() {
		switch c.Wait = days(now.Sub(b.last)); {
		case c.Wait >= float64(c.AtLeast)-0.5:
			c.Due = DuePromise
		case c.Wait >= float64(c.Every)-0.5:
			c.Due = DueEvery
		default:
			c.Due = ""
		}
	}
	reach := min(reachDays, arrivals().ageOf(outlier.MaxSize/c.Rate))
	c.Expected = c.Rate * (arrivals().mass(reach) - arrivals().mass(min(reach-c.waited(), c.Depth)))
	c.Expected = math.Round(c.Expected*1e6) / 1e6 // full pages are equal, and come in the order of the topics
}

// waited returns the days since the last search, and a long time if there was none.
func (c *Choice) waited() float64 {
	const long = 60
	if c.Wait < 0 {
		return long
	}
	return min(c.Wait, long)
}

// worth returns the expected new hits weighted by freshness: they have waited for half of the time.
func (c *Choice) worth() float64 { return c.Expected * fade(c.waited()/2, freshDays) }

// Buys returns the maximum number of pages of the choice at place i, given the pages that earlier choices have
// taken; 0 if the day has none left for it.
func (a *Auto) Buys(i int, taken func(int) int) int {
	c, room, greet := a.Choices[i], a.Room-a.Choices[i].Ahead, a.Greet
	most := a.Most - c.Ahead
	for k, before := range a.Choices[:i] {
		room, most = room-taken(k), most-taken(k)
		if before.Due == DueNew && taken(k) > 0 {
			greet--
		}
	}
	if room < 1 && (c.Due != DueNew || greet < 1) {
		return 0
	}
	return max(0, min(max(1, room), most, job.AutoPages))
}

// NextPage returns what the next page of a search is worth: the new hits that it is expected to have, weighted by
// freshness. seen counts how often the search's total was seen, itself included.
func (c *Choice) NextPage(v *Visit, seen int) float64 {
	rest := float64(outlier.MaxSize)
	if believable(v.Total, seen) {
		rest = min(rest, float64(v.Total)-rest*float64(v.Pages))
	}
	if rest <= 0 {
		return 0
	}
	reached, sum := v.reached(), 0.0
	for _, part := range []float64{1. / 6, 1. / 2, 5. / 6} { // of the way to the end of the next page
		age := reached + reached/float64(v.Pages)*part
		if c.Wait < 0 {
			sum += fade(max(0, age-3)/2, freshDays)
			continue
		}
		before := 0.0
		if age-c.Wait < c.Depth {
			before = arrivals().share(age - c.Wait)
		}
		sum += (1 - before/max(arrivals().share(age), 1e-9)) * fade(c.Wait/2, freshDays)
	}
	return rest * sum / 3
}

// reached returns how many days back the pages of a visit went.
func (v *Visit) reached() float64 {
	if v.Oldest.IsZero() {
		return 0
	}
	return days(v.At.Sub(later(v.Oldest, v.Since)))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// expectPages returns how many pages of a search are worth their price if its hits are as expected.
func (c *Choice) expectPages(density float64, now time.Time, price float64) int {
	v := Visit{At: now, Since: c.Since, Total: int64(math.Round(density * arrivals().mass(days(now.Sub(c.Since)))))}
	for v.Pages = 1; v.Pages < job.AutoPages; v.Pages++ {
		back := arrivals().ageOf(float64(outlier.MaxSize*v.Pages) / density)
		v.Oldest = now.Add(-time.Duration(back * 24 * float64(time.Hour)))
		if c.NextPage(&v, 0) < price {
			break
		}
	}
	return v.Pages
}

// beliefs are what the past searches have shown.
type beliefs struct {
	topics []belief
	totals map[int64]int
}

type belief struct {
	found, exposure float64 // new hits, and the days of arrivals among which they were found
	last            time.Time
	depth           float64 // days that the last visit reached back
	density         float64 // of the hits in its window, in arrivals a day; 0 if unknown
}

// learnVisits adds up the visits of all topics, in the order of time.
func learnVisits(topics []Topic, now time.Time) *beliefs {
	type visit struct {
		topic int
		Visit
	}
	var all []visit
	for i, t := range topics {
		for _, v := range t.Visits {
			if v.At.After(now) {
				v.At = now // by a wrong clock
			}
			all = append(all, visit{i, v})
		}
	}
	slices.SortStableFunc(all, func(a, b visit) int { return a.At.Compare(b.At) })
	b := &beliefs{make([]belief, len(topics)), map[int64]int{}}
	for _, v := range all {
		if v.Total >= 2*outlier.MaxSize {
			b.totals[v.Total]++
		}
		b.topics[v.topic].learn(&v.Visit, b.totals[v.Total])
	}
	return b
}

// learn adds a visit. Its exposure are the arrivals that it could find and the visit before it could not.
func (b *belief) learn(v *Visit, seen int) {
	window, reached := days(v.At.Sub(v.Since)), v.reached()
	if v.Whole {
		reached = window
	}
	m := arrivals().mass
	switch {
	case !b.last.IsZero():
		wait := days(v.At.Sub(b.last))
		old := fade(wait, memoryDays)
		b.found = b.found*old + float64(v.New)
		b.exposure = b.exposure*old + m(reached) - m(min(reached-wait, b.depth))
	case believable(v.Total, seen) && !v.Whole:
		b.found, b.exposure = float64(v.Total), m(window)
	default:
		b.found, b.exposure = float64(v.Seen), m(reached)
	}
	b.last, b.depth, b.density = v.At, reached, 0
	if believable(v.Total, seen) {
		b.density = float64(v.Total) / max(m(window), 1e-9)
	}
}

// believable reports whether a total counts the hits: it is known, and not the most that the service shows.
func believable(total int64, seen int) bool {
	return total >= 0 && total < 10_000 && (total < 2*outlier.MaxSize || seen < sameTotal)
}

// rates returns the new hits a day of each topic. What little is known of one is completed by the others.
func (b *beliefs) rates() []float64 {
	sum, n := math.Log(priorRate), 1.0
	for _, t := range b.topics {
		if t.exposure > 0 {
			sum += math.Log((t.found + 1) / (t.exposure + 1/priorRate))
			n++
		}
	}
	mean := math.Exp(sum / n)
	rates := make([]float64, len(b.topics))
	for i, t := range b.topics {
		rates[i] = (t.found + 1) / (t.exposure + 1/mean)
	}
	return rates
}

// windowOf returns the midnight from which a search goes, so that the given number of pages covers it. If the
// service shows only so many hits, a wider window would hide new ones.
func (b *beliefs) windowOf(t belief, rate float64, pages int, now time.Time, zone *time.Location) time.Time {
	back := reachDays
	if !t.last.IsZero() {
		back = min(reachDays, arrivals().ageOf(outlier.MaxSize*float64(pages)/rate)+0.5)
		shown := int64(0)
		for total, seen := range b.totals {
			if seen >= sameTotal {
				shown = max(shown, total)
			}
		}
		if shown > 0 {
			back = min(back, max(days(now.Sub(t.last))+0.5, arrivals().ageOf(0.8*float64(shown)/rate)))
		}
	}
	year, month, day := now.Add(-time.Duration(back * 24 * float64(time.Hour))).In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, zone)
}

// pagesOn returns the pages that were bought on the day of now.
func pagesOn(topics []Topic, now time.Time, zone *time.Location) (pages int) {
	year, month, day := now.In(zone).Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, zone)
	for _, t := range topics {
		for _, v := range t.Visits {
			if !v.At.Before(midnight) {
				pages += v.Pages
			}
		}
	}
	return pages
}

// An option is to search a topic every so many days, for so many pages.
type option struct {
	every, pages int
	value, cost  float64 // new hits weighted by freshness, and pages, in a day
}

// chooseOptions returns the best option for each topic at the lowest price at which all of them together cost
// at most perDay pages.
func chooseOptions(topics []Topic, rates []float64, perDay float64) ([]option, float64) {
	all := make([][]option, len(topics))
	for i := range topics {
		all[i] = optionsOf(rates[i], topics[i].AtLeast)
	}
	at := func(price float64) (best []option, cost float64) {
		for _, options := range all {
			o := slices.MaxFunc(options, func(a, b option) int {
				return cmp.Compare(a.value-price*a.cost, b.value-price*b.cost)
			})
			best, cost = append(best, o), cost+o.cost
		}
		return best, cost
	}
	low, high := minPrice, float64(outlier.MaxSize)
	if _, cost := at(low); cost <= perDay {
		high = low
	}
	for high-low > 1e-6 {
		middle := (low + high) / 2
		if _, cost := at(middle); cost > perDay {
			low = middle
		} else {
			high = middle
		}
	}
	best, _ := at(high)
	return best, high
}

// optionsOf returns the options for a topic with the given rate.
func optionsOf(rate float64, atLeast int) (all []option) {
	c := arrivals()
	whole := max(1, int(math.Ceil(rate*c.mass(reachDays)/outlier.MaxSize)))
	for pages := 1; pages <= min(planned, whole); pages++ {
		reach := min(reachDays, c.ageOf(float64(outlier.MaxSize*pages)/rate))
		for every := 1; every <= max(1, atLeast); every++ {
			T := float64(every)
			x := math.Ln2 * T / freshDays
			found := rate * (c.mass(reach) - c.mass(reach-T))
			all = append(all, option{every, pages, found / T * (1 - math.Exp(-x)) / x, float64(pages) / T})
		}
	}
	return all
}

func fade(age, half float64) float64 { return math.Pow(2, -age/half) }

func days(d time.Duration) float64 { return d.Hours() / 24 }

// A curve says how videos become hits after they are published: the part of them that are hits at an age in
// days, and its integral, so that a topic has rate × mass(age) hits younger than age.
type curve struct{ ages, shares, masses []float64 }

var arrivals = sync.OnceValue(func() *curve {
	const step, late, median = 0.25, 0.4, 5.0
	c := &curve{}
	for i := range 480 {
		age, share, mass := float64(i)*step, 0.0, 0.0
		if i > 0 {
			slow := 0.5 * (1 + math.Erf(math.Log(age/median)/0.8/math.Sqrt2))
			share = (1-late)*(1-math.Exp(-age/0.8)) + late*slow
			mass = c.masses[i-1] + (share+c.shares[i-1])/2*step
		}
		c.ages, c.shares, c.masses = append(c.ages, age), append(c.shares, share), append(c.masses, mass)
	}
	return c
})

func (c *curve) share(age float64) float64 { return interpolate(age, c.ages, c.shares) }
func (c *curve) mass(age float64) float64  { return interpolate(age, c.ages, c.masses) }

// ageOf returns the age with the given mass.
func (c *curve) ageOf(mass float64) float64 { return interpolate(mass, c.masses, c.ages) }

// interpolate returns the value at x of the line through the points (xs, ys); xs ascend.
func interpolate(x float64, xs, ys []float64) float64 {
	i, found := slices.BinarySearch(xs, x)
	switch {
	case found || i == 0:
		return ys[i]
	case i == len(xs):
		return ys[i-1]
	}
	return (ys[i]-ys[i-1])/(xs[i]-xs[i-1])*(x-xs[i-1]) + ys[i-1]
}
