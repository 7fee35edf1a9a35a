package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sinks/duckdb"
	"outlierd/sync/job"
)

// The SQL of jobs is run by another process of this program, which can be ended whatever
// DuckDB is doing in it.

const answerVerb = "answer-sql"

// answerCommand is that other process; nobody calls it by hand.
func answerCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: answerVerb, Short: "Answer the SQL that another process asks on standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return duckdb.Serve(c.Context(), o.in, o.out) },
	}
}

// answerer makes that process. It has no environment, and so no key.
func answerer(ctx context.Context) *exec.Cmd {
	c := exec.CommandContext(ctx, itself())
	c.Args = []string{"outlierd", answerVerb}
	c.Env = []string{}
	return c
}

// itself is this very program, on Linux also where its file was replaced meanwhile.
func itself() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// asking runs SQL over the published file and returns one column of its result.
type asking func(ctx context.Context, sql, column string) ([]string, error)

// seeds lets jobs ask the published file by SQL; nil if there is none.
func seeds(config *job.Config) asking {
	path := published(config)
	if path == "" {
		return nil
	}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		seeds := duckdb.Seeds{Path: path, Column: column, Now: time.Now().In(config.Timezone)}
		return duckdb.Apart{Command: answerer}.Query(ctx, seeds, sql)
	}
}

// seedsOnce is seeds for one command: a price and the run that follows it are about the
// same answer, and a slow one is waited for once.
func seedsOnce(config *job.Config) asking {
	ask := seeds(config)
	if ask == nil {
		return nil
	}
	return ask.once(published(config))
}

// once asks each SQL once while the file at path stays the same, which a run may replace.
func (ask asking) once(path string) asking {
	type question struct{ sql, column string }
	type answer struct {
		values []string
		err    error
	}
	var asked os.FileInfo
	known := map[question]answer{}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		if now, _ := os.Stat(path); !sameFile(now, asked) { // what is wrong with it, asking tells
			clear(known)
			asked = now
		}
		q := question{sql, column}
		a, ok := known[q]
		if !ok {
			a.values, a.err = ask(ctx, sql, column)
		}
		if ctx.Err() == nil {
			known[q] = a
		}
		return a.values, a.err
	}
}

// sameFile reports whether nothing was swapped in between; nil is no file.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
