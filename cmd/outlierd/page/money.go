package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/plan"
)

// Money is what credits were spent on in the billing cycle, and how long they last.
type Money struct {
	At         time.Time // the service's time
	In         report.Style
	Cycle      *Cycle // nil without a cap of the cycle
	Month, Day facts.CapBalance
	Forecast   forecast.Forecast
	Days       []Spending
	Yields     []Yield
	Rests      []Rest
	Entries    []Entry // unusual entries of the ledger
	SQL        string  // of the yields
}

// autoTopic is what `schedule: auto` decides next about a topic.
type autoTopic struct {
	plan.Choice
	Take int // expected pages
}

// Cycle is the billing cycle.
type Cycle struct {
	From, To, Now time.Time
	Max, Left     int64 // credits
}

// Even returns the number of credits that would be left now with even spending.
func (c *Cycle) Even() int64 {
	gone := float64(c.Now.Sub(c.From)) / float64(c.To.Sub(c.From))
	return c.Max - int64(float64(c.Max)*gone)
}

// Spending is what the jobs spent on a day.
type Spending struct {
	Day   time.Time
	Jobs  []string
	Spent []int64 // by these jobs
}

// Yield is what a search found for its credits in the cycle.
type Yield struct {
	Topic, Job   string
	Credits, New int64
	Hits, IDs    int64     // on its pages
	Shared       int64     // of IDs, what other searches found, too
	Shares       []float64 // of new hits in its last runs, the oldest first
}

// Rest is what a search counts beyond the pages that were read.
type Rest struct {
	Topic, Job, Run string
	Seen, Total     int64
	Pages           *int64 // nil if it is not known
}

// Entry is an entry of the ledger.
type Entry struct {
	At                 time.Time
	Job, What, Outcome string
	Credits            *int64
}

// Limits of the page of money.
const (
	maxRests   = 20
	maxEntries = 15
)

// AddMoney adds what the tables know of a billing cycle.
func (t *Tables) AddMoney(ctx context.Context, m *Money, from time.Time) error {
	cycle := from.Format(time.DateOnly)
	m.SQL = query.YieldsPlainly
	return t.read(ctx,
		t.each(query.SpentByDay(cycle), func(row cells) {
			var date, name string
			var credits int64
			row.into(&date, &name, &credits)
			day, err := time.ParseInLocation(time.DateOnly, date, t.Zone)
			if err != nil {
				return // no day of ours
			}
			if n := len(m.Days); n == 0 || !m.Days[n-1].Day.Equal(day) {
				m.Days = append(m.Days, Spending{Day: day})
			}
			d := &m.Days[len(m.Days)-1]
			d.Jobs, d.Spent = append(d.Jobs, job.Shown(name)), append(d.Spent, credits)
		}),
		rows(t, query.Yields(from.Format(time.RFC3339)), &m.Yields, func(y *Yield) { y.Job = job.Shown(y.Job) }),
		rows(t, query.Rests(maxRests), &m.Rests, func(r *Rest) { r.Job = job.Shown(r.Job) }),
		rows(t, query.Unusual(cycle, maxEntries), &m.Entries, func(e *Entry) { e.Job = job.Shown(e.Job) }),
	)
}

// PerNew returns the credits for a new outlier; 0 without one.
func (y Yield) PerNew() float64 {
	return float64(y.Credits) / float64(max(1, y.New)) * min(1, float64(y.New))
}

// The rule of the verdict, in the words of [Money.Rule].
const (
	exhausted = .03 // below this share of new hits in the last three runs
	thin      = .10
	doubled   = .40 // above this share of hits that other searches find, too
)

// Verdict says what a search is worth, with its level.
func (y Yield) Verdict() (text, level string) {
	last := y.Shares[max(0, len(y.Shares)-3):]
	if len(last) == 0 {
		return "not known yet", ""
	}
	share := slices.Max(last)
	switch {
	case len(last) == 3 && share < exhausted:
		return "exhausted", "bad"
	case y.IDs > 0 && float64(y.Shared)/float64(y.IDs) > doubled:
		return "others find it, too", "warn"
	case len(last) == 3 && share < thin:
		return "little is new", "warn"
	case share < thin:
		return "not known yet", ""
	}
	return "worth it", "ok"
}

// Says and Level are the verdict.
func (y Yield) Says() string  { text, _ := y.Verdict(); return text }
func (y Yield) Level() string { _, level := y.Verdict(); return level }

