package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// catalog are the tables that a page can ask.
func catalog() (all []page.Table) {
	for _, t := range query.Catalog() {
		all = append(all, page.Table(t))
	}
	return all
}

// questions are those of the job file, and then those that people ask most.
func questions(config *job.Config) (all []page.Question) {
	for _, q := range config.Questions {
		all = append(all, page.Question{Name: q.Name, SQL: q.SQL})
	}
	for _, q := range query.Questions {
		all = append(all, page.Question(q))
	}
	return all
}

// numbers are the types of columns whose values are numbers to be drawn.
var numbers = regexp.MustCompile(`^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\))$`)

// first are the first rows of what SQL gives, asked by a process that can be ended.
func (t publishedTables) first(ctx context.Context, sql string) (*page.Result, error) {
	if err := t.exists(); err != nil {
		return nil, err
	}
	got, err := query.Process{Command: answerer}.First(ctx, t.path, sql, page.MostRows)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &page.RefusedError{Why: err.Error()}
	}
	result := &page.Result{Rows: got.Rows, More: got.More}
	for i, f := range got.Columns {
		c := page.Column{Name: f.Name, Number: numbers.MatchString(f.Kind), Time: f.Kind == "DATE" || strings.HasPrefix(f.Kind, "TIMESTAMP")}
		if f.Kind == "TIMESTAMP WITH TIME ZONE" {
			t.local(result.Rows, i)
		}
		result.Columns = append(result.Columns, c)
	}
	return result, nil
}

// local puts the times of a column into the zone that people read.
func (t publishedTables) local(rows [][]*string, column int) {
	for _, row := range rows {
		if row[column] == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, *row[column]); err == nil {
			row[column] = new(at.In(t.zone).Format("2006-01-02 15:04:05"))
		}
	}
}

// exists tells of a file that is not there: SQL would be refused with other words.
func (t publishedTables) exists() error {
	if t.path == "" {
		return page.ErrNothingPublished
	}
	if _, err := os.Stat(t.path); errors.Is(err, os.ErrNotExist) {
		return page.ErrNothingPublished
	}
	return nil
}

// whole is all that SQL gives, in a format of export. It is written by a process that can be
// ended, into a file without a name, so that a mistake is known before the first byte is sent.
func (t publishedTables) whole(ctx context.Context, sql, format string) (_ io.ReadCloser, err error) {
	if err := t.exists(); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "outlierd-download-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file, err := os.CreateTemp(temp, "result-*")
	if err != nil {
		return nil, err
	}
	process := downloader(ctx, t.path, format, temp)
	var said bytes.Buffer
	process.Stdin, process.Stdout, process.Stderr = strings.NewReader(sql), file, &said
	err = process.Run()
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
		return file, err
	}
	err = errors.Join(err, file.Close())
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		why := strings.TrimPrefix(strings.TrimSpace(said.String()), "outlierd: ")
		if why == "" || slices.Contains([]string{"Killed", "killed"}, why) {
			why = fmt.Sprintf("the process that ran the SQL ended (%v), as happens when memory or disk run out", err)
		}
		err = &page.RefusedError{Why: why}
	}
	return nil, errors.Join(ctx.Err(), err)
}
