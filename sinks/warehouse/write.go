package warehouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Write implements [sinks.Warehouse].
func (w *Warehouse) Write(ctx context.Context, b sinks.Batch) error {
	tried := false
	err := w.Run(ctx, func(db *database.DB) error {
		marks, err := db.Marks(ctx)
		if err != nil {
			return err
		}
		mark := marks.Answers
		if tried && mark == b.Hi { // the COMMIT that failed took effect
			return nil
		}
		if mark != b.Lo {
			return fmt.Errorf("batch (%d, %d] does not follow watermark %d of %s", b.Lo, b.Hi, mark, w.options.Path)
		}
		tried = true
		omitted, err := sinks.ParseOmitted(marks.Omitted)
		if err != nil {
			return err
		}
		return writeBatch(ctx, db, b, omitted)
	})
	if err != nil {
		return err
	}
	return w.tidy(ctx)
}

// writeBatch writes a batch in one transaction. The rows are staged before: within the transaction, DuckDB would keep
// them in memory until its end.
func writeBatch(ctx context.Context, db *database.DB, b sinks.Batch, omitted sinks.Omitted) error {
	var sql []string
	staged := map[string]bool{}
	stage := func(name string, rows arrow.RecordBatch) error {
		if rows == nil || staged[name] {
			return nil
		}
		staged[name] = true
		return db.Stage(ctx, name, rows)
	}
	parts := slices.Clone(b.Parts) // first those of tables that only grow: others drop staged rows that these still have
	slices.SortStableFunc(parts, func(x, y schema.Part) int { return len(x.Table.Identity()) - len(y.Table.Identity()) })
	for _, part := range parts {
		from, upTo := cmp.Or(part.From, part.Table), omitted.UpTo[part.Table.Name]
		if upTo == sinks.Whole {
			continue
		}
		err := errors.Join(stage(stagedRows(from), part.Rows), stage(stagedGone(part.Table), part.Gone))
		if err != nil {
			return fmt.Errorf("table %s: %w", part.Table.Name, err)
		}
		sql = append(sql, changeOf(part.Table, from, part.Gone != nil, omitted.Columns[part.Table.Name]))
		if upTo > b.Lo { // the table is built again
			sql = append(sql, deleteUpTo(part.Table, upTo))
		}
	}
	if err := commitStaged(ctx, db, append(sql, setMark(database.Journal, b.Hi)), staged); err != nil {
		return fmt.Errorf("commit answers %d to %d: %w", b.Lo+1, b.Hi, err)
	}
	return nil
}

// commitStaged performs statements in a transaction, and then drops the staged tables.
func commitStaged(ctx context.Context, db *database.DB, sql []string, staged map[string]bool) error {
	sql = append(sql, "COMMIT")
	for name := range staged {
		sql = append(sql, "DROP TABLE temp."+name)
	}
	_, err := db.Exec(ctx, "BEGIN;\n"+strings.Join(sql, ";\n"))
	return err
}

func stagedRows(t *schema.Table) string { return "rows_" + t.FileName() }
func stagedGone(t *schema.Table) string { return "gone_" + t.FileName() }

func setMark(mark string, to int64) string {
	return fmt.Sprintf("UPDATE warehouse.outlierd.marks SET id = %d WHERE name = %s", to, database.Text(mark))
}

// WriteOps implements [sinks.Warehouse]. It is one transaction.
func (w *Warehouse) WriteOps(ctx context.Context, ops *sinks.Ops) error {
	var marks database.Marks
	err := w.Run(ctx, func(db *database.DB) (err error) {
		if marks, err = db.Marks(ctx); err != nil {
			return err
		}
		if ops.Since != 0 && ops.Since != marks.Ops {
			return fmt.Errorf("changes since version %d do not follow version %d of %s",
				ops.Since, marks.Ops, w.options.Path)
		}
		return w.writeTails(ctx, db, ops)
	})
	if err == nil {
		err = w.tidy(ctx)
	}
	if err != nil {
		return fmt.Errorf("operations tables: %w", err)
	}
	return w.vacuumIfDue(ctx, marks.Vacuum)
}

func (w *Warehouse) writeTails(ctx context.Context, db *database.DB, ops *sinks.Ops) error {
	var sql []string
	staged := map[string]bool{}
	for part, err := range ops.Rows {
		if err == nil {
			err = db.Stage(ctx, stagedRows(part.Table), part.Rows)
		}
		if err != nil {
			return err
		}
		staged[stagedRows(part.Table)] = true
	}
	for _, t := range w.options.Tables {
		if from, changed := ops.From[t.Name]; changed {
			sql = append(sql, deleteTail(t, from, ops.Version, staged))
		}
		if staged[stagedRows(t)] {
			sql = append(sql, fmt.Sprintf("INSERT INTO %s BY NAME SELECT *, %d AS _version FROM temp.%s",
				database.TableName(t), ops.Version, stagedRows(t)))
		}
	}
	return commitStaged(ctx, db, append(sql, setMark(database.Operations, ops.Version)), staged)
}

// deleteTail deletes the rows with a number of at least from, and records those as deleted that are not staged to be
// inserted again.
func deleteTail(t *schema.Table, from, version int64, staged map[string]bool) string {
	tail := fmt.Sprintf("FROM %s WHERE id >= %d", database.TableName(t), from)
	gone := tail
	if staged[stagedRows(t)] {
		gone += " AND id NOT IN (SELECT id FROM temp." + stagedRows(t) + ")"
	}
	return fmt.Sprintf("INSERT INTO warehouse.outlierd.deleted SELECT %s, id, %d, NULL %s; DELETE %s",
		database.Text(t.Name), version, gone, tail)
}

// tidy checkpoints the file if its log is long, and gives back the memory that was used.
func (w *Warehouse) tidy(ctx context.Context) error {
	if log, err := os.Stat(w.options.Path + ".wal"); err == nil && log.Size() >= longLog(w.room) {
		return errors.Join(w.detachFile(ctx), w.Close())
	}
	return w.Run(ctx, func(db *database.DB) error { return db.Release(ctx) })
}

// maxLog limits [longLog], because a log is replayed after a kill.
const maxLog = 64 << 20

// longLog returns the size in bytes at which the write-ahead log of the file is checkpointed.
// Without this, DuckDB would do it in the middle of a commit: an error would then leave open whether the
// rows are in the file, and memory would hold the batch and the checkpoint together. The rows of the log
// stay in memory until the checkpoint. Data that does not fit then goes to disk, and DuckDB writes each
// of our small blocks to a file of its own: with twice as much log for the same memory, these files cost
// as much as everything else.
func longLog(r room) int64 { return min(r.now/8, maxLog) }
