package parquet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
)

// The newest rows of an operations table change most, and few are added at a time. They are in a file of
// their own, which is rewritten each time, until there are enough of them for a part. If a row of a part
// changes, the part is rewritten.

// enoughForPart is the number of newest rows that become a part.
const enoughForPart = 2048

// writeOps adds the changes to a step. A complete set of rows is one step. Otherwise each batch is one,
// because it may change the files of the batch before it. It returns the step that is not committed yet,
// which has the version.
func (s *Sink) writeOps(ctx context.Context, step *step, o *sinks.Ops) (*step, error) {
	if !o.All && o.Since != s.state.OpsVersion {
		return nil, fmt.Errorf("changes since version %d do not follow version %d of %s",
			o.Since, s.state.OpsVersion, s.options.Dir)
	}
	var old []string
	if o.All { // existing files are replaced; other changes need not list the folders
		var err error
		if old, err = s.opsFiles(); err != nil {
			return nil, err
		}
		step.next.Ops = map[string]int64{}
	}
	for batch, err := range o.Batches {
		if err != nil {
			return nil, err
		}
		for _, part := range batch.Parts {
			if o.All {
				err = s.writeAll(step, part)
			} else {
				err = s.writeChanged(ctx, step, part)
			}
			if err != nil {
				return nil, fmt.Errorf("table %s: %w", part.Table.Name, err)
			}
		}
		if batch.Last || o.All {
			continue
		}
		if err := step.commit(); err != nil {
			return nil, err
		}
		step = s.begin()
	}
	if o.All {
		for _, name := range old {
			if slices.Contains(step.next.Moves, name) {
				continue
			}
			if err := step.remove(name); err != nil {
				return nil, err
			}
		}
	}
	step.next.OpsVersion = o.Version
	return step, nil
}

// opsFiles returns the files of the operations tables.
func (s *Sink) opsFiles() (all []string, err error) {
	for _, t := range s.options.Ops {
		names, err := s.list(t, func(name string) bool { return isPart(name) || name == openName })
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// writeAll writes rows of a complete set as a part.
func (s *Sink) writeAll(step *step, part schema.Part) error {
	if part.Rows.NumRows() == 0 {
		return nil
	}
	return step.seal(part.Table, part.Rows)
}

// seal writes rows as a part that follows the last one.
func (p *step) seal(t *schema.Table, rows arrow.RecordBatch) error {
	if p.next.Ops == nil {
		p.next.Ops = map[string]int64{}
	}
	ids := idsOf(rows)
	lo, hi := p.next.Ops[t.Name], ids[len(ids)-1]
	p.next.Ops[t.Name] = hi
	return p.writeRows(t, File{Name: partOf(lo, hi), Lo: lo, Hi: hi}, rows)
}

func (p *step) writeRows(t *schema.Table, f File, rows arrow.RecordBatch) error {
	return p.write(t, f, func(w io.Writer) (int64, error) {
		return p.sink.encode(w, t, f, rowGroup, func(put func(arrow.RecordBatch) error) error { return put(rows) })
	})
}

// writeChanged writes changed rows to the files that contain them, and new rows to the newest file.
func (s *Sink) writeChanged(ctx context.Context, step *step, part schema.Part) error {
	t, rows := part.Table, part.Rows
	newest, _ := slices.BinarySearch(idsOf(rows), s.state.Ops[t.Name]+1)
	if newest > 0 {
		if err := s.rewriteParts(ctx, step, t, rows.NewSlice(0, int64(newest))); err != nil {
			return err
		}
	}
	if int64(newest) == rows.NumRows() {
		return nil
	}
	return s.writeNewest(ctx, step, t, rows.NewSlice(int64(newest), rows.NumRows()))
}

// writeNewest writes the newest rows of a table. It releases rows.
func (s *Sink) writeNewest(ctx context.Context, step *step, t *schema.Table, rows arrow.RecordBatch) error {
	defer rows.Release()
	had, err := s.verify(t, openName)
	if err != nil {
		return err
	}
	if had {
		merged, err := s.mergeRows(ctx, t, openName, rows)
		if err != nil {
			return err
		}
		defer merged.Release()
		rows = merged
	}
	if rows.NumRows() < enoughForPart {
		ids := idsOf(rows)
		return step.writeRows(t, File{Name: openName, Lo: step.next.Ops[t.Name], Hi: ids[len(ids)-1]}, rows)
	}
	if had {
		if err := step.remove(path.Join(t.FileName(), openName)); err != nil {
			return err
		}
	}
	return step.seal(t, rows)
}

// rewriteParts writes changed rows to the existing parts that contain them. It releases rows.
func (s *Sink) rewriteParts(ctx context.Context, step *step, t *schema.Table, rows arrow.RecordBatch) error {
	defer rows.Release()
	parts, err := s.list(t, isPart)
	if err != nil {
		return err
	}
	ids := idsOf(rows)
	for from := 0; from < len(ids); {
		at := slices.IndexFunc(parts, func(name string) bool { return lastOf(name) >= ids[from] })
		if at < 0 || firstOf(parts[at]) > ids[from] {
			return fmt.Errorf("no part holds row %d: %s", ids[from], rebuild)
		}
		if _, err := s.verify(t, path.Base(parts[at])); err != nil {
			return err
		}
		to, _ := slices.BinarySearch(ids, lastOf(parts[at])+1)
		some := rows.NewSlice(int64(from), int64(to))
		merged, err := s.mergeRows(ctx, t, path.Base(parts[at]), some)
		some.Release()
		if err != nil {
			return err
		}
		lo, hi := rangeOf(parts[at])
		err = step.writeRows(t, File{Name: path.Base(parts[at]), Lo: lo, Hi: hi}, merged)
		merged.Release()
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// mergeRows returns the rows of a file in the order of their numbers, with those replaced that have a
// changed row.
func (s *Sink) mergeRows(ctx context.Context, t *schema.Table, name string,
	rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	var all []arrow.RecordBatch
	defer func() {
		for _, some := range all {
			some.Release()
		}
	}()
	err := s.decode(ctx, t, path.Join(t.FileName(), name), nil, func(old arrow.RecordBatch) error {
		old.Retain()
		all = append(all, old)
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows.Retain()
	all = append(all, rows)
	return latest(ctx, all)
}

// latest returns the last row of each number, in the order of the numbers.
func latest(ctx context.Context, all []arrow.RecordBatch) (arrow.RecordBatch, error) {
	at := map[int64]int64{}
	count := int64(0)
	for _, some := range all {
		for i, id := range idsOf(some) {
			at[id] = count + int64(i)
		}
		count += some.NumRows()
	}
	order := make([]int64, 0, len(at))
	for _, row := range at {
		order = append(order, row)
	}
	ids := make([]int64, 0, count)
	for _, some := range all {
		ids = append(ids, idsOf(some)...)
	}
	slices.SortFunc(order, func(a, b int64) int { return cmp.Compare(ids[a], ids[b]) })
	indices := array.NewInt64Builder(memory.DefaultAllocator)
	defer indices.Release()
	indices.AppendValues(order, nil)
	take := indices.NewArray()
	defer take.Release()
	whole, err := sinks.Concatenate(all)
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	taken, err := compute.Take(ctx, *compute.DefaultTakeOptions(), compute.NewDatumWithoutOwning(whole),
		compute.NewDatumWithoutOwning(take))
	if err != nil {
		return nil, err
	}
	return taken.(*compute.RecordDatum).Value, nil
}

// idsOf returns the numbers of rows of an operations table.
func idsOf(rows arrow.RecordBatch) []int64 { return rows.Column(0).(*array.Int64).Int64Values() }
