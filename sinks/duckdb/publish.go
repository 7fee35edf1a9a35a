//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks"
)

// Publish implements [sinks.Sink]. Readers see it as one step: whoever opened the
// published file before keeps the old one.
func (s *Sink) Publish(ctx context.Context, ops []sinks.Ops) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	for _, o := range ops {
		if err := s.withRoom(func() error { return s.news(ctx, o) }); err != nil {
			return err
		}
	}
	return s.withRoom(func() error { return s.publish(ctx) })
}

// news tells what is new of an operations table, if anything is.
func (s *Sink) news(ctx context.Context, o sinks.Ops) error {
	mark, err := s.OpsMark(ctx, o.Part.Table)
	if err != nil {
		return err
	}
	if o.Part.Rows.NumRows() == 0 && o.Mark == mark {
		return nil
	}
	s.dirty = true
	if err := s.tell(ctx, o, mark); err != nil {
		return s.abandon(fmt.Errorf("table %s: %w", o.Part.Table.Name, err))
	}
	return nil
}

// publish swaps the published file, if there is anything new to see.
func (s *Sink) publish(ctx context.Context) error {
	if _, err := os.Lstat(s.options.Published); err == nil && !s.dirty {
		return nil
	}
	return s.swap(ctx)
}

// tell replaces the rows above the mark, in a transaction of its own: operations
// tables do not depend on one another.
func (s *Sink) tell(ctx context.Context, o sinks.Ops, mark int64) error {
	if o.Mark < mark {
		return fmt.Errorf("mark %d is behind %d: rows cannot cease to be final", o.Mark, mark)
	}
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	c := &change{table: o.Part.Table, count: o.Part.Rows.NumRows()}
	defer c.release()
	if c.count > 0 {
		if c.rows, err = c.offer(in, "rows_ops", o.Part.Rows); err != nil {
			return err
		}
	}
	open := fmt.Sprintf("BEGIN; DELETE FROM %s WHERE %s > %d", full(c.table), name(id(c.table)), mark)
	if _, err := in.exec(ctx, open); err != nil {
		return err
	}
	if err := c.apply(ctx, in); err != nil {
		return err
	}
	if err := in.moveMark(ctx, c.table.Name, mark, o.Mark); err != nil {
		return err
	}
	_, err = in.exec(ctx, "COMMIT")
	return err
}

// id is the column that numbers the rows of an operations table.
func id(t *schema.Table) string { return t.Schema().Field(0).Name }

// swap copies the private file and puts the copy in the place of the published one.
func (s *Sink) swap(ctx context.Context) error {
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	if err := in.detach(ctx); err != nil {
		return s.abandon(err)
	}
	if info, err := os.Stat(s.options.Private + ".wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("publish %s: its log was not emptied: %s.wal", s.options.Private, s.options.Private)
	}
	if err := copyOver(s.options.Private, s.options.Published, 0o444); err != nil {
		return fmt.Errorf("publish %s: %w", s.options.Published, err)
	}
	s.dirty = false
	return nil
}

// copyOver replaces to by a copy of from. The copy grows under a name that no glob for
// *.duckdb finds. A log beside the old file does not belong to the new one, into which
// DuckDB would replay it. Beside the published file it is none of ours: a program that
// opened the old copy for writing left it.
func copyOver(from, to string, mode os.FileMode) error {
	temp := to + ".new"
	if err := copyFile(from, temp, mode); err != nil {
		return errors.Join(err, remove(temp))
	}
	if err := remove(to + ".wal"); err != nil {
		return err
	}
	if err := os.Rename(temp, to); err != nil {
		return errors.Join(err, remove(temp))
	}
	return syncFolder(filepath.Dir(to))
}

func copyFile(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := remove(to); err != nil { // of an earlier attempt, and read-only
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if err := out.Chmod(mode); err != nil {
		return err
	}
	return out.Sync()
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// writable finds out early that publishing would not work.
func writable(folder string) error {
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return fmt.Errorf("folder of the published DuckDB file: %w", &os.PathError{Op: "write to", Path: folder, Err: err})
	}
	return nil
}
