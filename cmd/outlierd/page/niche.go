package page

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/internal/figures"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// Niche is what is known about a topic.
type Niche struct {
	Topic  string
	Topics []Option // all of them, with their outliers of this week
	Job    string   // that searches for it

	Outliers, Channels, NewChannels int64
	Weeks                           []Week   // the last ones, the oldest first
	Typical, Before                 *float64 // median strength of this week, and of all weeks
	Credits, New                    int64    // of the last month

	Seen, Total *int64    // hits read of hits counted by the service
	Pages       *int64    // left
	Run         string    // the last one of the search
	Shares      []float64 // of new hits, run by run

	Strongest []Card // of this week
	Words     []Word
	Shapes    []Shape
	Others    int64 // uploads that words and shapes are compared with
	Leaders   []Leader
}

// Week counts the outliers that were new in a week, by strength.
type Week struct {
	From  time.Time
	Count [len(limits) + 1]int64
}

// Word is a word of titles.
type Word struct {
	Word      string
	Titles    int64
	Lift      float64 // how much more often than in other uploads of the same channels
	Median    *float64
	Strongest string // title
}

// Shape is a property of titles.
type Shape struct {
	Name          string
	Share, Others float64
}

// Lift returns how much more often outliers have it.
func (s Shape) Lift() float64 { return s.Share / max(s.Others, 1e-9) }

// Leader is a channel with its outliers by strength.
type Leader struct {
	ID, Title   string
	Subscribers *int64
	Best        *float64
	Week        int64 // new this week
	Count       [len(limits) + 1]int64
}

// All returns the number of outliers.
func (l Leader) All() (n int64) { return sumCounts(l.Count) }

