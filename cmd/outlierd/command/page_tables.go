package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/figures"
	"outlierd/sinks/duckdb/query"
)

// publishedTables provides the pages of outliers, videos, channels and niches. It always reads the newest publication,
// and keeps it open while somebody looks at pages.
type publishedTables struct {
	path   string // of the DuckDB file; "" if the job file has no such sink
	zone   *time.Location
	reader *query.Reader

	// temporary creates a folder for the result of a download, on the disk of the data: that of the system is small in
	// many containers.
	temporary func() (*temporary, error)
	marks     func() (*marked, error)     // nil without marks
	cycle     func() (from, to time.Time) // of billing; nil if it is not known

	mu          sync.Mutex
	counted     map[string]counts // by their query, of one publication
	publication int
}

// keepOpen is how long the published file stays open after the last page.
const keepOpen = 10 * time.Minute

func newPublishedTables(path string, zone *time.Location) *publishedTables {
	return &publishedTables{path: path, zone: zone, reader: query.NewReader(path, query.Setup, keepOpen)}
}

// Limits of the page of one video or channel, and of a niche.
const (
	mostSightings = 500 // in a chart
	mostSearches  = 20
	mostAlike     = 5
	mostUploads   = 30
	mostCounted   = 200 // counts that are kept
)

// ask runs queries on one publication, and returns its number.
func (t *publishedTables) ask(ctx context.Context, questions ...query.Question) (publication int, err error) {
	if t.path == "" {
		return 0, page.ErrNothingPublished
	}
	publication, err = t.reader.All(ctx, questions...)
	if errors.Is(err, query.ErrNotPublished) {
		return 0, page.ErrNothingPublished
	}
	return publication, err
}

// each returns a query that calls row for each row.
func (t *publishedTables) each(sql string, row func(cells)) query.Question {
	return query.Question{SQL: sql, Row: func(values []any) error {
		row(cells{values, t.zone})
		return nil
	}}
}

// counts are the numbers of outliers in total, and of the values of facets.
type counts struct {
	total  int64
	values map[string][]page.Option // by the name of the facet
}

// found returns the outliers that match a filter.
func (t *publishedTables) found(ctx context.Context, f page.Filter) (*page.Found, error) {
	marked, err := t.marked()
	if err != nil {
		return nil, err
	}
	o := wanted(f, marked)
	found := &page.Found{SQL: o.Plain()}
	for _, m := range marked.ByID {
		if m.Hidden {
			found.Hidden++
		}
	}
	counted, err := t.count(ctx, o, func() []query.Question {
		questions := t.search(o)
		if f.Most > 0 {
			found.Cards = nil
			questions = t.cards(o, marked, &found.Cards)
		}
		return append(questions, t.each("SELECT max(first_seen_at) FROM outliers", func(row cells) { found.Newest = row.time(0) }))
	})
	if err != nil {
		return nil, err
	}
	found.Total = counted.total
	for _, facet := range query.Facets {
		shown := page.Facet{Name: facet.Name, Title: facet.Title, Several: facet.Several || facet.Every, Options: counted.values[facet.Name]}
		for i := range shown.Options {
			if at := slices.IndexFunc(facet.Choices, func(c query.Choice) bool { return c.Value == shown.Options[i].Value }); at >= 0 {
				shown.Options[i].Label = facet.Choices[at].Label
			}
		}
		found.Facets = append(found.Facets, shown)
	}
	if f.Most > 0 {
		found.Views, err = t.views(ctx, marked)
	}
	return found, err
}

// search returns the query that must run before those of these outliers.
func (t *publishedTables) search(o query.Outliers) []query.Question {
	if search := o.Search(); search != "" {
		return []query.Question{t.each(search, func(cells) {})}
	}
	return nil
}

// cards returns the queries for a page of outliers.
func (t *publishedTables) cards(o query.Outliers, marked *marked, into *[]page.Card) []query.Question {
	return append(t.search(o), t.each(o.Cards(), func(row cells) { *into = append(*into, cardOf(row, marked)) }))
}

