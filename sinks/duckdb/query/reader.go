package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

	turn    chan struct{}      // a semaphore of one: a connection runs one query at a time
	file    *database.DB       // nil if it is closed
	info    os.FileInfo        // of the open file
	before  string             // [Question.Before] that ran last on it
	kept    map[string][][]any // rows of its questions with Keep
	closing *time.Timer
}

// maxKept is the number of questions whose rows are kept: more than a page has tabs.
const maxKept = 500

// NewReader returns a reader of the file at path.
func NewReader(path, setup string, idle time.Duration) *Reader {
	return &Reader{path: path, setup: setup, idle: idle, turn: make(chan struct{}, 1)}
}

// All runs queries one after another, all on the same publication, up to the first error.
func (r *Reader) All(ctx context.Context, questions ...Question) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.openNewest(ctx); err != nil {
		return err
	}
	for _, q := range questions {
		if err := r.answer(ctx, q); err != nil {
			err = fmt.Errorf("query %s: %w", r.path, resourcesUpTo(personal, "").explainMemory(err))
			if ctx.Err() == nil { // the next query starts afresh, whatever is wrong
				err = errors.Join(err, r.close())
			}
			return err
		}
	}
	return nil
}

// answer runs a query on the open file, or takes the rows that are kept.
func (r *Reader) answer(ctx context.Context, q Question) error {
	if !q.Keep {
		return r.query(ctx, q, q.Row)
	}
	key := q.Before + q.SQL
	kept, known := r.kept[key]
	if !known {
		err := r.query(ctx, q, func(row []any) error {
			kept = append(kept, slices.Clone(row))
			return nil
		})
		if err != nil {
			return err
		}
		if len(r.kept) >= maxKept {
			clear(r.kept)
		}
		r.kept[key] = kept
	}
	for _, row := range kept {
		if err := q.Row(row); err != nil {
			return err
		}
	}
	return nil
}

// query runs a query, after what prepares it unless that was the last such SQL.
func (r *Reader) query(ctx context.Context, q Question, row func([]any) error) error {
	if q.Before != "" && q.Before != r.before {
		r.before = "" // what is cancelled may have run
		if _, err := r.file.Exec(ctx, q.Before); err != nil {
			return err
		}
		r.before = q.Before
	}
	return readRows(ctx, r.file, q.SQL, q.Columns, row)
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
		if _, err := r.file.Exec(ctx, r.setup); err != nil {
			return errors.Join(fmt.Errorf("prepare %s: %w", r.path, resourcesUpTo(personal, "").explainMemory(err)), r.close())
		}
		r.info, r.before, r.kept = now, "", map[string][][]any{}
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
