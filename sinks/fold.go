package sinks

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
)

// Columns by which sinks decide which rows to keep.
const (
	ResponseID  = "_response_id"
	ObservedAt  = "observed_at"
	FirstSeenAt = "first_seen_at"
	LastSeenAt  = "last_seen_at"
	TimesSeen   = "times_seen"
)

// Fold reduces a part to the rows that a sink must write, independent of the rows that the sink has.
// rows have the columns of [schema.Table.Stored]:
//
//   - Current: the last row of each key. times_seen is the number of observations in the part,
//     and first_seen_at the time of the first one. To combine the row with an older row of the
//     sink, keep the older first_seen_at and add up times_seen. A null previous_seen_at means that
//     all observations in the part are of one day. Then the previous values are the older row's
//     last values, if these are of an [EarlierDay] than first_seen_at, else the older row's
//     previous values.
//   - Children, Once: the rows of each parent that have its highest _response_id.
//   - other kinds: all rows. For kind Changes see also [Changes].
//
// gone has the identities, each once, whose stored rows must be deleted, whether or not there are new
// ones. It is nil if there are none. Rows that are older than the deletion of their identity are
// dropped, so the result does not depend on whether both are in one batch. The caller releases both
// records.
func Fold(ctx context.Context, part schema.Part) (rows, gone arrow.RecordBatch, err error) {
	if part.Gone == nil {
		rows, err = fold(ctx, part.Table, part.Rows)
		return rows, nil, err
	}
	standing, gone, err := dropDeleted(ctx, part)
	if err != nil {
		return nil, nil, err
	}
	defer standing.Release()
	if rows, err = fold(ctx, part.Table, standing); err != nil {
		gone.Release()
		return nil, nil, err
	}
	return rows, gone, nil
}

func fold(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	switch t.Kind {
	case schema.Current:
		return foldCurrent(ctx, t, rows)
	case schema.Children, schema.Once:
		return Pick(ctx, rows, lastAnswers(t, rows))
	}
	rows.Retain()
	return rows, nil
}

// foldCurrent returns the last row of each key, in the order of these rows.
func foldCurrent(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	type observations struct{ first, last, times, previous int }
	seen := make(map[string]*observations, rows.NumRows())
	of := make([]*observations, rows.NumRows())
	keys := KeysOf(rows, t.Key)
	observed := column(rows, ObservedAt).(*array.Timestamp)
	for i := range of {
		o := seen[string(keys.At(i))]
		if o == nil {
			o = &observations{first: i, last: i, previous: -1}
			seen[string(keys.At(i))] = o
		}
		if observed.IsValid(o.last) && observed.IsValid(i) && EarlierDay(observed.Value(o.last), observed.Value(i)) {
			o.previous = o.last
		}
		o.last, of[i] = i, o
		o.times++
	}
	var last, previous []int
	first := newTimes(len(seen))
	latest := newTimes(len(seen))
	times := array.NewInt64Builder(memory.DefaultAllocator)
	for i, o := range of {
		if o.last != i {
			continue
		}
		last, previous = append(last, i), append(previous, o.previous)
		appendTime(first, observed, o.first)
		appendTime(latest, observed, i)
		times.Append(int64(o.times))
	}
	kept, err := Pick(ctx, rows, last)
	if err != nil {
		return nil, err
	}
	defer kept.Release()
	carried := []arrow.Array{first.NewArray(), latest.NewArray(), times.NewArray()}
	if t.Grows != "" {
		carried = append(carried, previousColumns(observed, column(rows, t.Grows).(*array.Int64), previous)...)
	}
	return extend(kept, t.Stored(), carried...), nil
}

// EarlierDay reports whether a is on an earlier day than b, in UTC.
func EarlierDay(a, b arrow.Timestamp) bool {
	day := (24 * time.Hour).Microseconds()
	return int64(a)/day < int64(b)/day
}

// previousColumns returns two columns with the times and numbers of the given rows. Row -1 is null.
func previousColumns(observed *array.Timestamp, grows *array.Int64, rows []int) []arrow.Array {
	times, numbers := newTimes(len(rows)), array.NewInt64Builder(memory.DefaultAllocator)
	for _, i := range rows {
		if i < 0 {
			times.AppendNull()
			numbers.AppendNull()
			continue
		}
		appendTime(times, observed, i)
		if grows.IsNull(i) {
			numbers.AppendNull()
		} else {
			numbers.Append(grows.Value(i))
		}
	}
	return []arrow.Array{times.NewArray(), numbers.NewArray()}
}

// lastAnswers returns the indices of the rows that have the highest _response_id of their parent.
func lastAnswers(t *schema.Table, rows arrow.RecordBatch) []int {
	parents := KeysOf(rows, t.Key[:1])
	answers := column(rows, ResponseID).(*array.Int64)
	again := func(i int) bool { return parents.SameAsPrevious(i) && answers.Value(i) == answers.Value(i-1) }
	last := map[string]int64{}
	for i := range int(rows.NumRows()) {
		if again(i) {
			continue
		}
		if highest, ok := last[string(parents.At(i))]; !ok || answers.Value(i) > highest {
			last[string(parents.At(i))] = answers.Value(i)
		}
	}
	kept, stands := make([]int, 0, rows.NumRows()), false
	for i := range int(rows.NumRows()) {
		if !again(i) {
			stands = last[string(parents.At(i))] == answers.Value(i)
		}
		if stands {
			kept = append(kept, i)
		}
	}
	return kept
}

