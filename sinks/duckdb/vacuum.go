//go:build duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/sinks/duckdb/database"
)

// After many small batches, a DuckDB file is up to half empty: each batch moves the ends of 300 columns
// to other blocks, and the file never shrinks. So the private file is copied to a new one once a week, if
// that saves at least a fifth. The copy replaces the file only once it is complete.

const (
	vacuumEvery = 7 * 24 * time.Hour
	vacuumSaves = 0.2 // minimum share of the file that a vacuum must free
)

// vacuum shrinks the private file if that is due. It waits if the disk has no space for a second file.
func (s *Sink) vacuum(ctx context.Context) error {
	last, err := s.mark(ctx, database.Vacuum)
	if err != nil {
		return err
	}
	now := s.options.now()
	if since := now.Sub(time.Unix(last, 0)); since >= 0 && since < vacuumEvery {
		return nil
	}
	if last > 0 {
		used, total, err := s.usage(ctx)
		if err != nil {
			return err
		}
		if float64(total-used) >= vacuumSaves*float64(total) {
			room, err := s.freeSpace()
			if err != nil || room < used+used/5 {
				return err
			}
			if err := s.rewrite(ctx); err != nil && !s.withoutMemory(err) {
				return err
			}
		}
	}
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	return in.moveMark(ctx, database.Vacuum, last, now.Unix())
}

// withoutMemory reports whether err is a lack of memory and the memory cannot be raised further.
// Publishing then continues without a vacuum for another week.
func (s *Sink) withoutMemory(err error) bool {
	return database.OutOfMemory(err) && s.options.limit >= s.most
}

// usage returns how many bytes of the private file are used, and its size.
func (s *Sink) usage(ctx context.Context) (used, total int64, err error) {
	in, err := s.instance(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = in.db.Checkpoint(ctx)
	var rows [][]driver.Value
	if err == nil {
		rows, err = in.db.Query(ctx, `SELECT (used_blocks * block_size)::BIGINT, (total_blocks * block_size)::BIGINT
			FROM pragma_database_size() WHERE database_name = 'warehouse'`)
	}
	if err != nil {
		return 0, 0, s.abandon(fmt.Errorf("size of %s: %w", s.options.Private, err))
	}
	return rows[0][0].(int64), rows[0][1].(int64), nil
}

// freeSpace returns the free bytes on the private file's disk.
func (s *Sink) freeSpace() (int64, error) {
	var disk unix.Statfs_t
	folder := filepath.Dir(s.options.Private)
	if err := unix.Statfs(folder, &disk); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", folder, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}

// rewrite replaces the private file by a copy without free blocks.
func (s *Sink) rewrite(ctx context.Context) error {
	made := s.options.Private + ".vacuumed"
	discard := func() error { return errors.Join(remove(made), remove(made+".wal")) }
	if err := discard(); err != nil { // of a vacuum that was killed
		return err
	}
	_, err := s.in.db.Exec(ctx, fmt.Sprintf("ATTACH %s AS vacuumed (%s); COPY FROM DATABASE warehouse TO vacuumed; "+
		"CHECKPOINT vacuumed; DETACH vacuumed", database.Text(made), newFile))
	if err == nil {
		err = s.in.detach(ctx)
	}
	if err != nil {
		return errors.Join(s.abandon(fmt.Errorf("vacuum %s: %w", s.options.Private, err)), discard())
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := put(made, s.options.Private); err != nil {
		return err
	}
	return s.declared(ctx)
}
