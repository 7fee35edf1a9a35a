package parquet

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
)

// Publish implements [sinks.Sink]. It rewrites only Current and Children tables that have changed.
func (s *Sink) Publish(ctx context.Context, ops *sinks.Ops) error {
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
		if ops != nil {
			last, err := s.writeOps(ctx, step, ops)
			if err != nil {
				return fmt.Errorf("operations tables: %w", err)
			}
			step = last
		}
		if !step.empty() {
			if err := step.commit(); err != nil {
				return err
			}
		}
		return s.compact(ctx)
	})
}

// merge rewrites a table's current file from itself and the pending files.
func (s *Sink) merge(ctx context.Context, step *step, t *schema.Table) error {
	pending := s.pending(t)
	if len(pending) == 0 {
		return nil
	}
	old, err := s.verify(t, currentName)
	if err != nil {
		return err
	}
	m := &merger{sink: s, table: t, known: map[string]*standing{}}
	for i, name := range pending {
		err := s.decodePending(t, name, func(rows arrow.RecordBatch) error { m.learn(i, rows); return nil })
		if err != nil {
			return err
		}
	}
	for _, name := range pending {
		if err := step.remove(name); err != nil {
			return err
		}
	}
	f := File{Name: currentName, Hi: s.state.Watermark}
	return step.write(t, f, func(w io.Writer) (int64, error) {
		return s.encode(w, t, f, rowGroup, func(put func(arrow.RecordBatch) error) error {
			if old {
				if err := m.putOld(ctx, put); err != nil {
					return err
				}
			}
			for i, name := range pending {
				putNew := func(rows arrow.RecordBatch) error { return m.putNew(ctx, i, rows, put) }
				if err := s.decodePending(t, name, putNew); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// merger merges files row by row; in memory it has only the pending identities. The rows of an identity
// are those of the last pending file that has any, and no others.
type merger struct {
	sink  *Sink
	table *schema.Table
	known map[string]*standing
}

// standing is the result for one identity.
type standing struct {
	file  int             // the pending file whose rows are used
	gone  bool            // the identity was deleted: the current file's row contributes nothing
	begun bool            // first is set
	first arrow.Timestamp // first_seen_at, of a Current table
	times int64           // times_seen, of a Current table
	grown *growth         // of a table that grows: the source of the previous values, see [sinks.Fold]
}

// growth has the first and the last observation of a key in some files, and the last one of an earlier
// day, as far as these files have it.
type growth struct {
	first          arrow.Timestamp
	last, previous sighting
}

// sighting is a number and the time when it was observed; the number or both may be null.
type sighting struct {
	at            arrow.Timestamp
	number        int64
	seen, counted bool
}

// then returns the growth over two sets of files, of which newer has the newer ones.
func (g growth) then(newer growth) *growth {
	if newer.previous.seen {
		g.previous = newer.previous
	} else if g.last.seen && sinks.EarlierDay(g.last.at, newer.first) {
		g.previous = g.last
	}
	g.last = newer.last
	return &g
}

// growths returns a function that reads the growth of a row; nil for tables that do not grow.
func (m *merger) growths(rows arrow.RecordBatch) func(i int) growth {
	if m.table.Grows == "" {
		return nil
	}
	at := func(name string) arrow.Array { return rows.Column(rows.Schema().FieldIndices(name)[0]) }
	sightings := func(time, number string) func(i int) sighting {
		times, numbers := at(time).(*array.Timestamp), at(number).(*array.Int64)
		return func(i int) sighting {
			return sighting{times.Value(i), numbers.Value(i), times.IsValid(i), numbers.IsValid(i)}
		}
	}
	first := at(sinks.FirstSeenAt).(*array.Timestamp)
	last := sightings(sinks.LastSeenAt, m.table.Grows)
	previous := sightings(schema.PreviousSeenAt, m.table.Previous())
	return func(i int) growth { return growth{first.Value(i), last(i), previous(i)} }
}

// learn adds a pending file. A folded file has one row per key of a Current table.
func (m *merger) learn(file int, rows arrow.RecordBatch) {
	keys, answers := sinks.KeysOf(rows, m.table.Identity()), answers(rows)
	first, times := m.seen(rows)
	grown := m.growths(rows)
	for i := range int(rows.NumRows()) {
		st := m.known[string(keys.At(i))]
		if answers.IsNull(i) {
			m.known[string(keys.At(i))] = &standing{file: file, gone: true}
			continue
		}
		if st == nil {
			st = &standing{}
			m.known[string(keys.At(i))] = st
		}
		if first != nil && !st.begun {
			st.first, st.begun = first.Value(i), true
		}
		st.file = file
		if times != nil {
			st.times += times.Value(i)
		}
		if grown != nil && st.grown != nil {
			st.grown = st.grown.then(grown(i))
		} else if grown != nil {
			g := grown(i)
			st.grown = &g
		}
	}
}

// seen returns the columns first_seen_at and times_seen; nil for tables without them.
func (m *merger) seen(rows arrow.RecordBatch) (*array.Timestamp, *array.Int64) {
	if m.table.Kind != schema.Current {
		return nil, nil
	}
	at := func(name string) arrow.Array { return rows.Column(rows.Schema().FieldIndices(name)[0]) }
	return at(sinks.FirstSeenAt).(*array.Timestamp), at(sinks.TimesSeen).(*array.Int64)
}

// putOld writes the rows of the current file that no pending row replaces, and learns what the others
// contribute to their replacements.
func (m *merger) putOld(ctx context.Context, put func(arrow.RecordBatch) error) error {
	return m.sink.decode(ctx, m.table, current(m.table), nil, func(rows arrow.RecordBatch) error {
		var stay []int
		keys := sinks.KeysOf(rows, m.table.Identity())
		first, times := m.seen(rows)
		grown := m.growths(rows)
		for i := range int(rows.NumRows()) {
			st := m.known[string(keys.At(i))]
			if st == nil {
				stay = append(stay, i)
			} else if first != nil && !st.gone {
				st.first = first.Value(i)
				st.times += times.Value(i)
				if grown != nil {
					st.grown = grown(i).then(*st.grown)
				}
			}
		}
		return putSome(ctx, rows, stay, put)
	})
}

// putNew writes the rows of a pending file that are used, with the values that they take over.
func (m *merger) putNew(ctx context.Context, file int, rows arrow.RecordBatch,
	put func(arrow.RecordBatch) error) error {
	var stand []int
	first := array.NewTimestampBuilder(memory.DefaultAllocator,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	times := array.NewInt64Builder(memory.DefaultAllocator)
	var previous []sighting
	keys, answers := sinks.KeysOf(rows, m.table.Identity()), answers(rows)
	for i := range int(rows.NumRows()) {
		if st := m.known[string(keys.At(i))]; st.file == file && answers.IsValid(i) {
			stand = append(stand, i)
			first.Append(st.first)
			times.Append(st.times)
			if st.grown != nil {
				previous = append(previous, st.grown.previous)
			}
		}
	}
	if m.table.Kind != schema.Current {
		return putSome(ctx, rows, stand, put)
	}
	return putSome(ctx, rows, stand, func(some arrow.RecordBatch) error {
		columns := slices.Clone(some.Columns())
		columns[some.Schema().FieldIndices(sinks.FirstSeenAt)[0]] = first.NewArray()
		columns[some.Schema().FieldIndices(sinks.TimesSeen)[0]] = times.NewArray()
		if m.table.Grows != "" {
			at, numbers := arrays(previous)
			columns[some.Schema().FieldIndices(schema.PreviousSeenAt)[0]] = at
			columns[some.Schema().FieldIndices(m.table.Previous())[0]] = numbers
		}
		carried := array.NewRecordBatch(some.Schema(), columns, some.NumRows())
		defer carried.Release()
		return put(carried)
	})
}

// arrays returns the times and the numbers of sightings as columns.
func arrays(all []sighting) (at, numbers arrow.Array) {
	times := array.NewTimestampBuilder(memory.DefaultAllocator,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	counts := array.NewInt64Builder(memory.DefaultAllocator)
	for _, s := range all {
		if s.seen {
			times.Append(s.at)
		} else {
			times.AppendNull()
		}
		if s.counted {
			counts.Append(s.number)
		} else {
			counts.AppendNull()
		}
	}
	return times.NewArray(), counts.NewArray()
}

func putSome(ctx context.Context, rows arrow.RecordBatch, which []int, put func(arrow.RecordBatch) error) error {
	some, err := sinks.Pick(ctx, rows, which)
	if err != nil {
		return err
	}
	defer some.Release()
	return put(some)
}
