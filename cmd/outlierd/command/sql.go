package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// maxQuery is the maximum size of a query on standard input, in bytes.
const maxQuery = 1 << 20

func sqlCommand(g *globals) *cobra.Command {
	var unsafe bool
	c := &cobra.Command{
		Use:   "sql QUERY",
		Short: "Query the published tables with SQL",
		Long: `Query the published DuckDB file and print the result. The file is opened read-only and
closed again, so it is never locked or changed. Without --unsafe the query can neither read
nor write other files. Of several statements, the result of the last one is printed. "-" reads
the query from standard input. No daemon is needed.`,
		Example: `  outlierd sql "select title, z_score from outliers order by z_score desc limit 5"
  outlierd sql -o csv "select * from channels" > channels.csv
  outlierd sql "select table_name, comment from duckdb_tables() order by 1"`,
		RunE: func(c *cobra.Command, args []string) error {
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			text, err := readQuery(g.world.in, args[0])
			if err != nil {
				return err
			}
			run := query.Run
			if unsafe {
				run = query.RunUnsafe
			}
			err = printQuery(c.Context(), g, config, text, run)
			if errors.Is(err, query.ErrDenied) {
				err = fmt.Errorf("%w\nto let it read and write other files, run it with --unsafe", err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&unsafe, "unsafe", false, "let the query read and write other files")
	return c
}

// readQuery returns the query, which is read from standard input if it is "-".
func readQuery(in io.Reader, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	given, err := io.ReadAll(io.LimitReader(in, maxQuery+1))
	if err != nil {
		return "", fmt.Errorf("read the query from standard input: %w", err)
	}
	if len(given) > maxQuery {
		return "", fmt.Errorf("the query on standard input has more than %d bytes", maxQuery)
	}
	return string(given), nil
}

// querying is [query.Run] or [query.RunUnsafe].
type querying func(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error

// printQuery prints the result of a query over the published file.
func printQuery(ctx context.Context, g *globals, config *job.Config, text string, run querying) error {
	path, _, err := publishedFile(ctx, g, config)
	if err != nil {
		return err
	}
	var p term.Printer
	err = run(ctx, path, text, func(columns []string) (err error) {
		if g.out.format == "table" && slices.Equal(columns, []string{"explain_key", "explain_value"}) {
			p = term.NewPlan(g.out.w)
			return nil
		}
		p, err = term.NewPrinter(g.out.format, g.out.w, g.out.look(), columns)
		return err
	}, func(values []any) error { return p.Row(values) })
	if err != nil {
		return explainQuery(path, err)
	}
	return p.Close()
}

// publishedFile returns the path of the file to query, and when it was published. It warns if an erasure is unfinished.
func publishedFile(ctx context.Context, g *globals, config *job.Config) (path string, at time.Time, err error) {
	if path = published(config); path == "" {
		return "", at, noFile(config)
	}
	file, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = query.ErrNotPublished
	}
	if err != nil {
		return path, at, explainQuery(path, err)
	}
	return path, file.ModTime(), warnErased(ctx, g, config)
}

// noFile returns an error if no tables are published.
func noFile(config *job.Config) error {
	return fmt.Errorf("%s has no duckdb sink, so there is nothing to query; "+
		"add `- duckdb: outliers.duckdb` under `sinks:`", config.Path)
}

// explainQuery adds what to do if a published file cannot be queried.
func explainQuery(path string, err error) error {
	switch {
	case errors.Is(err, query.ErrNoSelect), errors.Is(err, query.ErrParameter):
		return usageError{err}
	case errors.Is(err, query.ErrNotPublished):
		return fmt.Errorf("%s does not exist yet; 'outlierd run' creates it", report.Path(path))
	case errors.Is(err, query.ErrNotRegular):
		return fmt.Errorf("%s is not a regular file; move it away, and 'outlierd run' creates a new one",
			report.Path(path))
	}
	return err
}

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
