package pagedata

import (
	"context"
	"fmt"
	"slices"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// Limits of the pages of niches and money.
const (
	mostNiches  = 50
	mostWeeks   = 16
	mostLeaders = 8
	moreWords   = 8
	lessWords   = 4
	mostRests   = 20
	mostEntries = 15
)

// Niche returns the data of a topic, or of the one with most news.
func (t *Tables) Niche(ctx context.Context, topic string) (*page.Niche, error) {
	marked, err := t.Marked()
	if err != nil {
		return nil, err
	}
	n := &page.Niche{Topic: topic}
	var newest time.Time
	if err := t.read(ctx, t.each(query.Niches(mostNiches), func(row cells) {
		var o page.Option
		row.into(&o.Value, &o.Count)
		n.Topics = append(n.Topics, o)
	}), t.each("SELECT max(last_seen_at) FROM outliers", func(row cells) { row.into(&newest) })); err != nil {
		return nil, err
	}
	if len(n.Topics) == 0 {
		return &page.Niche{}, nil
	}
	if n.Topic == "" {
		n.Topic = n.Topics[0].Value
	}
	of := query.NicheOf(n.Topic)
	strongest := query.Outliers{Week: true, Chosen: map[string][]string{"topic": {n.Topic}}, Limit: mostAlike}
	since := newest.AddDate(0, -1, 0)
	if t.Cycle != nil {
		since, _ = t.Cycle()
	}
	err = t.read(ctx,
		t.each(of.Sums(), func(row cells) {
			row.into(&n.Outliers, &n.Channels, &n.NewChannels, &n.Typical, &n.Before)
		}),
		t.each(of.Weeks(mostWeeks), func(row cells) {
			var ago int64
			var w page.Week
			for row.into(&ago, &w.Count); int64(len(n.Weeks)) <= ago; {
				n.Weeks = append(n.Weeks, page.Week{From: newest.AddDate(0, 0, -7*(len(n.Weeks)+1))})
			}
			n.Weeks[ago].Count = w.Count
		}),
		rows(t, of.Leaders(mostLeaders), &n.Leaders),
		rows(t, of.Words(moreWords, lessWords), &n.Words),
		t.each(of.Shapes(), func(row cells) {
			var s page.Shape
			row.into(&s.Name, &s.Share, &s.Others, &n.Others)
			n.Shapes = append(n.Shapes, s)
		}),
		t.each(of.Coverage(), func(row cells) {
			row.into(&n.Job, &n.Run, &n.Seen, &n.Total, &n.Pages)
			n.Job = job.Shown(n.Job)
		}),
		t.each(of.Shares(mostWeeks), func(row cells) {
			var share float64
			row.into(&share)
			n.Shares = append(n.Shares, share)
		}),
		t.each(of.Spent(since.Format(time.RFC3339)), func(row cells) { row.into(&n.Credits, &n.New) }),
		t.readCards(strongest, marked, &n.Strongest))
	if err == nil && n.Outliers == 0 {
		err = fmt.Errorf("niche %.40q: %w", n.Topic, page.ErrUnknown)
	}
	slices.Reverse(n.Weeks)
	return n, err
}

// AddMoney adds what the tables know of a billing cycle.
func (t *Tables) AddMoney(ctx context.Context, m *page.Money, from time.Time) error {
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
				m.Days = append(m.Days, page.Spending{Day: day})
			}
			d := &m.Days[len(m.Days)-1]
			d.Jobs, d.Spent = append(d.Jobs, job.Shown(name)), append(d.Spent, credits)
		}),
		rows(t, query.Yields(from.Format(time.RFC3339)), &m.Yields, func(y *page.Yield) { y.Job = job.Shown(y.Job) }),
		rows(t, query.Rests(mostRests), &m.Rests, func(r *page.Rest) { r.Job = job.Shown(r.Job) }),
		rows(t, query.Unusual(cycle, mostEntries), &m.Entries, func(e *page.Entry) { e.Job = job.Shown(e.Job) }),
	)
}