// Trend returns the shares of new hits as small columns.
func (y Yield) Trend() []rect { return sparkColumns(y.Shares, func(int) string { return "k1" }) }

// Others returns the share of hits that other searches found, too.
func (y Yield) Others() string {
	if y.IDs == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(y.Shared)/float64(y.IDs))
}

// serveMoney shows what credits were spent on.
func (s *Site) serveMoney(w http.ResponseWriter, r *http.Request) error {
	m, err := readTables(s, "money", s.from.Money)
	if err != nil {
		return err
	}
	return s.render.show(w, r, view{"money.html", m.title(), "Money", m})
}

func (v *Money) title() string {
	if v.Cycle == nil {
		return formatCount(v.Month.Held, "credit") + " spent in this cycle"
	}
	days := int(v.Cycle.To.Sub(v.At).Hours()/24) + 1
	return fmt.Sprintf("%s left, %s to go", formatCount(v.Cycle.Left, "credit"), formatCount(max(0, days), "day"))
}

// Summary says whether the credits last, and for how many pages at a price.
func (v *Money) Summary(page outlier.Credits) string {
	wanted := v.Forecast.Cycle.Wanted
	text := fmt.Sprintf("The scheduled runs need about %s until the cycle ends.", formatCount(wanted, "credit"))
	if v.Cycle == nil {
		return text
	}
	if left := outlier.Credits(v.Cycle.Left) - wanted; left < 0 {
		return text + fmt.Sprintf(" %s are missing.", formatCount(-left, "credit"))
	} else if pages := left / max(1, page); pages > 0 {
		return text + fmt.Sprintf(" Enough remains for %s.", formatCount(pages, "page"))
	}
	return text
}

// Rule prints the rule of the verdict.
func (v *Money) Rule() string {
	return fmt.Sprintf("Exhausted: less than %.0f %% of the hits were new in each of the last three runs; "+
		"little is new: less than %.0f %%; others find it, too: more than %.0f %% of its videos.", 100*exhausted, 100*thin, 100*doubled)
}

// Auto are the topics of `schedule: auto`, in the order in which they are bought.
func (v *Money) Auto() (all []autoTopic) {
	for i := range v.Forecast.Jobs {
		if a := v.Forecast.Jobs[i].Auto; a != nil {
			for k, pages := range a.Expected() {
				all = append(all, autoTopic{a.Choices[k], pages})
			}
		}
	}
	return all
}

// Next says when a job is due next.
func (v *Money) Next(j forecast.Job) string {
	switch {
	case j.Disabled:
		return "disabled"
	case j.Paused != nil:
		return "paused"
	case j.After != "":
		return "after " + j.After
	case len(j.Due) > 0:
		return v.In.Short(j.Due[0], v.Forecast.At)
	}
	return "by hand"
}

// Stats are the numbers at the head.
func (v *Money) Stats() []Stat {
	var credits, found int64
	for _, y := range v.Yields {
		credits, found = credits+y.Credits, found+y.New
	}
	spent := Stat{Name: "Spent", Value: formatThousands(v.Month.Held)}
	if lost := v.Month.Unknown; lost > 0 {
		spent.More = formatThousands(lost) + " of them for lost answers"
	}
	all := []Stat{spent}
	if c := v.Cycle; c != nil {
		all[0].Unit = "of " + formatThousands(c.Max)
		even := Stat{Name: "Even spending", Value: formatThousands(c.Even()), Unit: "left by now"}
		if over := c.Left - c.Even(); over >= 0 {
			even.More = "you are " + formatThousands(over) + " above it"
		} else {
			even.More = "you are " + formatThousands(-over) + " below it"
		}
		all = append(all, even, Stat{Name: "On " + c.To.Format("2 January"), Value: "≈ " + formatThousands(c.Left-int64(v.Forecast.Cycle.Wanted)), Unit: "left"})
	}
	per := Stat{Name: "Price of a new outlier", Value: "–"}
	if found > 0 {
		per.Value, per.Unit, per.More = fmt.Sprintf("%.2f", float64(credits)/float64(found)), "credits", formatCount(found, "new one")
	}
	today := Stat{Name: "Today", Value: formatThousands(v.Day.Held)}
	if most := v.Day.Max; most != nil {
		today.Unit, today.Meter, today.More = "of "+formatThousands(*most), &Meter{Used: int64(v.Day.Held), Of: int64(*most)}, "cap per day"
	}
	return append(all, per, today)
}

