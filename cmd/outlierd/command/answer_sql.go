package command

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

// The SQL of jobs runs in another process of this program, which can be killed whatever DuckDB is doing
// in it.

const answerVerb = "answer-sql"

// answerCommand returns the hidden command of that process.
func answerCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: answerVerb, Short: "Answer the SQL that another process asks on standard input", Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error { return query.Serve(c.Context(), g.world.in, g.out.w) },
	}
}

const downloadVerb = "answer-download"

// downloadCommand returns the hidden command of a process that writes the result of SQL on standard input,
// over a published file, in a format of export. Unlike export, it is confined.
func downloadCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: downloadVerb + " FILE FORMAT ZONE", Short: "Write what SQL on standard input gives, for another process",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readQuery(g.world.in, "-")
			zone := time.UTC // of the times in a sheet
			if err == nil {
				zone, err = time.LoadLocation(args[2])
			}
			if err == nil {
				err = query.Confine()
			}
			if err != nil {
				return err
			}
			// A user's browser or spreadsheet opens the file, and its texts are untrusted.
			e := export{text: text, to: "-", format: args[1], escape: args[1] == "csv"}
			_, err = exportFrom(c.Context(), args[0], e, os.TempDir(), zone, g.out.w, g.world.err)
			return err
		},
	}
}

// newDownloader returns that process. Its environment has only the folder for data that does not fit into
// memory.
func newDownloader(ctx context.Context, path, format, temp string, zone *time.Location) *exec.Cmd {
	c := newAnswerer(ctx)
	c.Args = []string{"outlierd", downloadVerb, path, format, zone.String()}
	c.Env = []string{"TMPDIR=" + temp}
	return c
}

// newAnswerer returns the process that runs SQL. Its environment is empty, so it has no key.
func newAnswerer(ctx context.Context) *exec.Cmd {
	c := exec.CommandContext(ctx, programPath())
	c.Args = []string{"outlierd", answerVerb}
	c.Env = []string{}
	return c
}

// programPath returns the path of this program. On Linux it stays valid after the file was replaced.
func programPath() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// seeds returns a function that runs the SQL of jobs on the published file, or nil.
func seeds(config *job.Config) query.Finder {
	path := published(config)
	if path == "" {
		return nil
	}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		ids := query.IDs{Path: path, Column: column, Zone: config.Timezone}
		return query.Process{Command: newAnswerer}.Query(ctx, ids, sql)
	}
}

// seedsOnce returns a function like that of seeds, for one command: it runs each SQL only once.
func seedsOnce(config *job.Config) query.Finder {
	find := seeds(config)
	if find == nil {
		return nil
	}
	return find.Once(published(config))
}