func sumCounts(counts [len(limits) + 1]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Limits of the page of niches.
const (
	maxNiches  = 50
	maxWeeks   = 16
	maxLeaders = 8
	moreWords  = 8
	lessWords  = 4
)

// Niche returns the data of a topic, or of the one with most news.
func (t *Tables) Niche(ctx context.Context, topic string) (*Niche, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	n := &Niche{Topic: topic}
	var newest time.Time
	if err := t.read(ctx, rows(t, query.Niches(maxNiches), &n.Topics),
		t.each("SELECT max(last_seen_at) FROM outliers", func(row cells) { row.into(&newest) })); err != nil {
		return nil, err
	}
	if len(n.Topics) == 0 {
		return &Niche{}, nil
	}
	if n.Topic == "" {
		n.Topic = n.Topics[0].Value
	}
	of := query.NicheOf(n.Topic)
	strongest := query.Outliers{Week: true, Chosen: map[string][]string{"topic": {n.Topic}}, Limit: maxAlike}
	err = t.read(ctx,
		t.each(of.Sums(), func(row cells) {
			row.into(&n.Outliers, &n.Channels, &n.NewChannels, &n.Typical, &n.Before)
		}),
		t.each(of.Weeks(maxWeeks), func(row cells) {
			var ago int64
			var w Week
			for row.into(&ago, &w.Count); int64(len(n.Weeks)) <= ago; {
				n.Weeks = append(n.Weeks, Week{From: newest.AddDate(0, 0, -7*(len(n.Weeks)+1))})
			}
			n.Weeks[ago].Count = w.Count
		}),
		rows(t, of.Leaders(maxLeaders), &n.Leaders),
		rows(t, of.Words(moreWords, lessWords), &n.Words),
		t.each(of.Shapes(), func(row cells) {
			var s Shape
			row.into(&s.Name, &s.Share, &s.Others, &n.Others)
			n.Shapes = append(n.Shapes, s)
		}),
		t.each(of.Coverage(), func(row cells) {
			row.into(&n.Job, &n.Run, &n.Seen, &n.Total, &n.Pages)
			n.Job = job.Shown(n.Job)
		}),
		t.each(of.Shares(maxWeeks), func(row cells) {
			var share float64
			row.into(&share)
			n.Shares = append(n.Shares, share)
		}),
		t.each(of.Spent(newest.AddDate(0, -1, 0).Format(time.RFC3339)), func(row cells) { row.into(&n.Credits, &n.New) }),
		t.readCards(strongest, marked, &n.Strongest))
	if err == nil && n.Outliers == 0 {
		err = fmt.Errorf("niche %.40q: %w", n.Topic, ErrUnknown)
	}
	slices.Reverse(n.Weeks)
	return n, err
}

// serveNiche shows a topic; without one, the one with most news.
func (s *Site) serveNiche(w http.ResponseWriter, r *http.Request) error {
	topic := r.PathValue("topic")
	n, err := readTables(s, "niche "+topic, func(ctx context.Context) (*Niche, error) { return s.from.Niche(ctx, topic) })
	switch {
	case err != nil:
		return err
	case n.Topic == "":
		return s.render.show(w, r, view{"say.html", "No niche yet", "Niches",
			sentence{Sentence: "A niche is what a job searches for; no run has found an outlier yet."}})
	}
	return s.render.show(w, r, view{"niche.html", n.Topic, "Niches", n})
}

func (v *Niche) thisWeek() int64 {
	if len(v.Weeks) == 0 {
		return 0
	}
	return sumCounts(v.Weeks[len(v.Weeks)-1].Count)
}

// Summary says whether the niche grows.
func (v *Niche) Summary() string {
	now := v.thisWeek()
	text := formatCount(now, "new outlier") + " in the last seven days"
	if n := len(v.Weeks); n > 8 {
		then := sumCounts(v.Weeks[0].Count)
		switch {
		case then > 0 && now >= 2*then:
			text += fmt.Sprintf(", %s times as many as %d weeks before", figures.Digits(float64(now)/float64(then)), n-1)
		case now > 0 && then >= 2*now:
			text += fmt.Sprintf(", down from %d of %d weeks before", then, n-1)
		}
	}
	if n := len(v.Weeks); n > 0 {
		if top := v.Weeks[n-1].Count[len(limits)]; top > 0 {
			text += fmt.Sprintf(". %d with more than 30 times the average of the channel", top)
		}
	}
	return text + "."
}

// Stats are the numbers at the head.
func (v *Niche) Stats() []Stat {
	outliers := Stat{Name: "Outliers", Value: formatThousands(v.Outliers)}
	if v.Total != nil && *v.Total >= v.Outliers {
		outliers.More = "of " + formatThousands(*v.Total) + " that the service counts"
	}
	week := Stat{Name: "New this week", Value: formatThousands(v.thisWeek())}
	if n := len(v.Weeks); n > 1 {
		week.More = formatThousands(sumCounts(v.Weeks[n-2].Count)) + " the week before"
	}
	typical := Stat{Name: "Typical strength", Value: orDash(formatTimes(v.Typical)), More: "median of this week"}
	if v.Before != nil {
		typical.More += "; " + formatTimes(v.Before) + " of all"
	}
	price := Stat{Name: "Price of a new one", Value: "–"}
	if v.New > 0 {
		price.Value, price.Unit = fmt.Sprintf("%.2f", float64(v.Credits)/float64(v.New)), "credits"
		price.More = fmt.Sprintf("%s, %s new in the last month", formatCount(v.Credits, "credit"), formatThousands(v.New))
	}
	return []Stat{outliers, week, typical, {Name: "Channels", Value: formatThousands(v.Channels),
		More: formatThousands(v.NewChannels) + " for the first time this week"}, price}
}

// Weekly plots the new outliers per week by strength.
func (v *Niche) Weekly() *plot {
	if len(v.Weeks) == 0 {
		return nil
	}
	var columns []column
	for _, w := range v.Weeks {
		c := column{at: w.From, row: []string{formatDay(w.From)}, title: fmt.Sprintf("Week of %s: %d new, of these %d with 10 times and more",
			w.From.Format("2 Jan"), sumCounts(w.Count), w.Count[3]+w.Count[4])}
		for i, n := range w.Count {
			c.parts = append(c.parts, part{fmt.Sprint("f", i), float64(n)})
			c.row = append(c.row, formatThousands(n))
		}
		columns = append(columns, c)
	}
	return plotColumns(fmt.Sprintf("New outliers per week, %d in the last one", v.thisWeek()), "2 Jan",
		[]string{"Week of", "below 3×", "3×", "5×", "10×", "30×"}, columns)
}

// Legend names the colours of strength.
func (v *Niche) Legend() []choice {
	return []choice{{"f0", "below 3×"}, {"f1", "3×"}, {"f2", "5×"}, {"f3", "10×"}, {"f4", "30× and more"}}
}

// Newness plots the share of new hits run by run.
func (v *Niche) Newness() *plot {
	if len(v.Shares) < 2 {
		return nil
	}
	p := &plot{Low: true, scale: scale{50, 100}, Says: fmt.Sprintf("Share of new hits in %d runs, %.0f %% in the last one",
		len(v.Shares), 100*v.Shares[len(v.Shares)-1])}
	for _, n := range []float64{0, 50, 100} {
		p.Y = append(p.Y, tick{At: p.scale.yOf(n), Text: fmt.Sprintf("%.0f%%", n)})
	}
	var at []string
	width := 100 / float64(len(v.Shares)-1)
	for i, share := range v.Shares {
		x := float64(i) * width
		at = append(at, fmt.Sprintf("%.1f,%.1f", 10*x, 100-100*share))
		p.Hits = append(p.Hits, hit{Title: fmt.Sprintf("run %d: %.0f %% new", i+1, 100*share), At: formatPercent(x - width/2), Width: formatPercent(width),
			Point: true, X: formatPercent(x), Y: p.scale.yOf(100 * share)})
	}
	p.Lines = []polyline{{Class: "line", Points: strings.Join(at, " ")}}
	p.X = []tick{{"0", "first run", "start"}, {"100%", fmt.Sprintf("run %d", len(v.Shares)), "end"}}
	return p
}

// Found is the address of all its outliers.
func (v *Niche) Found() string { return "/found?" + url.Values{"topic": {v.Topic}}.Encode() }

// Fresh is the address of its outliers of this week.
func (v *Niche) Fresh() string { return "/?" + url.Values{"topic": {v.Topic}}.Encode() }

// liftBar is a bar to the right of the middle for what is more often, and to the left for what is less.
func liftBar(lift float64) rect {
	length := min(50, 50*math.Abs(math.Log10(max(lift, .1))))
	if lift < 1 {
		return rect{Class: "k4", X: formatPercent(50 - length), Width: formatPercent(length)}
	}
	return rect{Class: "k1", X: "50%", Width: formatPercent(length)}
}

// Bar shows how much more often it is.
func (w Word) Bar() rect  { return liftBar(w.Lift) }
func (s Shape) Bar() rect { return liftBar(s.Lift()) }

// Parts are the outliers of a channel by strength, the strongest first, as lengths of those of the first one.
func (v *Niche) Parts(l Leader) (all []rect) {
	most := int64(1)
	for _, other := range v.Leaders {
		most = max(most, other.All())
	}
	at := 0.0
	for i := len(l.Count) - 1; i >= 0; i-- {
		width := 100 * float64(l.Count[i]) / float64(most)
		all = append(all, rect{Class: fmt.Sprint("f", i), X: formatPercent(at), Width: formatPercent(width)})
		at += width
	}
	return all
}

// Tabs are the niches.
func (v *Niche) Tabs() (all []Link) {
	for _, o := range v.Topics {
		all = append(all, Link{Text: o.Value, Address: "/niches/" + url.PathEscape(o.Value), Count: &o.Count, On: o.Value == v.Topic})
	}
	return all
}

// Covered is the share of the niche that was read.
func (v *Niche) Covered() string { return shareOf(*v.Seen, *v.Total) }
