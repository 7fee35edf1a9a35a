package warehouse

import (
	"context"
	"errors"
	"fmt"
	"os"

	"outlierd/sinks/duckdb/database"
)

// Rebuild makes the warehouse again beside the old file, without opening that, and replaces it once fill
// has written everything. After an error or a kill, the old file is as it was. The new one has another number, so that
// all copies are made again.
func Rebuild(ctx context.Context, o Options, fill func(*Warehouse) error) error {
	// Anything but a folder or a link may be replaced, including a damaged file.
	if info, err := os.Lstat(o.Path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: move it away, and rebuild again", o.Path)
	}
	made := o
	made.Path, made.Older = o.Path+".rebuild", nil
	clean := func() error {
		return database.Remove(made.Path, made.Path+".wal", made.Path+".new", made.Path+".new.wal")
	}
	if err := clean(); err != nil {
		return fmt.Errorf("remove what an earlier rebuild left: %w", err)
	}
	w := New(made)
	err := fill(w)
	if err == nil {
		err = w.detachFile(ctx)
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = database.Replace(made.Path, o.Path)
	}
	if err != nil {
		return errors.Join(err, clean())
	}
	return nil
}
