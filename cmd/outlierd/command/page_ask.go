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
	"slices"
	"strings"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/notify"
)

// listQuestions returns the questions of the job file, followed by common ones.
func listQuestions(config *job.Config) (all []page.Question) {
	for _, q := range config.Questions {
		all = append(all, page.Question{Name: q.Name, SQL: q.SQL})
	}
	for _, q := range query.Questions {
		all = append(all, page.Question(q))
	}
	return all
}

// writeFeed returns the result of a question as an Atom feed.
func writeFeed(ctx context.Context, config *job.Config, q page.Question, published time.Time) ([]byte, error) {
	find := seeds(config)
	f := notify.Feed{Name: q.Name, SQL: q.SQL, Self: q.Feed(), Page: q.Address(), Published: published}
	feed, err := f.Write(ctx, func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") })
	if err != nil && ctx.Err() == nil && !errors.Is(err, notify.ErrNoFeed) {
		return nil, &page.RefusedError{Why: err.Error()}
	}
	return feed, err
}

// makeSnippets returns the lines that run a query on the published file in other programs.
func makeSnippets(published, sql string) []page.Snippet {
	path, err := filepath.Abs(published)
	if err != nil || published == "" {
		return nil
	}
	return []page.Snippet{
		{Program: "DuckDB", Lines: fmt.Sprintf("ATTACH %s AS outlierd (READ_ONLY);\nUSE outlierd;\n%s;", database.Text(path), sql)},
		{Program: "Python", Lines: fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
			"    df = db.execute(%s).df()", quoted(path), quoted(sql))},
	}
}

// downloadResult returns the whole result of a query in a format of export. A process that can be killed writes
// it to a temporary file, so that errors are known before the first byte is sent.
func downloadResult(ctx context.Context, tables *page.Tables, temporary func() (*temporary, error), sql, format string) (_ io.ReadCloser, err error) {
	if _, err := tables.PublishedAt(); err != nil {
		return nil, err
	}
	temp, err := temporary()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	file, err := os.CreateTemp(temp.path, "result-*")
	if err != nil {
		return nil, err
	}
	process := newDownloader(ctx, tables.Path, format, temp.path, tables.Zone)
	var said bytes.Buffer
	process.Stdin, process.Stdout, process.Stderr = strings.NewReader(sql), file, &said
	err = process.Run()
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
		return file, err
	}
	err = errors.Join(err, file.Close())
	if isA[*exec.ExitError](err) && ctx.Err() == nil {
		why := strings.TrimPrefix(strings.TrimSpace(said.String()), "outlierd: ")
		if why == "" || slices.Contains([]string{"Killed", "killed"}, why) {
			why = fmt.Sprintf("the process that ran the SQL ended (%v), "+
				"possibly because memory or disk space ran out", err)
		}
		err = &page.RefusedError{Why: why}
	}
	return nil, errors.Join(ctx.Err(), err)
}
