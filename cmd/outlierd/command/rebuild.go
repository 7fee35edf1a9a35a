package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sinks"
	"outlierd/sinks/bucket"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
	"outlierd/sync/load"
	"outlierd/sync/ops"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

func rebuildCommand(g *globals) *cobra.Command {
	var without bool
	c := &cobra.Command{
		Use: "rebuild", Short: "Rebuild all tables from the journal",
		Long: `Rebuild the warehouse from the answers in the journal, and make its copies again: the DuckDB
file, the Parquet folder, buckets and lakes. Nothing is bought again. Until the end readers see
the old tables, and a rebuild that is stopped changes nothing. It needs as much free space as
the warehouse uses. Stop a running daemon first.

Use it if 'outlierd check' finds a difference, to fill columns that a newer version of outlierd
has added, or to bring back what "tables" in the job file keeps again. A copy alone that is
damaged or deleted is made again by the next run. So is a copy that cannot be made now: the
exit code is then 3.`,
		Example: `  outlierd rebuild`,
		RunE: g.inSession(toRepair, func(ctx context.Context, p *program, _ []string) error {
			if err := refuseAhead(ctx, p, isAccepted); err != nil {
				return err
			}
			older, err := olderRows(ctx, p)
			if err != nil && !without {
				return err
			}
			done, err := rebuildAll(ctx, g.out, p, older)
			if err != nil {
				return fmt.Errorf("rebuild the tables: %w", err)
			}
			if err := g.out.print(done, "%s", done); err != nil || len(done.Behind) == 0 {
				return err
			}
			fmt.Fprintf(g.world.err, "outlierd: %s\n  the next run tries again\n", strings.Join(done.Behind, "\noutlierd: "))
			return statusError{runs.Partial}
		}),
	}
	c.Flags().BoolVar(&without, "without-pruned", false, "leave out rows of pruned answers if they cannot be read")
	return c
}

// rebuilt is the output of rebuild for programs.
type rebuilt struct {
	Answers int64         `json:"answers"` // of the journal that the tables have
	Seconds store.Seconds `json:"seconds"`
	Kept    int64         `json:"kept"` // the last answer whose rows were taken from From, because it is pruned; 0 if none were
	From    string        `json:"from"`
	Behind  []string      `json:"behind"` // why copies were not made again; the next run does it
}

func (r *rebuilt) String() string {
	text := fmt.Sprintf("tables rebuilt from %s in %s\n", term.Count(r.Answers, "answer"), term.Duration(r.Seconds.Duration))
	if r.Kept > 0 {
		text += fmt.Sprintf("the rows of answers 1 to %d were taken from %s, because the journal is pruned\n", r.Kept, r.From)
	}
	return text
}

// refuseAhead returns an error if the warehouse or a copy has other answers than the journal, which would be lost,
// unless accepts returns true for it. What cannot be read has nothing to lose.
func refuseAhead(ctx context.Context, p *program, accepts func(error) bool) error {
	check := func(name string, has sinks.Marks, err error) error {
		switch {
		case errors.Is(err, database.ErrForeign):
			return err
		case err != nil:
			p.Engine.Log.Warn("old tables unreadable", "sink", name, "err", err)
			return nil
		}
		if err = load.CheckMarks(p.Engine.Store, name, has); accepts(err) {
			return nil
		}
		return err
	}
	has, err := p.Engine.Line.Warehouse.Marks(ctx)
	err = check("warehouse", has, err)
	for _, c := range p.Engine.Line.Copies {
		if err == nil {
			has, err = c.Shows(ctx)
			err = check(c.Name(), has, err)
		}
	}
	return err
}

// isAccepted accepts tables of the state that was lost before a backup was restored: runs are refused beside them, and
// name the rebuild as one of the remedies.
func isAccepted(err error) bool {
	ahead, is := errors.AsType[*load.AheadError](err)
	return isA[*load.LostStateError](err) || is && ahead.Restored
}