// Pick returns the rows with the given indices, which must be in ascending order. It does not copy if
// these are all rows. The caller releases the result.
func Pick(ctx context.Context, rows arrow.RecordBatch, which []int) (arrow.RecordBatch, error) {
	if int64(len(which)) == rows.NumRows() {
		rows.Retain()
		return rows, nil
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(len(which))
	for _, i := range which {
		b.UnsafeAppend(int64(i))
	}
	indices := b.NewArray()
	defer indices.Release()
	picked, err := compute.Take(ctx, *compute.DefaultTakeOptions(), compute.NewDatumWithoutOwning(rows),
		compute.NewDatumWithoutOwning(indices))
	if err != nil {
		return nil, fmt.Errorf("pick %d of %d rows: %w", len(which), rows.NumRows(), err)
	}
	return picked.(*compute.RecordDatum).Value, nil
}

// extend appends columns to rows, and releases the columns.
func extend(rows arrow.RecordBatch, to *arrow.Schema, more ...arrow.Array) arrow.RecordBatch {
	columns := append(rows.Columns()[:rows.NumCols():rows.NumCols()], more...)
	extended := array.NewRecordBatch(to, columns, rows.NumRows())
	for _, a := range more {
		a.Release()
	}
	return extended
}

func newTimes(n int) *array.TimestampBuilder {
	b := array.NewTimestampBuilder(memory.DefaultAllocator,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	b.Reserve(n)
	return b
}

func appendTime(b *array.TimestampBuilder, from *array.Timestamp, i int) {
	if from.IsNull(i) {
		b.AppendNull()
		return
	}
	b.Append(from.Value(i))
}

// column returns a column by name. It panics if the column is missing, which is an error in the
// declaration of the table.
func column(rows arrow.RecordBatch, name string) arrow.Array {
	at := rows.Schema().FieldIndices(name)
	if len(at) != 1 {
		panic(fmt.Sprintf("sinks: %d columns named %q among %v", len(at), name, rows.Schema()))
	}
	return rows.Column(at[0])
}

// Keys encodes the values of some columns as bytes. Two keys are equal if and only if all values are
// equal; null equals null.
type Keys struct {
	columns []arrow.Array
	buf     []byte
}

// KeysOf returns the keys of the named columns. The caller must not release rows before the last use of
// the Keys.
func KeysOf(rows arrow.RecordBatch, names []string) *Keys {
	k := &Keys{}
	for _, name := range names {
		k.columns = append(k.columns, column(rows, name))
	}
	return k
}

// At returns the key of row i. It is valid until the next call.
func (k *Keys) At(i int) []byte {
	k.buf = k.buf[:0]
	for _, c := range k.columns {
		k.buf = appendValue(k.buf, c, i)
	}
	return k.buf
}

// SameAsPrevious reports whether row i has the same key as the row before it. Rows of an answer are adjacent,
// and this comparison is much cheaper than a lookup.
func (k *Keys) SameAsPrevious(i int) bool {
	return i > 0 && !slices.ContainsFunc(k.columns, func(c arrow.Array) bool { return !equal(c, i-1, i) })
}

// equal reports whether two values of a column are equal; null equals null.
func equal(a arrow.Array, i, j int) bool {
	if texts, ok := a.(*array.String); ok && texts.IsValid(i) && texts.IsValid(j) {
		return texts.Value(i) == texts.Value(j)
	}
	return bytes.Equal(appendValue(nil, a, i), appendValue(nil, a, j))
}

// appendValue appends an encoding of a value. No encoding is a prefix of another one, so that
// concatenated encodings are unique too.
func appendValue(buf []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(buf, 0)
	}
	buf = append(buf, 1)
	switch a := a.(type) {
	case *array.String:
		v := a.Value(i)
		return append(binary.AppendUvarint(buf, uint64(len(v))), v...)
	case *array.Int64:
		return binary.LittleEndian.AppendUint64(buf, uint64(a.Value(i)))
	case *array.Timestamp:
		return binary.LittleEndian.AppendUint64(buf, uint64(a.Value(i)))
	case *array.Float64:
		return binary.LittleEndian.AppendUint64(buf, math.Float64bits(a.Value(i)))
	case *array.Boolean:
		if a.Value(i) {
			return append(buf, 1)
		}
		return append(buf, 0)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		buf = binary.AppendUvarint(buf, uint64(to-from))
		for j := from; j < to; j++ {
			buf = appendValue(buf, a.ListValues(), int(j))
		}
		return buf
	case *array.Struct:
		for f := range a.NumField() {
			buf = appendValue(buf, a.Field(f), i)
		}
		return buf
	}
	panic(fmt.Sprintf("sinks: columns of type %v are not supported", a.DataType()))
}
