package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
)

// publishedTables provides the pages of outliers, videos and channels. It opens the file for each query,
// so every query reads the newest publication.
type publishedTables struct {
	path string // of the DuckDB file; "" if the job file has no such sink
	zone *time.Location

	// temporary creates a folder for the result of a download, on the disk of the data: that of the system is small in
	// many containers.
	temporary func() (*temporary, error)
}

// Limits of the page of one video or channel.
const (
	mostSightings = 500 // in a chart
	mostSparks    = 30  // in the small chart of a list row
	mostSearches  = 20
)

// ask runs queries on one publication.
func (t publishedTables) ask(ctx context.Context, questions ...query.Question) error {
	if t.path == "" {
		return page.ErrNothingPublished
	}
	err := query.RunAll(ctx, t.path, questions...)
	if errors.Is(err, query.ErrNotPublished) {
		return page.ErrNothingPublished
	}
	return err
}

// each returns a query that calls row for each row.
func (t publishedTables) each(sql string, row func(cells)) query.Question {
	return query.Question{SQL: sql, Row: func(values []any) error {
		row(cells{values, t.zone})
		return nil
	}}
}

// found returns the outliers that match a filter.
func (t publishedTables) found(ctx context.Context, f page.Filter) (*page.Found, error) {
	found := &page.Found{}
	err := t.ask(ctx, t.each(wanted(f).SQL(), func(row cells) {
		found.Total = *row.whole(0)
		if row.values[1] != nil { // else the page has no rows
			found.Outliers = append(found.Outliers, outlierOf(row))
		}
	}))
	if err != nil || len(found.Outliers) == 0 || f.Map {
		return found, err
	}
	curves, err := t.curves(ctx, found.Outliers)
	for i := range found.Outliers {
		found.Outliers[i].Curve = curves[found.Outliers[i].ID]
	}
	return found, err
}

// outlierOf converts a row of [query.Outliers.SQL].
func outlierOf(row cells) page.Outlier {
	o := page.Outlier{
		ID: row.text(1), Title: row.text(2), Link: watched(row.text(3)), ChannelID: row.text(4), Channel: row.text(5),
		Kind: row.text(6), Language: row.text(7), Views: row.whole(8), Ratio: row.decimal(9), Score: row.decimal(10),
		Published: row.day(11), Found: row.at(12),
	}
	if o.Title == "" {
		o.Title = o.ID
	}
	if published, ok := row.values[11].(time.Time); ok {
		o.Age = time.Since(published).Hours() / 24
	}
	return o
}

// curves returns the views of outliers at their latest sightings, by id.
func (t publishedTables) curves(ctx context.Context, of []page.Outlier) (map[string][]int64, error) {
	var ids []string
	for i := range of {
		ids = append(ids, of[i].ID)
	}
	curves := map[string][]int64{}
	return curves, t.ask(ctx, t.each(query.Curves(ids, mostSparks), func(row cells) {
		for _, n := range row.values[1].([]any) {
			curves[row.text(0)] = append(curves[row.text(0)], n.(int64))
		}
	}))
}

// foundOrders maps the orders of [page.Filter] to columns.
var foundOrders = map[string]string{
	"found": "first_seen_at", "ratio": "average_views_ratio", "score": "z_score", "views": "view_count",
	"published": "published_at",
}

// wanted converts a filter.
func wanted(f page.Filter) query.Outliers {
	o := query.Outliers{
		Query: f.Query, Job: f.Job, Channel: f.Channel, Kind: f.Kind, Language: f.Language,
		Ratio: f.Ratio, Order: foundOrders[f.Order], Offset: (f.Page - 1) * page.PerPage, Limit: page.PerPage,
	}
	if f.Map {
		o.Offset, o.Limit = 0, page.MostDots
	}
	if f.Days > 0 {
		o.Since = time.Now().AddDate(0, 0, -f.Days)
	}
	return o
}

