package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/term"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sync/job"
	"outlierd/sync/load"
)

func replayCommand(o *options) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "replay RUN --to FILE|FOLDER", Short: "Write the rows of one run to a new file or folder",
		Long: `Decode the answers of a run again, from the journal, and write their rows to a new DuckDB file,
if the name ends in .duckdb, or to a new folder of Parquet files. Nothing is bought, and the
tables of the data folder stay as they are. RUN is a run's id or the beginning of one.

Pages that the run took from the journal belong to the run that received them. Answers that the
journal has pruned are skipped; a line says how many. It works while a daemon runs.

Use it to share the results of one run, or to see how a newer version of outlierd decodes old
answers before you rebuild a sink.`,
		Example: `  outlierd replay 01a204a9-80a2-7f39 --to monday.duckdb
  outlierd replay 01a204a9-80a2-7f39 --to monday/`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if to == "" {
				return usageError{errors.New("--to is missing: name a file that ends in .duckdb, " +
					"or a folder for Parquet")}
			}
			to = filepath.Clean(to) // a folder may be written with a slash at its end
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			if !isPrefix.MatchString(args[0]) {
				return usageError{fmt.Errorf("%q is not a run id, such as 01a204a9-80a2-7f39; "+
					"'outlierd runs' lists them", args[0])}
			}
			if err := refuseOwn(config, to); err != nil {
				return err
			}
			writing, err := lockReplay(to)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, writing.Close()) }()
			if !missing(to) {
				return fmt.Errorf("%s exists: choose another name, or remove it", to)
			}
			return o.glance(c.Context(), config, func(p *program) error {
				return o.replay(c.Context(), p, strings.ToLower(args[0]), to)
			})
		},
	}
	c.Flags().StringVar(&to, "to", "", "the new DuckDB file (.duckdb) or Parquet folder")
	return c
}

// lockReplay locks the folder of to against other replays until the returned file is closed: two replays
// to the same name would write the same temporary files. On a file system without locks it locks nothing.
func lockReplay(to string) (*os.File, error) {
	file, err := os.Open(filepath.Dir(to))
	if err != nil {
		return nil, err
	}
	if errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil, errors.Join(
			fmt.Errorf("another replay is writing in the folder of %s: wait until it has ended", to), file.Close())
	}
	return file, nil
}

// replayed is the output of replay for programs.
type replayed struct {
	Run        string           `json:"run_id"`
	To         string           `json:"to"`
	Answers    int              `json:"answers"`
	Pruned     int              `json:"pruned"`     // answers without a body in the journal
	Unreadable []string         `json:"unreadable"` // answers that could not be decoded, and why
	Rows       map[string]int64 `json:"rows"`       // by table
}

func (o *options) replay(ctx context.Context, p *program, prefix, to string) error {
	row, err := runNamed(p, prefix)
	if err != nil {
		return err
	}
	ids, err := p.Engine.Store.Ledger.AnswersOf(row.ID)
	if err != nil {
		return err
	}
	done := replayed{Run: row.ID, To: to, Unreadable: []string{}}
	fill := func(sink sinks.Sink, _ string) error {
		unreadable := func(id int64, err error) {
			done.Unreadable = append(done.Unreadable, fmt.Sprintf("answer %d: %v", id, err))
		}
		if done.Answers, err = load.Replay(ctx, p.Engine.Store, ids, sink, unreadable); err != nil {
			return err
		}
		return sink.Publish(ctx, nil)
	}
	if err := o.writeCopy(ctx, p.Engine.Config, to, fill); err != nil {
		return fmt.Errorf("replay run %s to %s: %w", row.ID, to, err)
	}
	done.Pruned = len(ids) - done.Answers
	kind := job.SinkParquet
	if isDuckDB(to) {
		kind = job.SinkDuckDB
	}
	if done.Rows, err = o.rowsIn(ctx, p.Engine.Config, job.Sink{Kind: kind}, to); err != nil {
		return err
	}
	return o.printReplayed(done)
}

// writeCopy writes a new DuckDB file or a folder of Parquet files. It gets its name when it is complete.
func (o *options) writeCopy(ctx context.Context, config *job.Config, to string,
	fill func(sinks.Sink, string) error) (err error) {
	if !isDuckDB(to) {
		return parquet.Rebuild(parquet.Options{Dir: to, Tables: schema.Tables()}, fill)
	}
	memory, err := o.duckdbMemory()
	if err != nil {
		return err
	}
	temp, err := newTemporary(config, checkFolders)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	return duckdb.Rebuild(ctx, duckdb.Options{
		Private: filepath.Join(temp.path, duckdb.PrivateName), Published: to, Temp: temp.path, Memory: memory,
		Tables: schema.Tables(), Ops: schema.OpsTables(),
	}, fill)
}

func isDuckDB(name string) bool { return filepath.Ext(name) == ".duckdb" }

func (o *options) printReplayed(r replayed) error {
	err := o.done(r, "%s holds the rows of %s that run %s received\n", r.To, term.Count(r.Answers, "answer"), r.Run)
	if err != nil || o.forPrograms() {
		return err
	}
	lines := r.Unreadable
	if r.Pruned > 0 {
		lines = append(lines, term.Count(r.Pruned, "answer")+" skipped, because the journal is pruned")
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(o.world.out, line); err != nil {
			return err
		}
	}
	var rows [][]any
	for _, t := range schema.Tables() {
		if n := r.Rows[t.Name]; n > 0 {
			rows = append(rows, []any{t.Name, n})
		}
	}
	return o.rows([]string{"table", "rows"}, rows)
}
