package parquet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"outlierd/schema"
	"outlierd/sinks"
)

// Write implements [sinks.Sink]. When it returns, rows of tables that only grow are in their final files;
// those of Current and Children tables are in pending files.
func (s *Sink) Write(ctx context.Context, b sinks.Batch) error {
	if err := s.fresh(); err != nil {
		return err
	}
	if b.Lo != s.state.Watermark {
		return fmt.Errorf("batch (%d, %d] does not follow watermark %d of %s",
			b.Lo, b.Hi, s.state.Watermark, s.options.Dir)
	}
	return s.change(func() error {
		step, times := s.begin(), observations(b)
		for _, part := range b.Parts {
			if err := s.writePart(ctx, step, b, part, times); err != nil {
				return fmt.Errorf("table %s: %w", part.Table.Name, err)
			}
		}
		step.next.Watermark = b.Hi
		return step.commit()
	})
}

func (s *Sink) writePart(ctx context.Context, step *step, b sinks.Batch, part schema.Part,
	times map[int64]arrow.Timestamp) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t := part.Table
	rows, gone, err := sinks.Fold(ctx, part)
	if err != nil {
		return err
	}
	defer rows.Release()
	if gone != nil {
		defer gone.Release()
	}
	switch t.Kind {
	case schema.Current, schema.Children:
		return s.writePending(ctx, step, b, t, rows, gone)
	case schema.Changes:
		if rows, err = s.changed(ctx, t, rows); err != nil {
			return err
		}
		defer rows.Release()
	case schema.Once:
		if err := s.replace(ctx, step, t, rows); err != nil {
			return err
		}
	}
	return writeDates(ctx, step, b, t, split(rows, times), rows)
}

// writePending writes a pending file: the rows of a table that is merged when it is published, after a
// tombstone for each deleted identity that may have rows.
func (s *Sink) writePending(ctx context.Context, step *step, b sinks.Batch, t *schema.Table,
	rows, gone arrow.RecordBatch) error {
	all := []arrow.RecordBatch{rows}
	if gone != nil {
		memory, err := s.identities(ctx, t)
		if err != nil {
			return err
		}
		known, err := sinks.Pick(ctx, gone, memory.Known(gone))
		if err != nil {
			return err
		}
		defer known.Release()
		tombstones := tombstones(t, known)
		defer tombstones.Release()
		all = []arrow.RecordBatch{tombstones, rows}
	}
	if memory := s.parents[t]; memory != nil {
		memory.Add(rows)
	}
	all = slices.DeleteFunc(all, func(some arrow.RecordBatch) bool { return some.NumRows() == 0 })
	if len(all) == 0 {
		return nil
	}
	return step.write(t, File{Name: pendingOf(b.Lo, b.Hi), Lo: b.Lo, Hi: b.Hi},
		func(w io.Writer) (int64, error) { return encodePending(w, all) })
}

// identities returns the identities that have rows in a table that is merged when it is published: in its
// current file or in a pending one.
func (s *Sink) identities(ctx context.Context, t *schema.Table) (*sinks.Parents, error) {
	if s.parents[t] != nil {
		return s.parents[t], nil
	}
	memory := sinks.NewParents(t)
	learn := func(rows arrow.RecordBatch) error { memory.Add(rows); return nil }
	published, err := s.verify(t, currentName)
	if err == nil && published {
		err = s.decode(ctx, t, current(t), t.Identity(), learn)
	}
	if err != nil {
		return nil, fmt.Errorf("read the identities: %w", err)
	}
	for _, name := range s.pending(t) {
		if err := s.decodePending(t, name, learn); err != nil {
			return nil, fmt.Errorf("read the identities that are pending: %w", err)
		}
	}
	s.parents[t] = memory
	return memory, nil
}

