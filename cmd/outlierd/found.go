package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
)

// finder finds outliers in the published DuckDB file. Each question opens the file, so that it is
// answered by the newest publication.
func (o *options) finder(path string) func(context.Context, page.Filter) (*page.Found, error) {
	return func(ctx context.Context, f page.Filter) (*page.Found, error) {
		if path == "" { // the job file has no such sink
			return nil, page.ErrNothingPublished
		}
		found := &page.Found{}
		err := query.Run(ctx, path, wanted(f).SQL(), nil, func(row []any) error {
			found.Total = row[0].(int64)
			if row[1] != nil { // else there are no rows on this page
				found.Outliers = append(found.Outliers, o.outlier(row[1:]))
			}
			return nil
		})
		if errors.Is(err, query.ErrNotPublished) {
			return nil, page.ErrNothingPublished
		}
		return found, err
	}
}

// outlier is a row of [query.Outliers.SQL], less the total.
func (o *options) outlier(row []any) page.Outlier {
	text := func(i int) string { s, _ := row[i].(string); return s }
	at := func(i int) string {
		if t, ok := row[i].(time.Time); ok {
			return t.In(o.zone).Format("2006-01-02 15:04")
		}
		return ""
	}
	f := page.Outlier{Title: text(1), Link: text(2), Channel: text(3), Kind: text(4), Language: text(5), Published: at(9), Found: at(10)}
	if f.Title == "" {
		f.Title = text(0)
	}
	if !strings.HasPrefix(f.Link, "https://") { // the id is in another form than known
		f.Link = ""
	}
	if n, ok := row[6].(int64); ok {
		f.Views = &n
	}
	for i, into := range map[int]**float64{7: &f.Ratio, 8: &f.Score} {
		if n, ok := row[i].(float64); ok {
			*into = &n
		}
	}
	return f
}

// foundOrders are the columns of the orders of [page.Filter].
var foundOrders = map[string]string{
	"found": "first_seen_at", "ratio": "average_views_ratio", "score": "z_score", "views": "view_count", "published": "published_at",
}

// wanted is a filter in the terms of the tables.
func wanted(f page.Filter) query.Outliers {
	o := query.Outliers{
		Query: f.Query, Job: f.Job, Channel: f.Channel, Kind: f.Kind, Language: f.Language,
		Ratio: f.Ratio, Order: foundOrders[f.Order], Skip: (f.Page - 1) * page.PerPage, Most: page.PerPage,
	}
	if f.Days > 0 {
		o.Since = time.Now().AddDate(0, 0, -f.Days)
	}
	return o
}
