//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
)

// rowPair pairs a stored row with the new row of the same key, which continues its history.
type rowPair struct {
	old int64 // position in the file
	new int   // index among the new rows
}

// seen has the columns of a Current table that depend on earlier rows of the key. nil is null.
type seen struct {
	first, last, previousAt *arrow.Timestamp
	times                   int64
	number, previous        *int64 // of the column that grows
}

// merge returns the history s continued by a newer row, with the rules of [sinks.Fold].
func (s seen) merge(newer seen) seen {
	begun := newer.first
	newer.first, newer.times = s.first, s.times+newer.times
	switch {
	case newer.previousAt != nil:
	case s.last != nil && begun != nil && sinks.EarlierDay(*s.last, *begun):
		newer.previousAt, newer.previous = s.last, s.number
	default:
		newer.previousAt, newer.previous = s.previousAt, s.previous
	}
	return newer
}

// seenColumns returns the names of the columns of [seen], in the order of its fields.
func (l *lakeTable) seenColumns() []string {
	names := []string{sinks.FirstSeenAt, sinks.LastSeenAt, sinks.TimesSeen}
	if l.of.Grows != "" {
		names = append(names, l.of.Grows, schema.PreviousSeenAt, l.of.Previous())
	}
	return names
}

// seenReader returns a function that reads [seen] from row i.
func (l *lakeTable) seenReader(rows arrow.RecordBatch) func(i int) seen {
	column := func(name string) arrow.Array { return rows.Column(rows.Schema().FieldIndices(name)[0]) }
	time := func(name string) func(int) *arrow.Timestamp {
		times := column(name).(*array.Timestamp)
		return func(i int) *arrow.Timestamp {
			if times.IsNull(i) {
				return nil
			}
			return new(times.Value(i))
		}
	}
	number := func(name string) func(int) *int64 {
		numbers := column(name).(*array.Int64)
		return func(i int) *int64 {
			if numbers.IsNull(i) {
				return nil
			}
			return new(numbers.Value(i))
		}
	}
	first, last, times := time(sinks.FirstSeenAt), time(sinks.LastSeenAt), column(sinks.TimesSeen).(*array.Int64)
	if l.of.Grows == "" {
		return func(i int) seen { return seen{first: first(i), last: last(i), times: times.Value(i)} }
	}
	grown, previousAt, previous := number(l.of.Grows), time(schema.PreviousSeenAt), number(l.of.Previous())
	return func(i int) seen {
		return seen{first(i), last(i), previousAt(i), times.Value(i), grown(i), previous(i)}
	}
}

// continueHistory reads the old rows from the files and returns the new rows with the history continued.
// pairs is keyed by file. The caller releases the result.
func (c *change) continueHistory(ctx context.Context, pairs map[string][]rowPair) (arrow.RecordBatch, error) {
	l := c.table
	if len(pairs) == 0 {
		c.rows.Retain()
		return c.rows, nil
	}
	now := l.seenReader(c.rows)
	all := make([]seen, c.rows.NumRows())
	for i := range all {
		all[i] = now(i)
	}
	for _, name := range sortedKeys(pairs) {
		rows := pairs[name]
		slices.SortFunc(rows, func(a, b rowPair) int { return cmp.Compare(a.old, b.old) })
		err := l.decodeRows(ctx, name, l.seenColumns(), rows, func(i int, old seen) { all[i] = old.merge(all[i]) })
		if err != nil {
			return nil, err
		}
	}
	columns := slices.Clone(c.rows.Columns())
	set := func(name string, values arrow.Array) { columns[c.rows.Schema().FieldIndices(name)[0]] = values }
	set(sinks.FirstSeenAt, times(all, func(s seen) *arrow.Timestamp { return s.first }))
	set(sinks.TimesSeen, numbers(all, func(s seen) *int64 { return &s.times }))
	if l.of.Grows != "" {
		set(schema.PreviousSeenAt, times(all, func(s seen) *arrow.Timestamp { return s.previousAt }))
		set(l.of.Previous(), numbers(all, func(s seen) *int64 { return s.previous }))
	}
	return array.NewRecordBatch(c.rows.Schema(), columns, c.rows.NumRows()), nil
}

func times(all []seen, of func(seen) *arrow.Timestamp) arrow.Array {
	b := array.NewTimestampBuilder(memory.DefaultAllocator,
		&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"})
	defer b.Release()
	for _, s := range all {
		if at := of(s); at != nil {
			b.Append(*at)
		} else {
			b.AppendNull()
		}
	}
	return b.NewArray()
}

func numbers(all []seen, of func(seen) *int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for _, s := range all {
		if n := of(s); n != nil {
			b.Append(*n)
		} else {
			b.AppendNull()
		}
	}
	return b.NewArray()
}

// decodeRows calls each with [seen] of the given rows of a file, which are in ascending order. It reads
// only the row groups that contain them.
func (l *lakeTable) decodeRows(ctx context.Context, name string, columns []string, rows []rowPair,
	each func(i int, old seen)) error {
	groups, err := l.groupsOf(name, rows)
	if err != nil {
		return err
	}
	next := 0
	err = l.decode(ctx, name, columns, groups, func(from int64, some arrow.RecordBatch) error {
		past := l.seenReader(some)
		for ; next < len(rows) && rows[next].old < from+some.NumRows(); next++ {
			each(rows[next].new, past(int(rows[next].old-from)))
		}
		return nil
	})
	if err == nil && next < len(rows) {
		err = fmt.Errorf("%s has no row %d: %w", name, rows[next].old, ErrRebuild)
	}
	return err
}
