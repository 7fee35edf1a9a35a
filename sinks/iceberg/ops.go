//go:build iceberg

package iceberg

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"outlierd/schema"
	"outlierd/sinks"
)

// Publish implements [sinks.Sink]. Rows are visible as soon as Write returns, so it writes only the
// operations tables, and then does maintenance.
func (s *Sink) Publish(ctx context.Context, ops *sinks.Ops) error {
	if ops != nil {
		if err := s.writeOps(ctx, ops); err != nil {
			return s.fail(err)
		}
	}
	return s.fail(s.maintain(ctx))
}

// writeOps writes the changes, and then their version. If the process is killed in between, the same
// changes are written again and replace the same rows.
func (s *Sink) writeOps(ctx context.Context, o *sinks.Ops) error {
	version, err := s.OpsVersion(ctx)
	if err != nil {
		return err
	}
	switch {
	case o.All:
		err = s.writeAll(ctx, o)
	case o.Since != version:
		err = fmt.Errorf("changes since version %d do not follow version %d of the lake", o.Since, version)
	default:
		err = s.writeChanged(ctx, o)
	}
	if err != nil || version == o.Version {
		return err
	}
	return s.advance(ctx, opsName, version, o.Version)
}

// writeChanged replaces the rows with the ids of the changed rows.
func (s *Sink) writeChanged(ctx context.Context, o *sinks.Ops) error {
	for batch, err := range o.Batches {
		if err != nil {
			return err
		}
		for _, part := range batch.Parts {
			c := &change{table: s.tables[part.Table], rows: part.Rows}
			if err := c.commit(ctx); err != nil {
				return fmt.Errorf("table %s: %w", part.Table.Name, err)
			}
		}
	}
	return nil
}

// writeAll replaces all rows, in one commit per table. If only some of these commits succeed, the
// version in the lake stays, and changes since that version can still be applied to all tables.
func (s *Sink) writeAll(ctx context.Context, o *sinks.Ops) error {
	files := map[*schema.Table][]iceberg.DataFile{}
	for batch, err := range o.Batches {
		if err != nil {
			return err
		}
		for _, part := range batch.Parts {
			l := s.tables[part.Table]
			if err := l.load(ctx); err != nil {
				return err
			}
			file, err := l.writeData(nil, func(put func(arrow.RecordBatch) error) error { return put(part.Rows) })
			if err != nil {
				return fmt.Errorf("table %s: %w", part.Table.Name, err)
			}
			files[part.Table] = append(files[part.Table], file)
		}
	}
	for _, t := range s.options.Ops {
		if err := s.tables[t].replaceAll(ctx, files[t], 0); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}
