package command

import (
	"context"
	"slices"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
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

// niche returns the data of a topic, or of the one with most news.
func (t *publishedTables) niche(ctx context.Context, topic string) (*page.Niche, error) {
	marked, err := t.marked()
	if err != nil {
		return nil, err
	}
	n := &page.Niche{Topic: topic}
	var newest time.Time
	if _, err := t.ask(ctx, t.each(query.Niches(mostNiches), func(row cells) {
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
	if t.cycle != nil {
		since, _ = t.cycle()
	}
	_, err = t.ask(ctx, append([]query.Question{
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
			n.Job = shown(n.Job)
		}),
		t.each(of.Shares(mostWeeks), func(row cells) {
			var share float64
			row.into(&share)
			n.Shares = append(n.Shares, share)
		}),
		t.each(of.Spent(since.Format(time.RFC3339)), func(row cells) { row.into(&n.Credits, &n.New) }),
	}, t.cards(strongest, marked, &n.Strongest)...)...)
	if err == nil && n.Outliers == 0 {
		err = page.ErrUnknown
	}
	slices.Reverse(n.Weeks)
	return n, err
}

// money adds what the tables know of a billing cycle.
func (t *publishedTables) money(ctx context.Context, m *page.Money, from time.Time) error {
	cycle := from.Format(time.DateOnly)
	m.SQL = query.YieldsPlainly
	_, err := t.ask(ctx,
		t.each(query.SpentByDay(cycle), func(row cells) {
			var date, job string
			var credits int64
			row.into(&date, &job, &credits)
			day, err := time.ParseInLocation(time.DateOnly, date, t.zone)
			if err != nil {
				return // no day of ours
			}
			if n := len(m.Days); n == 0 || !m.Days[n-1].Day.Equal(day) {
				m.Days = append(m.Days, page.Spending{Day: day})
			}
			d := &m.Days[len(m.Days)-1]
			d.Jobs, d.Spent = append(d.Jobs, shown(job)), append(d.Spent, credits)
		}),
		rows(t, query.Yields(from.Format(time.RFC3339)), &m.Yields, func(y *page.Yield) { y.Job = shown(y.Job) }),
		rows(t, query.Rests(mostRests), &m.Rests, func(r *page.Rest) { r.Job = shown(r.Job) }),
		rows(t, query.Unusual(cycle, mostEntries), &m.Entries, func(e *page.Entry) { e.Job = shown(e.Job) }),
	)
	return err
}
