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
		n.Topics = append(n.Topics, page.Option{Value: row.text(0), Count: *row.whole(1)})
	}), t.each("SELECT max(last_seen_at) FROM outliers", func(row cells) { newest = row.time(0) })); err != nil {
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
			n.Outliers, n.Channels, n.NewChannels = *row.whole(0), *row.whole(1), *row.whole(2)
			n.Typical, n.Before = row.decimal(3), row.decimal(4)
		}),
		t.each(of.Weeks(mostWeeks), func(row cells) {
			ago := *row.whole(0)
			for int64(len(n.Weeks)) <= ago {
				n.Weeks = append(n.Weeks, page.Week{From: newest.AddDate(0, 0, -7*(len(n.Weeks)+1))})
			}
			row.strengths(1, n.Weeks[ago].Count[:])
		}),
		t.each(of.Leaders(mostLeaders), func(row cells) {
			l := page.Leader{ID: row.text(0), Title: row.text(1), Subscribers: row.whole(2), Best: row.decimal(3), Week: *row.whole(4)}
			row.strengths(5, l.Count[:])
			n.Leaders = append(n.Leaders, l)
		}),
		t.each(of.Words(moreWords, lessWords), func(row cells) {
			w := page.Word{Word: row.text(0), Titles: *row.whole(1), Median: row.decimal(3), Strongest: row.text(4)}
			if lift := row.decimal(2); lift != nil {
				w.Lift = *lift
			}
			n.Words = append(n.Words, w)
		}),
		t.each(of.Shapes(), func(row cells) {
			s := page.Shape{Name: row.text(0)}
			if share := row.decimal(1); share != nil {
				s.Share = *share
			}
			if others := row.decimal(2); others != nil {
				s.Others = *others
			}
			n.Others = *row.whole(3)
			n.Shapes = append(n.Shapes, s)
		}),
		t.each(of.Coverage(), func(row cells) {
			n.Job, n.Run, n.Seen, n.Total, n.Pages = shown(row.text(0)), row.text(1), row.whole(2), row.whole(3), row.whole(4)
		}),
		t.each(of.Shares(mostWeeks), func(row cells) { n.Shares = append(n.Shares, *row.decimal(0)) }),
		t.each(of.Spent(since.Format(time.RFC3339)), func(row cells) {
			if credits, found := row.whole(0), row.whole(1); credits != nil && found != nil {
				n.Credits, n.New = *credits, *found
			}
		}),
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
			day, err := time.ParseInLocation(time.DateOnly, row.text(0), t.zone)
			if err != nil {
				return // no day of ours
			}
			if n := len(m.Days); n == 0 || !m.Days[n-1].Day.Equal(day) {
				m.Days = append(m.Days, page.Spending{Day: day})
			}
			d := &m.Days[len(m.Days)-1]
			d.Jobs, d.Spent = append(d.Jobs, shown(row.text(1))), append(d.Spent, *row.whole(2))
		}),
		t.each(query.Yields(from.Format(time.RFC3339)), func(row cells) {
			y := page.Yield{Topic: row.text(0), Job: shown(row.text(1)), Credits: *row.whole(2), New: *row.whole(3), Hits: *row.whole(4)}
			if n := row.whole(5); n != nil {
				y.IDs, y.Shared = *n, *row.whole(6)
			}
			shares, _ := row.values[7].([]any)
			for _, share := range shares {
				if n, is := share.(float64); is {
					y.Shares = append(y.Shares, n)
				}
			}
			m.Yields = append(m.Yields, y)
		}),
		t.each(query.Rests(mostRests), func(row cells) {
			m.Rests = append(m.Rests, page.Rest{Topic: row.text(0), Job: shown(row.text(1)), Run: row.text(2), Seen: *row.whole(3),
				Total: *row.whole(4), Pages: row.whole(5)})
		}),
		t.each(query.Unusual(cycle, mostEntries), func(row cells) {
			m.Entries = append(m.Entries, page.Entry{At: row.time(0).Format("2 Jan 15:04"), Job: shown(row.text(1)), What: row.text(2),
				Outcome: row.text(3), Credits: whole(row, 4)})
		}),
	)
	return err
}

func whole(row cells, i int) string {
	if n := row.whole(i); n != nil {
		return page.Thousands(*n)
	}
	return ""
}

// strengths converts numbers of outliers by strength.
func (c cells) strengths(first int, into []int64) {
	for i := range into {
		into[i] = *c.whole(first + i)
	}
}