// count runs queries, which begin with the search, and counts the outliers of a filter on the same publication. Counts
// are kept as long as that stays the same, so that the tabs cost nothing.
func (t *publishedTables) count(ctx context.Context, o query.Outliers, before func() []query.Question) (counts, error) {
	key := o.Search() + o.Counts()
	t.mu.Lock()
	known, is := t.counted[key]
	of := t.publication
	t.mu.Unlock()
	for {
		questions := before()
		fresh := counts{values: map[string][]page.Option{}}
		if !is {
			questions = append(questions, t.each(o.Counts(), func(row cells) {
				n := cmp.Or(row.whole(2), new(int64))
				if name := row.text(0); name == "" {
					fresh.total = *n
				} else {
					fresh.values[name] = append(fresh.values[name], page.Option{Value: row.text(1), Count: *n})
				}
			}))
		}
		publication, err := t.ask(ctx, questions...)
		if err != nil {
			return counts{}, err
		}
		if !is {
			t.keep(publication, key, fresh)
			return fresh, nil
		}
		if publication == of {
			return known, nil
		}
		is = false // another publication has come: all again
	}
}

// keep keeps the counts of a publication.
func (t *publishedTables) keep(publication int, key string, c counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publication != publication || t.counted == nil || len(t.counted) >= mostCounted {
		t.counted, t.publication = map[string]counts{}, publication
	}
	t.counted[key] = c
}

// views returns the tabs: what is new, everything, what is starred, and the saved views.
func (t *publishedTables) views(ctx context.Context, marked *marked) (all []page.View, err error) {
	all = []page.View{{Name: "New this week", Address: "/"}, {Name: "Everything", Address: "/found"}}
	if t.marks != nil {
		all = append(all, page.View{Name: "★ Starred", Address: "/found?show=starred"})
	}
	all = append(all, marked.Views...)
	for i := range all {
		f, err := page.FilterOf(all[i].Address)
		if err != nil {
			continue // an address from before a change of the page
		}
		o := wanted(f, marked)
		counted, err := t.count(ctx, o, func() []query.Question { return t.search(o) })
		if err != nil {
			return nil, err
		}
		all[i].Count = counted.total
	}
	return all, nil
}

// marked returns the marks.
func (t *publishedTables) marked() (*marked, error) {
	if t.marks == nil {
		return &marked{}, nil
	}
	return t.marks()
}

// wanted converts a filter. The time is that of the hour, so that counts can be kept.
func wanted(f page.Filter, marked *marked) query.Outliers {
	o := query.Outliers{
		Words: f.Words, Week: f.Show == page.ShowNew, Chosen: f.Chosen, Query: f.Query, Job: f.Job, Channel: f.Channel,
		Seed: f.Seed, Now: time.Now().Truncate(time.Hour), Order: f.Order, Offset: f.Skip, Limit: f.Most,
		Tags: map[string][]string{},
	}
	var starred, hidden []string
	for id, m := range marked.ByID {
		if m.Starred {
			starred = append(starred, id)
		}
		if m.Hidden {
			hidden = append(hidden, id)
		}
		for _, tag := range m.Tags {
			tag = strings.ToLower(tag)
			o.Tags[tag] = append(o.Tags[tag], id)
		}
	}
	for _, ids := range o.Tags {
		slices.Sort(ids)
	}
	slices.Sort(starred)
	slices.Sort(hidden)
	switch f.Show {
	case page.ShowStarred:
		o.Only = append([]string{}, starred...)
	case page.ShowHidden:
		o.Only = append([]string{}, hidden...)
	default:
		o.Without = hidden
	}
	return o
}

// cardOf converts a row of [query.Outliers.Cards].
func cardOf(row cells, marked *marked) page.Card {
	c := page.Card{
		ID: row.text(0), Title: cmp.Or(strings.TrimSpace(row.text(1)), row.text(0)), Link: watched(row.text(2)), ChannelID: row.text(3),
		Channel: row.text(4), Subscribers: row.whole(5), Kind: row.text(6), Language: row.text(7), Seconds: row.whole(8),
		Views: row.whole(9), Ratio: row.decimal(10), Score: row.decimal(11), Published: row.time(12), Found: row.time(13),
		Gain: row.decimal(14), Median: row.decimal(15), Topics: row.texts(17),
	}
	c.OneHit, _ = row.values[16].(bool)
	marked.on(&c)
	return c
}

