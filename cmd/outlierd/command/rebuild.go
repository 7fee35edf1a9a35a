package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/term"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/iceberg"
	"outlierd/sinks/parquet"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/load"
)

func rebuildCommand(o *options) *cobra.Command {
	var without bool
	c := &cobra.Command{
		Use: "rebuild SINK…", Short: "Rebuild a sink from the journal",
		Long: `Rebuild sinks (duckdb, parquet or iceberg) from the answers in the journal. Nothing is bought again.
The new files are built beside the old ones and replace them at the end. Until then readers
see the old tables, and a rebuild that is stopped changes nothing. It needs as much free
space as the sink uses. Stop a running daemon first.

Objects in a bucket are replaced too, and the old ones deleted at once.

Rows of answers that the journal has pruned are copied from the other sink. If that is not
possible, nothing is changed.

Use it if a sink is damaged, or to fill columns that a newer version of outlierd has added.`,
		Example: `  outlierd rebuild duckdb`,
		Args:    cobra.MinimumNArgs(1), ValidArgs: []string{job.SinkDuckDB, job.SinkParquet, job.SinkIceberg},
		RunE: func(c *cobra.Command, names []string) error { return o.rebuild(c.Context(), names, without) },
	}
	c.Flags().BoolVar(&without, "without-pruned", false, "leave out rows of pruned answers that no other sink has")
	return c
}

// rebuilt is the output of rebuild for programs.
type rebuilt struct {
	Sink    string  `json:"sink"`
	Answers int64   `json:"answers"` // of the journal that the sink has
	Seconds float64 `json:"seconds"`

	Copied int64  `json:"copied"` // the last answer whose rows were copied, because it is pruned; 0 if none were
	From   string `json:"from"`   // the sink that they were copied from

	Rows map[string]int64 `json:"rows"` // by table
}

func (o *options) rebuild(ctx context.Context, names []string, without bool) error {
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(config.Sinks, func(s job.Sink) bool { return s.Kind == name }) {
			return usageError{fmt.Errorf("%s has no sink %q; it has: %s", o.config, name,
				term.OneOf(sinkKinds(config)))}
		}
	}
	return o.alone(ctx, config, func(p *program) error {
		for _, s := range config.Sinks {
			if !slices.Contains(names, s.Kind) {
				continue
			}
			if err := o.ahead(ctx, p, s); err != nil {
				return err
			}
			done, err := o.rebuildWhole(ctx, p, s, without)
			if err != nil {
				return fmt.Errorf("rebuild sink %s: %w", s.Kind, err)
			}
			if err := o.printRebuilt(done); err != nil {
				return err
			}
		}
		return nil
	})
}

func sinkKinds(config *job.Config) (kinds []string) {
	for _, s := range config.Sinks {
		kinds = append(kinds, s.Kind)
	}
	return kinds
}

// ahead refuses to rebuild a sink that has more answers than the journal, because it would lose them. A
// sink that cannot be read has nothing to lose.
func (o *options) ahead(ctx context.Context, p *program, s job.Sink) error {
	end, err := p.Engine.Store.Journal.End()
	if err != nil {
		return err
	}
	sink, err := o.openSink(ctx, p, s)
	if err == nil {
		var mark int64
		mark, err = sink.Watermark(ctx)
		if err == nil && mark > end {
			return errors.Join(&load.AheadError{Sink: s.Kind, Mark: mark, End: end}, sink.Close())
		}
		err = errors.Join(err, sink.Close())
	}
	switch {
	case err == nil:
		return nil
	case s.Lake != nil && !errors.Is(err, iceberg.ErrRebuild): // unreachable, maybe with more answers
		return err
	}
	p.Engine.Log.Warn("old sink unreadable", "sink", s.Kind, "err", err)
	return nil
}

