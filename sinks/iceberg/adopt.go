//go:build iceberg

package iceberg

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
)

// Adopt implements [sinks.Adopter]. It replaces the rows in one commit.
func (s *Sink) Adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error {
	err := s.tables[t].adopt(ctx, each)
	if err != nil {
		err = fmt.Errorf("replace the rows of table %s: %w", t.Name, err)
	}
	return s.fail(err)
}

func (l *lakeTable) adopt(ctx context.Context, each func(put func(arrow.RecordBatch) error) error) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	file, err := l.writeData(nil, each)
	if err != nil {
		return err
	}
	return l.replaceAll(ctx, []iceberg.DataFile{file}, 0)
}

// replaceAll replaces all files of this writer by files, in one commit. The commit also sets the
// watermark of the table to mark, unless mark is 0.
func (l *lakeTable) replaceAll(ctx context.Context, files []iceberg.DataFile, mark int64) error {
	files = slices.DeleteFunc(files, func(f iceberg.DataFile) bool { return f.Count() == 0 })
	err := l.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		if err := l.refresh(ctx); err != nil {
			return nil, err
		}
		properties := iceberg.Properties{}
		if mark > 0 {
			properties[l.sink.property(watermarkName)] = strconv.FormatInt(mark, 10)
		}
		switch {
		case len(l.own.data) > 0:
			return properties, tx.ReplaceFiles(ctx, l.own.files(), files, l.own.deleteFiles(), nil,
				table.WithoutAutoNameMapping())
		case len(files) > 0:
			return properties, tx.AddDataFiles(ctx, files, nil, table.WithoutDuplicateCheck(),
				table.WithoutAutoNameMapping())
		case mark > 0:
			return properties, nil
		}
		return nil, nil
	})
	l.own, l.index, l.kept = nil, nil, nil
	return err
}
