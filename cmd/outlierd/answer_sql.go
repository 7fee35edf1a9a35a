package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// The SQL of jobs is run by another process of this program, which can be ended whatever
// DuckDB is doing in it.

const answerVerb = "answer-sql"

// answerCommand is that other process. People do not call it.
func answerCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: answerVerb, Short: "Answer the SQL that another process asks on standard input", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return query.Serve(c.Context(), o.world.in, o.world.out) },
	}
}

const downloadVerb = "answer-download"

// downloadCommand is a process that writes what SQL on standard input gives of a published file in
// a format of export. People do not call it either: they have export, which is not confined.
func downloadCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: downloadVerb + " FILE FORMAT", Short: "Write what SQL on standard input gives, for another process", Hidden: true,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := o.queryText("-")
			if err == nil {
				err = query.Confine()
			}
			if err != nil {
				return err
			}
			// The file is opened by a browser's user, perhaps in a spreadsheet, and its texts are strangers'.
			_, err = o.exportFrom(c.Context(), args[0], export{text: text, to: "-", format: args[1], escape: args[1] == "csv"}, o.world.out)
			return err
		},
	}
}

// downloader makes that process. It has no environment but the folder for what does not fit into memory.
func downloader(ctx context.Context, path, format, temp string) *exec.Cmd {
	c := answerer(ctx)
	c.Args = []string{"outlierd", downloadVerb, path, format}
	c.Env = []string{"TMPDIR=" + temp}
	return c
}

// answerer makes the process that answers SQL. It has no environment, and so no key.
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

// seeds lets jobs ask the published file by SQL; nil if there is none.
func seeds(config *job.Config) query.Finder {
	path := published(config)
	if path == "" {
		return nil
	}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		ids := query.IDs{Path: path, Column: column, Now: time.Now().In(config.Timezone)}
		return query.Process{Command: answerer}.Query(ctx, ids, sql)
	}
}

// seedsOnce is seeds for one command, which asks each SQL once.
func seedsOnce(config *job.Config) query.Finder {
	find := seeds(config)
	if find == nil {
		return nil
	}
	return find.Once(published(config))
}