// picked returns videos in the order of their ids.
func (t *publishedTables) picked(ctx context.Context, ids []string) (cards []page.Card, err error) {
	marked, err := t.marked()
	if err != nil {
		return nil, err
	}
	o := query.Outliers{Only: append([]string{}, ids...), Limit: len(ids)}
	if _, err = t.ask(ctx, t.cards(o, marked, &cards)...); err != nil {
		return nil, err
	}
	slices.SortFunc(cards, func(a, b page.Card) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return cards, nil
}

// video returns the data of a video.
func (t *publishedTables) video(ctx context.Context, f page.VideoFilter) (*page.Video, error) {
	marked, err := t.marked()
	if err != nil {
		return nil, err
	}
	v := &page.Video{Card: page.Card{ID: f.ID}}
	known := false
	most, until := page.LinesPerPage, int64(math.MaxInt64)
	if !f.All {
		until = page.Opening.Milliseconds()
	}
	var cards []page.Card
	_, err = t.ask(ctx, append(t.cards(query.Outliers{Only: []string{f.ID}, Limit: 1}, marked, &cards),
		t.each(query.Video(f.ID), func(row cells) {
			known = true
			if len(cards) > 0 {
				v.Card = cards[0]
			}
			v.Title, v.Link, v.ChannelID = row.text(0), watched(row.text(1)), row.text(2)
			v.Channel, v.Kind, v.Language = row.text(3), row.text(4), row.text(5)
			v.Seconds, v.Published, v.Views = row.whole(6), row.time(7), row.whole(8)
			v.Likes, v.Remarks = row.whole(9), row.whole(10)
			v.Ratio, v.Score, v.First, v.Last = row.decimal(11), row.decimal(12), row.time(13), row.time(14)
			v.Description = row.text(15)
		}),
		t.each(query.Curve(f.ID, mostSightings), func(row cells) { v.Curve = append(v.Curve, row.point()) }),
		t.each(query.Sightings(f.ID, mostSearches), func(row cells) {
			v.Sightings = append(v.Sightings, page.Sighting{
				At: row.time(0), Job: shown(row.text(1)), Run: row.text(2), Topic: row.text(3),
				Page: row.whole(4), Rank: row.whole(5),
			})
		}),
		t.each(query.Changes(f.ID), func(row cells) {
			pictured, _ := row.values[3].(bool)
			v.Changes = append(v.Changes, page.Change{At: row.time(0), Before: row.text(1), After: row.text(2), Pictured: pictured})
		}),
		t.each(query.Comments(f.ID), func(row cells) {
			owner, _ := row.values[5].(bool)
			v.Comments = append(v.Comments, page.Comment{
				Author: row.text(0), Text: row.text(1), At: row.day(2), Likes: row.whole(3), Replies: row.whole(4),
				Owner: owner,
			})
		}),
		t.each(query.Lines(f.ID, f.Words, (f.Page-1)*page.LinesPerPage, most), func(row cells) {
			if v.LineCount = *row.whole(0); row.values[2] != nil && *cmp.Or(row.whole(1), new(int64)) < until {
				v.Lines = append(v.Lines, row.line(v.Link))
			}
		}),
	)...)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("video %.40q: %w", f.ID, page.ErrUnknown)
	}
	v.Title = cmp.Or(strings.TrimSpace(v.Title), v.ID)
	marked.on(&v.Card)
	if v.ChannelID == "" {
		return v, nil
	}
	alike := query.Outliers{Chosen: map[string][]string{"topic": v.Topics}, Without: []string{v.ID}, Limit: mostAlike}
	questions := []query.Question{
		t.each(query.Sampled(v.ChannelID, v.Kind), func(row cells) {
			v.Average, v.Subscribers = row.whole(0), cmp.Or(v.Subscribers, row.whole(2))
		}),
		t.each(query.Uploads(v.ChannelID, 0, mostUploads), func(row cells) { v.Uploads = append(v.Uploads, row.uploads()...) }),
	}
	if len(v.Topics) > 0 {
		questions = append(questions, t.cards(alike, marked, &v.Alike)...)
	}
	_, err = t.ask(ctx, questions...)
	return v, err
}