// ofLostState returns an error if a sink to erase from has answers of a state that was lost: the rebuild
// would lose them. 'outlierd rebuild' does that after a warning. A sink that cannot be read has nothing
// to lose.
func (o *options) ofLostState(ctx context.Context, p *program, s job.Sink) error {
	restores, err := p.Engine.Store.Restores()
	if err != nil || len(restores) == 0 {
		return err
	}
	sink, err := o.openSink(ctx, p, s)
	if err != nil {
		return nil
	}
	mark, err := sink.Watermark(ctx)
	if err != nil {
		return errors.Join(err, sink.Close())
	}
	version, err := sink.OpsVersion(ctx)
	if lost := restores.LostWith(s.Kind, version, mark); err == nil && lost != nil {
		err = &load.LostStateError{Sink: s.Kind, Mark: mark, Backup: lost.Answers}
	}
	return errors.Join(err, sink.Close())
}

func (o *options) openSink(ctx context.Context, p *program, s job.Sink) (sinks.Sink, error) {
	if s.Lake != nil {
		return p.openLake(ctx, o, s)
	}
	memory, err := o.duckdbMemory()
	if err != nil {
		return nil, err
	}
	return openSink(ctx, s.Kind, sinkPath(p.Engine.Config, s), stateFolder(p.Engine.Config), memory, p.Engine.Log)
}

// rebuildWhole rebuilds a sink, if possible with the rows of pruned answers.
func (o *options) rebuildWhole(ctx context.Context, p *program, s job.Sink, without bool) (*rebuilt, error) {
	rows, err := o.olderRows(ctx, p, s, others(p.Engine.Config, s), without)
	if lost, is := errors.AsType[*lostError](err); is && without {
		rows, err = &older{upTo: lost.pruned, lacks: lost.pruned}, nil
	}
	if err != nil {
		return nil, err
	}
	done, err := o.rebuildSink(ctx, p, s, rows)
	return done, errors.Join(err, rows.Close())
}

// rebuildSink builds a new sink and replaces the old one by it. rows has the rows of pruned answers.
func (o *options) rebuildSink(ctx context.Context, p *program, s job.Sink, rows *older) (*rebuilt, error) {
	memory, err := o.duckdbMemory()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	end, err := p.Engine.Store.Journal.End()
	if err != nil {
		return nil, err
	}
	fill := func(sink sinks.Sink, published string) error {
		into := &rebuilding{Sink: sink, end: end, show: o.journalProgress(p.Engine.Log, "rebuilding sink "+s.Kind)}
		defer o.block.Erase()
		if err := rows.begin(ctx, into); err != nil {
			return err
		}
		p.Engine.Sinks = []sinks.Sink{into}
		err := p.Engine.Fill(ctx)
		p.Engine.Sinks = nil
		if err != nil {
			return err
		}
		return rows.end(ctx, s.Kind, sink, published)
	}
	config := p.Engine.Config
	path, folder := sinkPath(config, s), stateFolder(config)
	err = rows.recorded(p.Engine.Store.Runs, s.Kind, func() error {
		if s.Kind == job.SinkParquet {
			err := parquet.Rebuild(parquet.Options{Dir: path, Tables: schema.Tables(), Ops: schema.OpsTables()}, fill)
			if err == nil && s.Bucket != "" { // the old objects are removed at once: they may contain erased data
				err = bucket.NewCopy(path, o.bucketOf(config, s)).Update(ctx, 0)
			}
			return err
		}
		if s.Lake != nil {
			return p.rebuildLake(ctx, o, s, fill)
		}
		return duckdb.Rebuild(ctx, duckdb.Options{
			Private: filepath.Join(folder, duckdb.PrivateName), Published: path,
			Temp: filepath.Join(folder, "tmp"), Memory: memory, Tables: schema.Tables(), Ops: schema.OpsTables(),
		}, fill)
	})
	if err != nil {
		return nil, writable(err, config.Data)
	}
	done := &rebuilt{Sink: s.Kind, Answers: end, Seconds: time.Since(began).Seconds()}
	if rows != nil && rows.from != nil {
		done.Copied, done.From = rows.upTo, rows.from.Kind
	}
	done.Rows, err = o.rowsIn(ctx, config, s, path)
	return done, err
}

