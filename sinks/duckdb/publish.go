//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sys/unix"

	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Publish implements [sinks.Sink]. For readers it is atomic: a program that has the published file open
// keeps the old one.
func (s *Sink) Publish(ctx context.Context, ops *sinks.Ops) error {
	err := s.restore(ctx)
	if err != nil {
		return err
	}
	if ops != nil {
		err = s.withRoom(func() error { return s.writeOps(ctx, ops) })
	}
	if err == nil {
		err = s.withRoom(func() error { return s.publish(ctx) })
	}
	if database.Damaged(err) {
		err = fmt.Errorf("%w (readers keep the published file; the writer's is made again from it and the journal)",
			errors.Join(err, s.giveUp(err)))
	}
	return err
}

// publish replaces the published file if anything has changed.
func (s *Sink) publish(ctx context.Context) error {
	if _, err := os.Lstat(s.options.Published); err == nil && !s.dirty {
		return nil
	}
	return s.swap(ctx)
}

// writeOps writes the changes of the operations tables, one transaction for each batch. The last one also
// sets the version.
func (s *Sink) writeOps(ctx context.Context, o *sinks.Ops) error {
	version, err := s.OpsVersion(ctx)
	if err != nil {
		return err
	}
	if !o.All && version == o.Version { // an earlier attempt failed after its last commit
		return nil
	}
	if !o.All && o.Since != version {
		return fmt.Errorf("changes since version %d of the operations tables do not follow version %d of %s",
			o.Since, version, s.options.Private)
	}
	s.dirty = true
	first := true
	for batch, err := range o.Batches {
		if err == nil {
			err = s.writeOpsBatch(ctx, o, batch, first, version)
		}
		if err == nil {
			err = s.fold(ctx)
		}
		if err != nil {
			return s.abandon(fmt.Errorf("operations tables: %w", err))
		}
		if first && o.All {
			version = 0
		}
		first = false
	}
	return nil
}

// writeOpsBatch writes one batch in a transaction. The first batch of a complete set also deletes all
// existing rows and resets the version.
func (s *Sink) writeOpsBatch(ctx context.Context, o *sinks.Ops, batch sinks.OpsBatch, first bool, version int64) error {
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	var changes []*change
	defer func() {
		for _, c := range changes {
			c.release()
		}
	}()
	statements := []string{"BEGIN"}
	if o.All && first {
		for _, t := range s.options.Ops {
			statements = append(statements, "DELETE FROM "+database.TableName(t))
		}
		statements = append(statements, "UPDATE warehouse.outlierd.marks SET id = 0 WHERE name = "+
			database.Text(database.Operations))
		version = 0
	}
	for _, part := range batch.Parts {
		c := &change{table: part.Table, count: part.Rows.NumRows()}
		if c.count == 0 {
			continue
		}
		changes = append(changes, c)
		if c.rows, err = c.offer(in, "rows_"+part.Table.FileName(), part.Rows); err != nil {
			return err
		}
		if !o.All {
			statements = append(statements, "DELETE FROM "+database.TableName(c.table)+" WHERE "+among(part.Rows))
		}
	}
	if _, err := in.db.Exec(ctx, strings.Join(statements, "; ")); err != nil {
		return err
	}
	for _, c := range changes {
		if err := c.apply(ctx, in); err != nil {
			return fmt.Errorf("table %s: %w", c.table.Name, err)
		}
	}
	if batch.Last {
		if err := in.moveMark(ctx, database.Operations, version, o.Version); err != nil {
			return err
		}
	}
	_, err = in.db.Exec(ctx, "COMMIT")
	return err
}

// among returns the SQL condition that the id of a row is one of those in rows. The range lets DuckDB
// skip most of the table.
func among(rows arrow.RecordBatch) string {
	column := database.Name(rows.Schema().Field(0).Name)
	ids := rows.Column(0).(*array.Int64).Int64Values()
	first, last := ids[0], ids[len(ids)-1]
	condition := fmt.Sprintf("%s BETWEEN %d AND %d", column, first, last)
	if last-first == int64(len(ids)-1) {
		return condition
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	return condition + " AND " + column + " IN (" + strings.Join(list, ", ") + ")"
}

// swap replaces the published file by a copy of the private file.
func (s *Sink) swap(ctx context.Context) error {
	if err := s.vacuum(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if info, err := os.Stat(s.options.Private + ".wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("publish %s: its log was not emptied: %s.wal", s.options.Private, s.options.Private)
	}
	if err := s.show(); err != nil {
		return fmt.Errorf("publish %s: %w", s.options.Published, err)
	}
	s.dirty = false
	return nil
}

// copyOver replaces the file to by a copy of from. It writes under a name that no glob for *.duckdb
// matches. It removes the log of the old file, which DuckDB would replay into the new one.
func copyOver(from, to string, mode os.FileMode) error {
	temp := to + ".new"
	if err := copyVerified(from, temp, mode); err != nil {
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

// copyVerified copies a DuckDB file of which every block has its checksum.
func copyVerified(from, to string, mode os.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	err = database.Verify(f, func(int64, int64) bool { return true })
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return copyFile(from, to, mode)
}

func copyFile(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := remove(to); err != nil { // a read-only file of an earlier attempt
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if !clone(out, in) {
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
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

// writable returns an error if the folder is not writable. Without this check, only the next publication
// would fail.
func writable(folder string) error {
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return fmt.Errorf("folder of the published DuckDB file: %w",
			&os.PathError{Op: "write to", Path: folder, Err: err})
	}
	return nil
}
