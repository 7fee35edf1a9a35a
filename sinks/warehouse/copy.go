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
			_, err = db.Exec(ctx, setMark(database.Published, number+1)) // the checkpoint of closeSettled
		}
		return err
	})
	if err == nil {
		err = w.closeSettled(ctx)
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

// closeSettled closes the file with an empty log.
func (w *Warehouse) closeSettled(ctx context.Context) error {
	err := w.Run(ctx, func(db *database.DB) error { return errors.Join(db.Checkpoint(ctx), w.Close()) })
	if err != nil {
		return err
	}
	if info, err := os.Stat(w.options.Path + ".wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("the log of the warehouse was not emptied: %s.wal", w.options.Path)
	}
	return nil
}
