package parquet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
)

// Publish implements [sinks.Sink]. Only Current and Children tables that have
// changed are written again.
func (s *Sink) Publish(ctx context.Context, ops []sinks.Ops) error {
	if err := s.fresh(); err != nil {
		return err
	}
	return s.change(func() error {
		step := s.begin()
		for _, t := range s.options.Tables {
			if err := s.merge(ctx, step, t); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		for _, o := range ops {
			if err := s.tell(step, o); err != nil {
				return fmt.Errorf("table %s: %w", o.Part.Table.Name, err)
			}
		}
		if len(step.next.Moves)+len(step.next.Removes) == 0 && maps.Equal(step.next.Ops, s.state.Ops) {
			return nil
		}
		return step.commit()
	})
}

// tell splits the rows of an operations table, which are in order of their ids, at
// the mark.
func (s *Sink) tell(step *step, o sinks.Ops) error {
	t, rows := o.Part.Table, o.Part.Rows
	mark := s.state.Ops[t.Name]
	if o.Mark < mark {
		return fmt.Errorf("mark %d is behind %d: rows cannot cease to be final", o.Mark, mark)
	}
	ids := rows.Column(0).(*array.Int64)
	open := sort.Search(ids.Len(), func(i int) bool { return ids.Value(i) > o.Mark })
	if err := writeOps(step, t, partOf(mark, o.Mark), rows.NewSlice(0, int64(open))); err != nil {
		return err
	}
	if step.next.Ops == nil {
		step.next.Ops = map[string]int64{}
	}
	step.next.Ops[t.Name] = o.Mark
	if open == ids.Len() {
		had, err := s.exists(t, "open.parquet")
		if had {
			step.remove(path.Join(t.FileName(), "open.parquet"))
		}
		return err
	}
	return writeOps(step, t, "open.parquet", rows.NewSlice(int64(open), rows.NumRows()))
}

// writeOps takes rows over.
func writeOps(step *step, t *schema.Table, name string, rows arrow.RecordBatch) error {
	defer rows.Release()
	if rows.NumRows() == 0 {
		return nil
	}
	return step.write(path.Join(t.FileName(), name), func(w io.Writer) error {
		return encode(w, t, func(put func(arrow.RecordBatch) error) error { return put(rows) })
	})
}

// standing is what is known of an identity that pending rows have: which file's
// rows stand, and for a Current table what its rows amount to.
type standing struct {
	file  int
	first arrow.Timestamp
	times int64
}

// merge writes a table's current file anew from itself and what is pending, a
// record at a time. What it holds in memory are the identities that are pending.
func (s *Sink) merge(ctx context.Context, step *step, t *schema.Table) error {
	pending, err := s.list(t, isPending)
	if err != nil || len(pending) == 0 {
		return err
	}
	known, err := s.standing(t, pending)
	if err != nil {
		return err
	}
	old, err := s.exists(t, "current.parquet")
	if err != nil {
		return err
	}
	step.remove(pending...)
	return step.write(current(t), func(w io.Writer) error {
		return encode(w, t, func(put func(arrow.RecordBatch) error) error {
			if old {
				if err := s.putOld(ctx, t, known, put); err != nil {
					return err
				}
			}
			for i, name := range pending {
				err := s.decodePending(t, name, func(rows arrow.RecordBatch) error { return putNew(ctx, t, known, i, rows, put) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// standing reads the pending files. The rows of the last file that has an identity
// stand, whole; a folded file holds one row per key of a Current table.
func (s *Sink) standing(t *schema.Table, pending []string) (map[string]*standing, error) {
	known := map[string]*standing{}
	for i, name := range pending {
		err := s.decodePending(t, name, func(rows arrow.RecordBatch) error {
			keys := sinks.KeysOf(rows, sinks.Identity(t))
			for row := range int(rows.NumRows()) {
				st := known[string(keys.At(row))]
				if st == nil {
					st = &standing{}
					known[string(keys.At(row))] = st
				}
				st.file = i
				if t.Kind == schema.Current {
					first, times := seen(rows)
					st.carry(first.Value(row), times.Value(row), st.times > 0)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

// carry adds observations, which are older than those known unless later is set.
func (st *standing) carry(first arrow.Timestamp, times int64, later bool) {
	if !later {
		st.first = first
	}
	st.times += times
}

// seen are the columns that fold again.
func seen(rows arrow.RecordBatch) (*array.Timestamp, *array.Int64) {
	at := func(name string) arrow.Array { return rows.Column(rows.Schema().FieldIndices(name)[0]) }
	return at(sinks.FirstSeenAt).(*array.Timestamp), at(sinks.TimesSeen).(*array.Int64)
}

// putOld puts the rows of the current file that nothing pending replaces.
func (s *Sink) putOld(ctx context.Context, t *schema.Table, known map[string]*standing, put func(arrow.RecordBatch) error) error {
	return s.decode(ctx, t, current(t), nil, func(rows arrow.RecordBatch) error {
		var stay []int
		keys := sinks.KeysOf(rows, sinks.Identity(t))
		for i := range int(rows.NumRows()) {
			st := known[string(keys.At(i))]
			if st == nil {
				stay = append(stay, i)
			} else if t.Kind == schema.Current {
				first, times := seen(rows)
				st.carry(first.Value(i), times.Value(i), false)
			}
		}
		some, err := sinks.Pick(ctx, rows, stay)
		if err != nil {
			return err
		}
		defer some.Release()
		return put(some)
	})
}

// putNew puts the rows of a pending file that stand, with what they carry on.
func putNew(ctx context.Context, t *schema.Table, known map[string]*standing, file int, rows arrow.RecordBatch, put func(arrow.RecordBatch) error) error {
	var stand []int
	first, times := newSeen()
	keys := sinks.KeysOf(rows, sinks.Identity(t))
	for i := range int(rows.NumRows()) {
		if st := known[string(keys.At(i))]; st.file == file {
			stand = append(stand, i)
			first.Append(st.first)
			times.Append(st.times)
		}
	}
	some, err := sinks.Pick(ctx, rows, stand)
	if err != nil {
		return err
	}
	defer some.Release()
	if t.Kind != schema.Current {
		return put(some)
	}
	columns := append([]arrow.Array(nil), some.Columns()...)
	columns[some.Schema().FieldIndices(sinks.FirstSeenAt)[0]] = first.NewArray()
	columns[some.Schema().FieldIndices(sinks.TimesSeen)[0]] = times.NewArray()
	carried := array.NewRecordBatch(t.Stored(), columns, some.NumRows())
	defer carried.Release()
	return put(carried)
}

func newSeen() (*array.TimestampBuilder, *array.Int64Builder) {
	return array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		array.NewInt64Builder(memory.DefaultAllocator)
}
