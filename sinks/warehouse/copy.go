package warehouse

import (
	"context"
	"errors"
	"fmt"
	"os"

	"outlierd/sinks/duckdb/database"
)

// CopyTo copies the file to path, where no program reads it yet. The copy is read-only and complete: its log is empty,
// every block of it has its checksum, and it is on disk.
func (w *Warehouse) CopyTo(ctx context.Context, path string) error {
	err := w.Run(ctx, func(db *database.DB) error {
		number, err := database.CountCheckpoints(w.options.Path)
		if err == nil {
			_, err = db.Exec(ctx, setMark(database.Published, number+1)) // the checkpoint of detachFile
		}
		return err
	})
	if err == nil {
		err = w.detachFile(ctx)
	}
	if err != nil {
		return err
	}
	err = database.Copy(w.options.Path, path, 0o444)
	if database.Damaged(err) {
		return errors.Join(err, w.removeDamaged(err))
	}
	return err
}

// detachFile closes the file with an empty log. DuckDB goes on running, because to start it takes longer than to open a
// file.
func (w *Warehouse) detachFile(ctx context.Context) error {
	err := w.Run(ctx, func(db *database.DB) error {
		err := db.Checkpoint(ctx)
		if err == nil {
			err = db.Detach(ctx)
		}
		w.attached = err != nil
		return err
	})
	if err != nil {
		return err
	}
	if info, err := os.Stat(w.options.Path + ".wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("the log of the warehouse was not emptied: %s.wal", w.options.Path)
	}
	return nil
}