// dailyLeft returns the credits left at the beginning of each day, by what the jobs spent, and now.
func (v *Money) dailyLeft() (all []Point) {
	left, days := v.Cycle.Max, v.Days
	for day := v.Cycle.From; day.Before(v.Cycle.Now); day = day.AddDate(0, 0, 1) {
		all = append(all, Point{day, max(0, left)})
		for ; len(days) > 0 && !days[0].Day.After(day); days = days[1:] {
			for _, credits := range days[0].Spent {
				left -= credits
			}
		}
	}
	return append(all, Point{v.Cycle.Now, v.Cycle.Left})
}

// Left plots the credits left against even spending, and what the schedule will need.
func (v *Money) Left() *plot {
	c := v.Cycle
	if c == nil {
		return nil
	}
	p := &plot{scale: upTo(float64(c.Max)), from: c.From, to: c.To,
		Says: fmt.Sprintf("Credits left: %s at first, %s now", formatThousands(c.Max), formatThousands(c.Left))}
	p.Y = p.scale.ticks()
	p.labelDays()
	left := v.dailyLeft()
	now := left[len(left)-1]
	p.drawLine("line even", false, []Point{{c.From, c.Max}, {c.To, 0}})
	p.drawLine("line", true, left)
	p.drawLine("line next", false, []Point{now, {c.To, max(0, now.N-int64(v.Forecast.Cycle.Wanted))}})
	at := p.placeOf(now.At)
	p.Notes = append(p.Notes, note{formatPercent(min(at, 98) - 1), p.scale.yOf(float64(now.N)), formatThousands(now.N) + " left", at > 20, true})
	p.Head = []string{"At", "Credits left"}
	for _, point := range slices.Backward(left) {
		p.Rows = append(p.Rows, []string{point.At.Format("2006-01-02 15:04"), formatThousands(point.N)})
	}
	return p
}

// maxJobs is the number of colours for jobs in a chart; the last one is for all others.
const maxJobs = 4

// jobs returns the jobs that spent most, and one name for the others.
func (v *Money) jobs() (names []string) {
	sums := map[string]int64{}
	for _, d := range v.Days {
		for i, job := range d.Jobs {
			sums[job] += d.Spent[i]
		}
	}
	for job := range sums {
		names = append(names, job)
	}
	slices.SortFunc(names, func(a, b string) int {
		if sums[a] != sums[b] {
			return int(sums[b] - sums[a])
		}
		return strings.Compare(a, b)
	})
	if len(names) > maxJobs {
		names = append(names[:maxJobs-1], "others")
	}
	return names
}

// Legend names the colours of the jobs.
func (v *Money) Legend() (all []choice) {
	for i, name := range v.jobs() {
		all = append(all, choice{fmt.Sprint("k", i+1), name})
	}
	return all
}

// Daily plots what the jobs spent per day.
func (v *Money) Daily() *plot {
	if len(v.Days) == 0 {
		return nil
	}
	names := v.jobs()
	var columns []column
	for _, d := range v.Days {
		c := column{at: d.Day, row: []string{formatDay(d.Day)}, parts: make([]part, len(names))}
		sum := int64(0)
		for i := range names {
			c.parts[i].class = fmt.Sprint("k", i+1)
		}
		for i, job := range d.Jobs {
			at := slices.Index(names, job)
			if at < 0 {
				at = len(names) - 1
			}
			c.parts[at].n += float64(d.Spent[i])
			sum += d.Spent[i]
		}
		for _, part := range c.parts {
			c.row = append(c.row, formatThousands(int64(part.n)))
		}
		c.title = d.Day.Format("2 Jan") + ": " + formatCount(sum, "credit")
		columns = append(columns, c)
	}
	p := plotColumns("Credits per day by job", "2 Jan", append([]string{"Day"}, names...), columns)
	p.Low = true
	return p
}

// Dearest is the highest price of a new outlier.
func (v *Money) Dearest() (most float64) {
	for _, y := range v.Yields {
		most = max(most, y.PerNew())
	}
	return most
}

// Part returns the length of a price.
func (v *Money) Part(y Yield) string {
	return formatPercent(100 * y.PerNew() / max(v.Dearest(), 1e-9))
}

// Question is the query of the yields as a link.
func (v *Money) Question() string { return Question{SQL: v.SQL}.Address() }
