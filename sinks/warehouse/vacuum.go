package warehouse

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"outlierd/internal/machine"
	"outlierd/sinks/duckdb/database"
)

// After many small batches, a DuckDB file is up to half empty: each batch moves the ends of 300 columns
// to other blocks, and the file never shrinks. So the file is copied to a new one once a week, if
// that saves at least a fifth. The copy replaces the file only once it is complete.

const (
	vacuumEvery = 7 * 24 * time.Hour
	vacuumSaves = 0.2 // minimum share of the file that a vacuum must free
)

// vacuumIfDue shrinks the file if that is due: last is when it was done, in Unix seconds. It waits if the disk has no
// space for a second file, or DuckDB no memory.
func (w *Warehouse) vacuumIfDue(ctx context.Context, last int64) error {
	now := w.now()
	if since := now.Sub(time.Unix(last, 0)); since >= 0 && since < vacuumEvery {
		return nil
	}
	if last > 0 {
		err := w.Run(ctx, func(db *database.DB) error { return w.rewrite(ctx, db) })
		if err != nil && !database.OutOfMemory(err) {
			return err
		}
	}
	return w.Run(ctx, func(db *database.DB) error {
		_, err := db.Exec(ctx, setMark(database.Vacuum, now.Unix()))
		return err
	})
}

// rewrite replaces the file by a copy without free blocks, if that saves enough. It closes the file.
func (w *Warehouse) rewrite(ctx context.Context, db *database.DB) error {
	if err := db.Checkpoint(ctx); err != nil {
		return err
	}
	rows, err := db.Query(ctx, `SELECT (used_blocks * block_size)::BIGINT, (total_blocks * block_size)::BIGINT
		FROM pragma_database_size() WHERE database_name = 'warehouse'`)
	if err != nil {
		return fmt.Errorf("size of %s: %w", w.options.Path, err)
	}
	used, total := rows[0][0].(int64), rows[0][1].(int64)
	room, err := machine.FreeSpace(filepath.Dir(w.options.Path))
	if err != nil || float64(total-used) < vacuumSaves*float64(total) || room < uint64(used+used/5) {
		return err
	}
	made := w.options.Path + ".vacuumed"
	if err := database.Remove(made, made+".wal"); err != nil { // of a vacuum that was killed
		return err
	}
	_, err = db.Exec(ctx, fmt.Sprintf("ATTACH %s AS vacuumed (%s); COPY FROM DATABASE warehouse TO vacuumed; "+
		"CHECKPOINT vacuumed; DETACH vacuumed", database.Text(made), database.NewFile))
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = database.Replace(made, w.options.Path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("vacuum %s: %w", w.options.Path, err), w.Close(), database.Remove(made, made+".wal"))
	}
	return nil
}