// older says where a new warehouse gets the rows of pruned answers.
type older struct {
	upTo   int64            // the last answer that was pruned; 0 if the journal has all answers
	file   string           // a DuckDB file; "" leaves the rows out
	except warehouse.Except // what is erased
}

// olderRows finds the rows of pruned answers: in the warehouse, which takes them from a copy if it lacks them.
func olderRows(ctx context.Context, p *program) (r older, err error) {
	if r.upTo, err = p.Engine.Store.Journal.Pruned(); err != nil || r.upTo == 0 {
		return r, err
	}
	rows, path := p.Engine.Line.Warehouse, warehouseOptions(p.Engine.Config, p.memory, p.Engine.Log).Path
	has, err := rows.Marks(ctx)
	if err == nil {
		err = rows.Close()
	}
	if err == nil {
		if warehouse.IsDamaged(path) {
			has = sinks.Marks{}
		}
		has.Answers, err = sharedAnswers(p.Engine.Store, has)
	}
	if err == nil {
		_, err = load.Refill(ctx, p.Engine.Store, rows, has)
	}
	if err != nil {
		return r, explainUnwritable(err, p.Engine.Config.Data)
	}
	r.file = path
	return r, nil
}

// sharedAnswers returns the last answer that a warehouse has in common with the journal: one of a state that was lost
// has others after those of the backup.
func sharedAnswers(journal *state.Store, has sinks.Marks) (int64, error) {
	restores, err := ops.ReadRestores(journal.DB)
	if lost := restores.LostWith(has.Ops, has.Answers); lost != nil {
		return lost.Answers, err
	}
	return has.Answers, err
}

