package pagedata

import (
	"context"
	"errors"
	"os"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
)

// First returns the first rows of a query, which runs in a process that can be killed.
func (t *Tables) First(ctx context.Context, process query.Process, sql string) (*query.Rows, error) {
	if _, err := t.PublishedAt(); err != nil {
		return nil, err
	}
	got, err := process.First(ctx, t.Path, sql, page.MostRows)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &page.RefusedError{Why: err.Error()}
	}
	for i, f := range got.Columns {
		if f.Kind == "TIMESTAMP WITH TIME ZONE" {
			t.localize(got.Rows, i)
		}
	}
	return got, nil
}

// localize converts the times of a column to the time zone of the job file.
func (t *Tables) localize(rows [][]*string, column int) {
	for _, row := range rows {
		if row[column] == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, *row[column]); err == nil {
			row[column] = new(at.In(t.Zone).Format("2006-01-02 15:04:05"))
		}
	}
}

// PublishedAt returns when the file was published, or an error if it does not exist: the error of the SQL would be less clear.
func (t *Tables) PublishedAt() (time.Time, error) {
	info, err := os.Stat(t.Path)
	if t.Path == "" || errors.Is(err, os.ErrNotExist) {
		return time.Time{}, page.ErrNothingPublished
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
