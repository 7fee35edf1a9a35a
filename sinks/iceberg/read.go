//go:build iceberg

package iceberg

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/sinks"
)

// each calls each with all rows of this writer, in the columns of [schema.Table.Stored]. Within a file
// the rows are in the order of the journal; the files are ordered by their first row.
func (l *lakeTable) each(ctx context.Context, each func(arrow.RecordBatch) error) error {
	if err := l.refresh(ctx); err != nil {
		return err
	}
	for _, f := range l.own.inOrder(l.orderID()) {
		err := l.eachLive(ctx, f, func(rows arrow.RecordBatch) error {
			some, err := declared(l, rows)
			if err != nil {
				return err
			}
			defer some.Release()
			return each(some)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orderID returns the field id of the column by which rows are ordered: the answer, or the id in an
// operations table.
func (l *lakeTable) orderID() int {
	name := sinks.ResponseID
	if l.isOps() {
		name = l.identity()[0]
	}
	return fieldID(l.fields.Field(l.fields.FieldIndices(name)[0]))
}

// eachLive calls each with the rows of a file that are not deleted, in all columns of the file.
func (l *lakeTable) eachLive(ctx context.Context, f *dataFile, each func(arrow.RecordBatch) error) error {
	return l.decode(ctx, f.FilePath(), nil, nil, func(from int64, rows arrow.RecordBatch) error {
		var live []int
		for i := range int(rows.NumRows()) {
			if !f.isDead(from + int64(i)) {
				live = append(live, i)
			}
		}
		some, err := sinks.Pick(ctx, rows, live)
		if err != nil {
			return err
		}
		defer some.Release()
		return each(some)
	})
}

// declared converts rows of a file to the columns of [schema.Table.Stored]. A column that was declared
// after the file was written is null.
func declared(l *lakeTable, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	fields := l.of.Stored()
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for _, f := range fields.Fields() {
		at := rows.Schema().FieldIndices(f.Name)
		if len(at) == 0 {
			columns = append(columns, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rows.NumRows())))
			continue
		}
		data, err := sinks.Retype(rows.Column(at[0]).Data(), f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w: %w", f.Name, err, ErrRebuild)
		}
		columns = append(columns, array.MakeFromData(data))
	}
	return array.NewRecordBatch(fields, columns, rows.NumRows()), nil
}