// rebuildAll builds a new warehouse, replaces the old one by it, and makes all copies again.
func rebuildAll(ctx context.Context, out *printer, p *program, from older) (*rebuilt, error) {
	began, config := time.Now(), p.Engine.Config
	end, err := p.Engine.Store.Journal.End()
	if err != nil {
		return nil, err
	}
	omitted, err := load.Omitted(config.Tables, p.Engine.Store)
	if err != nil {
		return nil, err
	}
	done := &rebuilt{Answers: end, Behind: []string{}}
	for _, c := range p.Engine.Line.Copies { // they read the old file
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	if w := p.Engine.Line.Warehouse; w != nil {
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
	p.Engine.Line = load.Line{}
	defer out.block.Erase()
	like := sinks.Marks{Answers: end, Omitted: omitted.String()}
	err = warehouse.Rebuild(ctx, warehouseOptions(config, p.memory, p.Engine.Log), func(w *warehouse.Warehouse) error {
		return fillWarehouse(ctx, p.Engine.Store, w, from, like, journalProgress(out, p.Engine.Log, "rebuilding the tables"))
	})
	if err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	out.block.Erase()
	if err := p.addLine(); err != nil {
		return nil, err
	}
	for i, s := range config.Sinks { // also those with answers of a state that was lost
		c := p.Engine.Line.Copies[i]
		err := c.Publish(ctx)
		if err == nil && s.Bucket != "" {
			// The old objects are removed at once: they may contain erased data.
			err = bucket.New(sinkPath(config, s), bucketOf(config, s, p.env)).Update(ctx, 0)
		}
		if err == nil {
			err = p.Engine.Store.Sinks.SetPublished(c.Name(), done.Answers)
		}
		if err != nil {
			done.Behind = append(done.Behind, term.Plain(fmt.Sprintf("publish sink %s: %v", c.Name(), adviseOnSink(config, s.Kind, err))))
		}
	}
	done.Seconds.Duration = time.Since(began)
	if from.file != "" {
		done.Kept, done.From = from.upTo, report.Path(from.file)
	}
	return done, nil
}

// fillWarehouse fills a new warehouse from the journal so that it is like others with the same marks. Rows of pruned
// answers are taken from an older file.
func fillWarehouse(ctx context.Context, journal *state.Store, w *warehouse.Warehouse, from older, like sinks.Marks,
	show func(done, of int64)) error {
	at := func(id int64) { show(id, like.Answers) }
	omitted, err := sinks.ParseOmitted(like.Omitted)
	if err != nil {
		return err
	}
	if from.file != "" {
		err = adoptRows(ctx, journal, w, from, at)
	} else if from.upTo > 0 {
		err = w.Write(ctx, sinks.Batch{Hi: from.upTo})
	}
	if err == nil {
		err = load.Project(ctx, journal, like.Answers, w, at)
	}
	if err == nil {
		err = w.Omit(ctx, omitted)
	}
	if err != nil {
		return err
	}
	operations, err := load.Operations(journal)
	if err != nil {
		return err
	}
	return w.WriteOps(ctx, operations)
}

// adoptRows brings a new warehouse to what the older file has.
func adoptRows(ctx context.Context, journal *state.Store, w *warehouse.Warehouse, from older, at func(id int64)) error {
	has, err := warehouse.ReadMarks(ctx, from.file)
	if err != nil {
		return err
	}
	shared, err := sharedAnswers(journal, has)
	if err == nil {
		err = w.Adopt(ctx, from.file, from.upTo, from.except)
	}
	if err == nil {
		err = load.Project(ctx, journal, shared, w, at)
	}
	if err != nil {
		return err
	}
	return w.CarryOver(ctx, from.file, from.upTo)
}

// journalProgress reports the progress of a long pass over the journal: at a terminal in a line that is
// redrawn, elsewhere in the log.
func journalProgress(out *printer, log *slog.Logger, what string) func(done, of int64) {
	every := rate.Sometimes{Interval: logLine}
	began := time.Now()
	return func(done, of int64) {
		if out.redraws() {
			out.block.Draw(fmt.Sprintf("%s: answers %d of %d  %s", what, done, of, term.Bar(int(100*done/max(of, 1)), 100)))
			return
		}
		if time.Since(began) < logLine {
			return
		}
		every.Do(func() { log.Info("progress", "of", what, "answers", done, "total", of) })
	}
}

func pruneCommand(g *globals) *cobra.Command {
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Prune the journal according to its retention",
		Long: `Remove the bodies of answers beyond retention.journal, and return the space to the disk. Their
rows stay in the tables. 'outlierd up' prunes by itself, in small steps. Use this command if a timer calls 'outlierd
run'. --compact rewrites the file, which needs as much free space. Stop a running daemon first.`,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			if config.Retention == 0 && !compact {
				return g.out.print(prunedNow{}, "%s has no retention.journal: everything is kept\n", g.config)
			}
			return g.with(c.Context(), config, toRepair, func(p *program) error {
				return pruneJournal(c.Context(), g.out, p, compact)
			})
		},
	}
	c.Flags().BoolVar(&compact, "compact", false, "rewrite the state file without its free space")
	return c
}

// prunedNow is the output of prune for programs.
type prunedNow struct {
	Answers int64 `json:"answers"` // whose bodies were removed now
	UpTo    int64 `json:"up_to"`   // the last answer without a body in the journal
	Bytes   int64 `json:"bytes"`   // of the state's file
	Free    int64 `json:"free"`    // of these, unused
}

func pruneJournal(ctx context.Context, out *printer, p *program, compact bool) error {
	journal, db := p.Engine.Store.Journal, p.Engine.Store.DB
	before, err := journal.Pruned()
	if err != nil {
		return err
	}
	end, err := journal.End()
	if err != nil {
		return err
	}
	show := journalProgress(out, p.Engine.Log, "pruned")
	now := prunedNow{UpTo: before}
	err = p.Engine.Prune(ctx, func(upTo int64) { now.UpTo = upTo; show(upTo, end) })
	out.block.Erase()
	if err == nil && compact {
		err = db.Compact(ctx)
	}
	if err != nil {
		return err
	}
	room, err := store.ReadInside(db)
	if err != nil {
		return err
	}
	now.Answers, now.Bytes, now.Free = now.UpTo-before, room.Bytes, room.Free
	return out.print(now, "%s pruned, up to answer %d; the state has %s, %s of it free\n",
		term.Count(now.Answers, "answer"), now.UpTo, report.Size(now.Bytes), report.Size(now.Free))
}
