package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// catalog lists the tables that can be queried.
func catalog() (all []page.Table) {
	for _, t := range query.Catalog() {
		all = append(all, page.Table(t))
	}
	return all
}

// questions returns the questions of the job file, followed by common ones.
func questions(config *job.Config) (all []page.Question) {
	for _, q := range config.Questions {
		all = append(all, page.Question{Name: q.Name, SQL: q.SQL})
	}
	for _, q := range query.Questions {
		all = append(all, page.Question(q))
	}
	return all
}

// numbers matches the types of columns of numbers.
var numbers = regexp.MustCompile(`^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\))$`)

// first returns the first rows of a query, which runs in a process that can be killed.
func (t *publishedTables) first(ctx context.Context, sql string) (*page.Result, error) {
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
		c := page.Column{Name: f.Name, Number: numbers.MatchString(f.Kind)}
		if f.Kind == "TIMESTAMP WITH TIME ZONE" {
			t.local(result.Rows, i)
		}
		result.Columns = append(result.Columns, c)
	}
	return result, nil
}

// local converts the times of a column to the time zone of the job file.
func (t *publishedTables) local(rows [][]*string, column int) {
	for _, row := range rows {
		if row[column] == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, *row[column]); err == nil {
			row[column] = new(at.In(t.zone).Format("2006-01-02 15:04:05"))
		}
	}
}

// elsewhere returns the lines that run a query on the published file in other programs.
func (t *publishedTables) elsewhere(sql string) []page.Snippet {
	path, err := filepath.Abs(t.path)
	if err != nil || t.path == "" {
		return nil
	}
	return []page.Snippet{
		{Program: "DuckDB", Lines: fmt.Sprintf("ATTACH %s AS outlierd (READ_ONLY);\nUSE outlierd;\n%s;", sqlText(path), sql)},
		{Program: "Python", Lines: fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
			"    df = db.execute(%s).df()", quoted(path), quoted(sql))},
	}
}

// exists returns an error if the file does not exist: the error of the SQL would be less clear.
func (t *publishedTables) exists() error {
	if t.path == "" {
		return page.ErrNothingPublished
	}
	if _, err := os.Stat(t.path); errors.Is(err, os.ErrNotExist) {
		return page.ErrNothingPublished
	}
	return nil
}

// whole returns the whole result of a query in a format of export. A process that can be killed writes
// it to a temporary file, so that errors are known before the first byte is sent.
func (t *publishedTables) whole(ctx context.Context, sql, format string) (_ io.ReadCloser, err error) {
	if err := t.exists(); err != nil {
		return nil, err
	}
	temp, err := t.temporary()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	file, err := os.CreateTemp(temp.path, "result-*")
	if err != nil {
		return nil, err
	}
	process := downloader(ctx, t.path, format, temp.path, t.zone)
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
			why = fmt.Sprintf("the process that ran the SQL ended (%v), "+
				"possibly because memory or disk space ran out", err)
		}
		err = &page.RefusedError{Why: why}
	}
	return nil, errors.Join(ctx.Err(), err)
}