// writeDates writes one part for every date of observation.
func writeDates(
	ctx context.Context, step *step, b sinks.Batch, t *schema.Table, dates map[string][]int, rows arrow.RecordBatch,
) error {
	for _, date := range slices.Sorted(maps.Keys(dates)) {
		some, err := sinks.Pick(ctx, rows, dates[date])
		if err != nil {
			return err
		}
		defer some.Release()
		f := File{Name: path.Join(date, partOf(b.Lo, b.Hi)), Lo: b.Lo, Hi: b.Hi}
		err = step.write(t, f, func(w io.Writer) (int64, error) {
			return step.sink.encode(w, t, f, rowGroup,
				func(put func(arrow.RecordBatch) error) error { return put(some) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// split returns the rows of each date. A row without a time has the date of its answer.
func split(rows arrow.RecordBatch, times map[int64]arrow.Timestamp) map[string][]int {
	dates := map[string][]int{}
	observed, answers := observedAt(rows), answers(rows)
	var answered arrow.Timestamp // time of the row's answer
	day, date, some := int64(-1), "", []int(nil)
	for i := range int(rows.NumRows()) {
		if i == 0 || answers.Value(i) != answers.Value(i-1) {
			answered = times[answers.Value(i)]
		}
		at := answered
		if observed != nil && observed.IsValid(i) {
			at = observed.Value(i)
		}
		if d := int64(at) / (24 * time.Hour).Microseconds(); d != day {
			if some != nil {
				dates[date] = some
			}
			day, date = d, dateOf(time.UnixMicro(int64(at)))
			some = dates[date]
		}
		some = append(some, i)
	}
	if some != nil {
		dates[date] = some
	}
	return dates
}

// observations returns when the answers of a batch were observed, as far as one of their rows has a time.
// An answer without one counts as of 1970, so that the place of its rows depends on the answer alone and
// not on the others of its batch.
func observations(b sinks.Batch) map[int64]arrow.Timestamp {
	times := map[int64]arrow.Timestamp{}
	for _, part := range b.Parts {
		observed := observedAt(part.Rows)
		if observed == nil {
			continue
		}
		answers, last := answers(part.Rows), int64(-1)
		for i := range observed.Len() {
			if answer := answers.Value(i); answer != last && observed.IsValid(i) {
				times[answer], last = observed.Value(i), answer
			}
		}
	}
	return times
}

// observedAt returns the column observed_at; nil for tables without it.
func observedAt(rows arrow.RecordBatch) *array.Timestamp {
	at := rows.Schema().FieldIndices(sinks.ObservedAt)
	if len(at) == 0 {
		return nil
	}
	return rows.Column(at[0]).(*array.Timestamp)
}

// changed returns the rows that differ from the last row of their key.
func (s *Sink) changed(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	memory := s.changes[t]
	if memory == nil {
		memory = sinks.NewChanges(t)
		err := s.eachPart(ctx, t, nil, func(_ string, old arrow.RecordBatch) error { memory.Add(old); return nil })
		if err != nil {
			return nil, fmt.Errorf("read the rows kept last: %w", err)
		}
		s.changes[t] = memory
	}
	return sinks.Pick(ctx, rows, memory.Add(rows))
}

// replace deletes older rows of parents that were fetched again. It reads all parts of the table, but
// parents are fetched again only on request.
func (s *Sink) replace(ctx context.Context, step *step, t *schema.Table, rows arrow.RecordBatch) error {
	memory := s.parents[t]
	if memory == nil {
		memory = sinks.NewParents(t)
		err := s.eachPart(ctx, t, t.Key[:1], func(_ string, old arrow.RecordBatch) error { memory.Add(old); return nil })
		if err != nil {
			return fmt.Errorf("read the parents: %w", err)
		}
		s.parents[t] = memory
	}
	again := memory.Add(rows)
	if len(again) == 0 {
		return nil
	}
	gone := map[string]bool{}
	parents := sinks.KeysOf(rows, t.Key[:1])
	for _, i := range again {
		gone[string(parents.At(i))] = true
	}
	return s.takeOut(ctx, step, t, gone)
}

// takeOut rewrites the parts that contain rows of the given parents, without these rows.
func (s *Sink) takeOut(ctx context.Context, step *step, t *schema.Table, gone map[string]bool) error {
	hit, left := map[string]bool{}, map[string]bool{}
	err := s.eachPart(ctx, t, t.Key[:1], func(name string, rows arrow.RecordBatch) error {
		stay := staying(rows, t, gone)
		left[name] = left[name] || len(stay) > 0
		hit[name] = hit[name] || int64(len(stay)) < rows.NumRows()
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(hit)) {
		switch {
		case !hit[name]:
		case !left[name]:
			if err := step.remove(name); err != nil {
				return err
			}
		default:
			lo, hi := rangeOf(name)
			f := File{Name: strings.TrimPrefix(name, t.FileName()+"/"), Lo: lo, Hi: hi}
			if _, err := s.verify(t, f.Name); err != nil {
				return err
			}
			err := step.write(t, f, func(w io.Writer) (int64, error) {
				return s.encode(w, t, f, rowGroup, func(put func(arrow.RecordBatch) error) error {
					return s.decode(ctx, t, name, nil, func(rows arrow.RecordBatch) error {
						return putSome(ctx, rows, staying(rows, t, gone), put)
					})
				})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// staying returns the indices of the rows whose identity is not in gone.
func staying(rows arrow.RecordBatch, t *schema.Table, gone map[string]bool) []int {
	var stay []int
	keys := sinks.KeysOf(rows, t.Identity())
	for i := range int(rows.NumRows()) {
		if !gone[string(keys.At(i))] {
			stay = append(stay, i)
		}
	}
	return stay
}

// eachPart reads all parts of a table in the order of the journal.
func (s *Sink) eachPart(
	ctx context.Context, t *schema.Table, columns []string, each func(name string, rows arrow.RecordBatch) error,
) error {
	parts, err := s.list(t, isPart)
	if err != nil {
		return err
	}
	for _, name := range parts {
		err := s.decode(ctx, t, name, columns, func(rows arrow.RecordBatch) error { return each(name, rows) })
		if err != nil {
			return err
		}
	}
	return nil
}