// channel returns the data of a channel.
func (t *publishedTables) channel(ctx context.Context, f page.ChannelFilter) (*page.Channel, error) {
	marked, err := t.marked()
	if err != nil {
		return nil, err
	}
	c := &page.Channel{ID: f.ID}
	known := false
	questions := append([]query.Question{
		t.each(query.Channel(f.ID), func(row cells) {
			known = true
			c.Title, c.Description, c.Last = row.text(0), row.text(2), row.time(7)
			c.Handle = strings.TrimPrefix(row.text(1), "@") // the service writes it with or without
			c.Subscribers, c.Videos, c.Median, c.Outliers = row.whole(3), row.whole(4), row.whole(5), row.whole(6)
			c.Average = row.whole(8)
			c.OneHit, _ = row.values[9].(bool)
		}),
		t.each(query.Subscribers(f.ID, mostSightings), func(row cells) { c.Curve = append(c.Curve, row.point()) }),
		t.each(query.Uploads(f.ID, (f.Page-1)*page.PerPage, page.PerPage), func(row cells) {
			c.UploadCount = *row.whole(0)
			c.Uploads = append(c.Uploads, row.uploads()...)
		}),
	}, t.cards(query.Outliers{ChannelID: f.ID, Limit: 2 * mostAlike}, marked, &c.Found)...)
	if _, err = t.ask(ctx, questions...); err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("channel %.40q: %w", f.ID, page.ErrUnknown)
	}
	c.Title = cmp.Or(strings.TrimSpace(c.Title), c.ID)
	return c, nil
}

// watched returns the address of a video, or "" if its id has an unknown form.
func watched(link string) string {
	if !strings.HasPrefix(link, "https://") {
		return ""
	}
	return link
}

// cells is a row of a result. NULL is "" as a text, and nil as a number.
type cells struct {
	values []any
	zone   *time.Location
}

func (c cells) text(i int) string { s, _ := c.values[i].(string); return s }

// texts returns a list of texts.
func (c cells) texts(i int) (all []string) {
	values, _ := c.values[i].([]any)
	for _, v := range values {
		if s, is := v.(string); is {
			all = append(all, s)
		}
	}
	return all
}

// time returns a time in the zone of the page; zero for NULL.
func (c cells) time(i int) time.Time {
	if t, ok := c.values[i].(time.Time); ok {
		return t.In(c.zone)
	}
	return time.Time{}
}

// day formats a time as a date.
func (c cells) day(i int) string {
	if t := c.time(i); !t.IsZero() {
		return t.Format(time.DateOnly)
	}
	return ""
}

// whole returns a whole number, rounded if necessary.
func (c cells) whole(i int) *int64 {
	switch n := c.values[i].(type) {
	case int64:
		return &n
	case int32:
		return new(int64(n))
	case float64:
		return new(int64(math.Round(n)))
	}
	return nil
}

func (c cells) decimal(i int) *float64 {
	if n, ok := c.values[i].(float64); ok {
		return &n
	}
	return nil
}

// point converts a row of a time and a number.
func (c cells) point() page.Point {
	n, _ := c.values[1].(int64)
	return page.Point{At: c.time(0), N: n}
}

// uploads converts a row of [query.Uploads], which has at most one.
func (c cells) uploads() []page.Upload {
	if c.values[1] == nil {
		return nil
	}
	return []page.Upload{{ID: c.text(1), Title: strings.TrimSpace(c.text(2)), Kind: c.text(3), Published: c.time(4), Views: c.whole(5),
		Ratio: c.decimal(6), Score: c.decimal(7)}}
}

// line converts a row of [query.Lines]. The video is watched at link.
func (c cells) line(link string) page.Line {
	ms, _ := c.values[1].(int64)
	s := ms / 1000
	l := page.Line{At: figures.Clock(s), Text: c.text(2)}
	if link != "" {
		l.Link = fmt.Sprintf("%s?t=%d", link, s)
	}
	return l
}