// rebuildLake replaces what this state folder has written to a lake.
func (p *program) rebuildLake(ctx context.Context, o *options, s job.Sink, fill func(sinks.Sink, string) error) error {
	instance, err := p.Engine.Store.NamedInstance()
	if err != nil {
		return err
	}
	temp, err := newTemporary(p.Engine.Config, lakeFolders)
	if err != nil {
		return err
	}
	return errors.Join(iceberg.Rebuild(ctx, o.lakeOf(s, instance), filepath.Join(temp.path, "parquet"), fill),
		temp.Close())
}

// rowsIn counts the published rows of a sink, by table.
func (o *options) rowsIn(ctx context.Context, config *job.Config, s job.Sink,
	path string) (_ map[string]int64, err error) {
	reader := compare.Open(temporaryFolder(config))
	defer func() { err = errors.Join(err, reader.Close()) }()
	place, temp, err := o.openStill(ctx, reader, config, s, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	if len(place.Problems) > 0 {
		return nil, fmt.Errorf("read %s again: %s", path, place.Problems[0])
	}
	rows := map[string]int64{}
	for _, t := range schema.Tables() {
		n, err := reader.Rows(ctx, place.Source, t)
		if err != nil {
			return nil, err
		}
		rows[t.Name] = n.Count
	}
	return rows, nil
}

// printRebuilt prints the result, with the rows of each table.
func (o *options) printRebuilt(r *rebuilt) error {
	took := term.Duration(time.Duration(r.Seconds * float64(time.Second)))
	err := o.done(r, "sink %s rebuilt from %s in %s\n", r.Sink, term.Count(r.Answers, "answer"), took)
	if err != nil || o.forPrograms() {
		return err
	}
	if r.Copied > 0 {
		if _, err := fmt.Fprintf(o.world.out, "the rows of answers 1 to %d were copied from sink %s, "+
			"because the journal is pruned\n",
			r.Copied, r.From); err != nil {
			return err
		}
	}
	var rows [][]any
	for _, t := range schema.Tables() {
		rows = append(rows, []any{t.Name, r.Rows[t.Name]})
	}
	return o.rows([]string{"table", "rows"}, rows)
}

// rebuilding is a sink being filled that reports its progress.
type rebuilding struct {
	sinks.Sink
	end  int64
	show func(done, of int64)
}

// Write implements [sinks.Sink].
func (r *rebuilding) Write(ctx context.Context, b sinks.Batch) error {
	err := r.Sink.Write(ctx, b)
	if err == nil {
		r.show(b.Hi, r.end)
	}
	return err
}

// journalProgress reports the progress of a long pass over the journal: at a terminal in a line that is
// redrawn, elsewhere in the log.
func (o *options) journalProgress(log *slog.Logger, what string) func(done, of int64) {
	every := rate.Sometimes{Interval: logLine}
	began := time.Now()
	return func(done, of int64) {
		if o.redraws() {
			o.block.Draw(func(int) []string {
				return []string{fmt.Sprintf("%s: answers %d of %d  %s", what, done, of,
					term.Bar(int(100*done/max(of, 1)), 100))}
			})
			return
		}
		if time.Since(began) < logLine {
			return
		}
		every.Do(func() { log.Info("progress", "of", what, "answers", done, "total", of) })
	}
}

// alone opens the state for work that must not run beside a daemon.
func (o *options) alone(ctx context.Context, config *job.Config, work func(*program) error) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	folder := stateFolder(config)
	if missing(folder) {
		return fmt.Errorf("there is no state in %s yet; the first run creates it", folder)
	}
	o.act(false)
	p := &program{Engine: &engine.Engine{Config: config, Log: log}}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.openState(ctx, stateFolder(config)); err != nil {
		return err
	}
	return work(p)
}
