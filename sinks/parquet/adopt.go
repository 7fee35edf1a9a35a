package parquet

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
)

var _ sinks.Adopter = (*Sink)(nil)

// Adopt implements [sinks.Adopter], atomically.
func (s *Sink) Adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error {
	if err := s.fresh(); err != nil {
		return err
	}
	if len(s.pending(t)) > 0 {
		return fmt.Errorf("replace the rows of table %s: some of them wait to be published", t.Name)
	}
	return s.change(func() error {
		step, f := s.begin(), File{Name: currentName, Hi: s.state.Watermark}
		err := step.write(t, f, func(w io.Writer) (int64, error) { return s.encode(w, t, f, rowGroup, each) })
		if err == nil {
			err = step.commit()
		}
		if err != nil {
			return fmt.Errorf("replace the rows of table %s: %w", t.Name, err)
		}
		delete(s.parents, t)
		return nil
	})
}