// video returns the data of a video.
func (t publishedTables) video(ctx context.Context, f page.VideoFilter) (*page.Video, error) {
	v := &page.Video{ID: f.ID}
	known := false
	err := t.ask(ctx,
		t.each(query.Video(f.ID), func(row cells) {
			known = true
			v.Title, v.Link, v.ChannelID = row.text(0), watched(row.text(1)), row.text(2)
			v.Channel, v.Kind, v.Language = row.text(3), row.text(4), row.text(5)
			v.Seconds, v.Published, v.Views = row.whole(6), row.at(7), row.whole(8)
			v.Likes, v.Remarks = row.whole(9), row.whole(10)
			v.Ratio, v.Score, v.First, v.Last = row.decimal(11), row.decimal(12), row.at(13), row.at(14)
			v.Description = row.text(15)
		}),
		t.each(query.Curve(f.ID, mostSightings), func(row cells) { v.Curve = append(v.Curve, row.point()) }),
		t.each(query.Sightings(f.ID, mostSearches), func(row cells) {
			v.Sightings = append(v.Sightings, page.Sighting{
				At: row.at(0), Job: shown(row.text(1)), Run: row.text(2), Search: row.text(3),
				Page: row.whole(4), Rank: row.whole(5),
			})
		}),
		t.each(query.Changes(f.ID), func(row cells) {
			v.Changes = append(v.Changes, page.Change{At: row.at(0), Before: row.text(1), After: row.text(2)})
		}),
		t.each(query.Comments(f.ID), func(row cells) {
			owner, _ := row.values[5].(bool)
			v.Comments = append(v.Comments, page.Comment{
				Author: row.text(0), Text: row.text(1), At: row.at(2), Likes: row.whole(3), Replies: row.whole(4),
				Owner: owner,
			})
		}),
		t.each(query.Lines(f.ID, f.Words, (f.Page-1)*page.LinesPerPage, page.LinesPerPage), func(row cells) {
			if v.LineCount = *row.whole(0); row.values[2] != nil {
				v.Lines = append(v.Lines, row.line(v.Link))
			}
		}),
	)
	if err == nil && !known {
		err = fmt.Errorf("video %.40q: %w", f.ID, page.ErrUnknown)
	}
	if v.Title == "" {
		v.Title = v.ID
	}
	return v, err
}

// channel returns the data of a channel.
func (t publishedTables) channel(ctx context.Context, f page.ChannelFilter) (*page.Channel, error) {
	c := &page.Channel{ID: f.ID}
	known := false
	err := t.ask(ctx,
		t.each(query.Channel(f.ID), func(row cells) {
			known = true
			c.Title, c.Description, c.Last = row.text(0), row.text(2), row.at(7)
			c.Handle = strings.TrimPrefix(row.text(1), "@") // the service writes it with or without
			c.Subscribers, c.Videos, c.Median, c.Outliers = row.whole(3), row.whole(4), row.whole(5), row.whole(6)
		}),
		t.each(query.Subscribers(f.ID, mostSightings), func(row cells) { c.Curve = append(c.Curve, row.point()) }),
		t.each(query.Uploads(f.ID, (f.Page-1)*page.PerPage, page.PerPage), func(row cells) {
			if c.UploadCount = *row.whole(0); row.values[1] != nil {
				c.Uploads = append(c.Uploads, page.Upload{
					ID: row.text(1), Title: row.text(2), Kind: row.text(3), Published: row.day(4), Views: row.whole(5),
					Ratio: row.decimal(6), Score: row.decimal(7),
				})
			}
		}),
	)
	if err == nil && !known {
		err = fmt.Errorf("channel %.40q: %w", f.ID, page.ErrUnknown)
	}
	if c.Title == "" {
		c.Title = c.ID
	}
	return c, err
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

// at formats a time to the minute, and day as a date.
func (c cells) at(i int) string  { return c.format(i, "2006-01-02 15:04") }
func (c cells) day(i int) string { return c.format(i, time.DateOnly) }

func (c cells) format(i int, layout string) string {
	if t, ok := c.values[i].(time.Time); ok {
		return t.In(c.zone).Format(layout)
	}
	return ""
}

// whole returns a whole number, rounded if necessary.
func (c cells) whole(i int) *int64 {
	switch n := c.values[i].(type) {
	case int64:
		return &n
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
	at, _ := c.values[0].(time.Time)
	n, _ := c.values[1].(int64)
	return page.Point{At: at.In(c.zone), N: n}
}

// line converts a row of [query.Lines]. The video is watched at link.
func (c cells) line(link string) page.Line {
	ms, _ := c.values[1].(int64)
	s := ms / 1000
	l := page.Line{At: page.Clock(s), Text: c.text(2)}
	if link != "" {
		l.Link = fmt.Sprintf("%s?t=%d", link, s)
	}
	return l
}
