//go:build duckdb_arrow

package duckdb

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

var _ sinks.Adopter = (*Sink)(nil)

// Adopt implements [sinks.Adopter], in one transaction.
func (s *Sink) Adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error {
	err := s.withRoom(func() error { return s.adopt(ctx, t, each) })
	if err != nil {
		return fmt.Errorf("replace the rows of table %s: %w", t.Name, err)
	}
	return s.withRoom(func() error { return s.fold(ctx) })
}

func (s *Sink) adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	s.dirty = true
	if err := replace(ctx, in, t, each); err != nil {
		return s.abandon(err)
	}
	delete(s.parents, t)
	return nil
}

// replace replaces all rows of a table. It makes the view before the transaction: a transaction that
// creates one could not write to the file.
func replace(ctx context.Context, in *instance, t *schema.Table,
	each func(put func(arrow.RecordBatch) error) error) error {
	view := "adopted_" + t.FileName()
	none := array.NewRecordBuilder(memory.DefaultAllocator, t.Stored()).NewRecordBatch()
	defer none.Release()
	release, err := in.db.Offer(view, none)
	if err != nil {
		return err
	}
	release()
	if _, err := in.db.Exec(ctx, "BEGIN; DELETE FROM "+database.TableName(t)); err != nil {
		return err
	}
	var names []string
	for _, f := range t.Stored().Fields() {
		names = append(names, f.Name)
	}
	columns := list("", names)
	err = each(func(rows arrow.RecordBatch) error {
		release, err := in.db.Offer(view, rows)
		if err != nil {
			return err
		}
		defer release()
		n, err := in.db.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %[2]s FROM %s", database.TableName(t),
			columns, view))
		if err == nil && n != rows.NumRows() {
			err = fmt.Errorf("%d of %d rows were inserted", n, rows.NumRows())
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = in.db.Exec(ctx, "COMMIT")
	return err
}
