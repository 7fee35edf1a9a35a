// Package duckdb publishes the warehouse as one DuckDB file that readers never find locked: a whole copy, which
// replaces the one before by a rename. Programs that have the old copy open keep it, and the next open sees the new
// one.
package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
)

// Unfinished ends the name of a published file that is not complete yet. No glob for *.duckdb matches it.
const Unfinished = ".new"

var _ sinks.Copy = (*Copy)(nil)

// Copy is a [sinks.Copy].
type Copy struct {
	warehouse *warehouse.Warehouse
	path      string // of the published file
	temp      string // folder for temporary files

	known os.FileInfo    // the published file when its marks were last read or written
	marks database.Marks // its marks
}

// New returns the copy of w at path. It opens nothing yet. temp is a folder for temporary files.
func New(w *warehouse.Warehouse, path, temp string) *Copy {
	return &Copy{warehouse: w, path: path, temp: temp}
}

// Name implements [sinks.Copy].
func (c *Copy) Name() string { return "duckdb" }

// Close implements [sinks.Copy].
func (c *Copy) Close() error { return nil }

// Shows implements [sinks.Copy].
func (c *Copy) Shows(ctx context.Context) (sinks.Marks, error) {
	marks, err := c.shown(ctx)
	return marks.Marks, err
}

// Publish implements [sinks.Copy]. For readers it is atomic.
func (c *Copy) Publish(ctx context.Context) error {
	shown, err := c.shown(ctx)
	if err != nil {
		return err
	}
	var have database.Marks
	err = c.warehouse.Run(ctx, func(db *database.DB) (err error) {
		have, err = db.Marks(ctx)
		return err
	})
	if err != nil || isCopy(shown, have) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return fmt.Errorf("folder of the published DuckDB file: %w", err)
	}
	made := c.path + Unfinished
	err = c.warehouse.CopyTo(ctx, made)
	if err == nil {
		err = database.Replace(made, c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("publish %s: %w", c.path, err), database.Remove(made))
	}
	c.marks = have
	c.known, err = os.Lstat(c.path)
	return err
}

// isCopy reports whether files with these marks have the same rows. A vacuum changes none, but another program may.
func isCopy(a, b database.Marks) bool {
	a.Vacuum, b.Vacuum, a.Published, b.Published = 0, 0, 0, 0
	return a == b
}

// What the operator can do about another file in the place of the published one.
const elsewhere = "move it away, or set another path for the DuckDB sink"

// shown returns the marks of the published file, and reads them only if the file is another one than before.
func (c *Copy) shown(ctx context.Context) (database.Marks, error) {
	info, err := os.Lstat(c.path)
	if os.IsNotExist(err) {
		return database.Marks{}, nil
	}
	if err == nil {
		err = database.CheckFile(c.path, elsewhere)
	}
	if err != nil {
		return database.Marks{}, err
	}
	if c.known != nil && os.SameFile(info, c.known) && info.ModTime().Equal(c.known.ModTime()) {
		return c.marks, nil
	}
	marks, err := c.read(ctx)
	if err != nil {
		return marks, err
	}
	c.known, c.marks = info, marks
	return marks, nil
}

// read reads the marks of the published file. If that is impossible, the copy counts as missing, unless the warehouse
// is empty: then it may be the only copy of paid data.
func (c *Copy) read(ctx context.Context) (database.Marks, error) {
	marks, err := c.readFile(ctx)
	switch {
	case err == nil:
		return marks, nil
	case errors.Is(err, database.ErrForeign):
		return marks, fmt.Errorf("%s: %w: %s", c.path, err, elsewhere)
	case ctx.Err() != nil:
		return marks, err
	}
	have, failed := c.warehouse.Marks(ctx)
	if failed != nil {
		return marks, errors.Join(err, failed)
	}
	if have.Answers == 0 {
		return marks, fmt.Errorf("%s cannot be read, and the warehouse is empty: %w (if it may go: move it away)", c.path, err)
	}
	return database.Marks{}, nil
}

// readFile reads the marks of the published file, or of a copy of it: another program that has the file open for
// writing, or was killed while it had, may leave a lock or a log that prevents reading.
func (c *Copy) readFile(ctx context.Context) (database.Marks, error) {
	marks, err := database.ReadMarks(ctx, c.path)
	if err == nil || errors.Is(err, database.ErrForeign) || ctx.Err() != nil {
		return marks, err
	}
	if err := os.Mkdir(c.temp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return marks, err
	}
	aside := filepath.Join(c.temp, "published")
	if err := database.Copy(c.path, aside, 0o400); err != nil {
		return marks, err
	}
	marks, err = database.ReadMarks(ctx, aside)
	return marks, errors.Join(err, database.Remove(aside))
}
