package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"outlierd/sinks/duckdb/database"
)

// A Reader runs trusted queries on the published file, and keeps it open between them: opening it takes longer than
// most of these queries. It always reads the newest publication, and closes the file when nothing was asked for a
// while. Its queries may use a third of the memory, and no disk.
type Reader struct {
	path  string
	setup string        // runs once for each publication
	idle  time.Duration // when the file is closed

	turn    chan struct{} // a semaphore of one: a connection runs one query at a time
	file    *database.DB  // nil if it is closed
	info    os.FileInfo   // of the open file
	opened  int           // how many publications were opened so far
	closing *time.Timer
}

// NewReader returns a reader of the file at path.
func NewReader(path, setup string, idle time.Duration) *Reader {
	return &Reader{path: path, setup: setup, idle: idle, turn: make(chan struct{}, 1)}
}

// All runs queries one after another, all on the same publication, up to the first error. It returns the number of
// that publication: as long as it stays the same, so do the answers.
func (r *Reader) All(ctx context.Context, questions ...Question) (publication int, err error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := r.openNewest(ctx); err != nil {
		return 0, err
	}
	for _, q := range questions {
		if err := readRows(ctx, r.file, q.SQL, q.Columns, q.Row); err != nil {
			err = fmt.Errorf("query %s: %w", r.path, resourcesUpTo(personal, "").explainMemory(err))
			if ctx.Err() == nil { // the next query starts afresh, whatever is wrong
				err = errors.Join(err, r.close())
			}
			return 0, err
		}
	}
	return r.opened, nil
}

// openNewest opens the newest publication, unless it is open.
func (r *Reader) openNewest(ctx context.Context) (err error) {
	now, _ := os.Stat(r.path) // if that fails, so does opening the file
	if r.file == nil || !sameFile(now, r.info) {
		if err := r.close(); err != nil {
			return err
		}
		if r.file, err = openFile(ctx, r.path, resourcesUpTo(personal, "")); err != nil {
			return err
		}
		if r.setup != "" {
			if _, err := r.file.Exec(ctx, r.setup); err != nil {
				return errors.Join(fmt.Errorf("prepare %s: %w", r.path, resourcesUpTo(personal, "").explainMemory(err)), r.close())
			}
		}
		r.info = now
		r.opened++
	}
	if r.closing == nil {
		r.closing = time.AfterFunc(r.idle, func() { _ = r.Close() }) // it was only read
	} else {
		r.closing.Reset(r.idle)
	}
	return nil
}

func (r *Reader) close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// Close closes the file. A query in progress is completed. The reader may be used again.
func (r *Reader) Close() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	return r.close()
}
