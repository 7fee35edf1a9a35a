package schema

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrow returns the rows as an Arrow array of type t. The array shares the slices of v, which must
// not be written to afterwards.
func (v *vector) arrow(mem memory.Allocator, t arrow.DataType) arrow.Array {
	data := v.data(mem, t)
	defer data.Release()
	return array.MakeFromData(data)
}

func (v *vector) data(mem memory.Allocator, t arrow.DataType) arrow.ArrayData {
	buffers := []*memory.Buffer{v.validity(mem)}
	var kids []arrow.ArrayData
	switch v.form {
	case number:
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(v.words)))
	case truth:
		buffers = append(buffers, v.bits(mem))
	case text:
		buffers = append(buffers, v.offsets(), memory.NewBufferBytes(v.bytes))
	case listing:
		buffers = append(buffers, v.offsets())
		kids = append(kids, v.kids[0].data(mem, t.(*arrow.ListType).Elem()))
	case object:
		for i, f := range t.(*arrow.StructType).Fields() {
			kids = append(kids, v.kids[i].data(mem, f.Type))
		}
	}
	data := array.NewData(t, v.rows, buffers, kids, len(v.nulls), 0)
	for _, b := range buffers {
		if b != nil {
			b.Release()
		}
	}
	for _, kid := range kids {
		kid.Release()
	}
	return data
}

// validity returns the bitmap of the rows that are not null, or nil if no row is null.
func (v *vector) validity(mem memory.Allocator) *memory.Buffer {
	if len(v.nulls) == 0 {
		return nil
	}
	bits := mem.Allocate((v.rows + 7) / 8)
	for i := range bits {
		bits[i] = 0xff
	}
	for _, row := range v.nulls {
		bits[row/8] &^= 1 << (row % 8)
	}
	return memory.NewBufferWithAllocator(bits, mem)
}

// bits packs the booleans, stored one per byte, into a bitmap.
func (v *vector) bits(mem memory.Allocator) *memory.Buffer {
	bits := mem.Allocate((v.rows + 7) / 8)
	clear(bits)
	for i, b := range v.bytes {
		bits[i/8] |= b << (i % 8)
	}
	return memory.NewBufferWithAllocator(bits, mem)
}

func (v *vector) offsets() *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v.ends))
}

// Records converts rows of an operations table to Arrow. The values of a row are in the order of
// the columns: nil, int64, float64, string, bool, time.Time, []string or map[string]int64.
func (t *Table) Records(rows [][]any) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.schema())
	defer b.Release()
	for i, row := range rows {
		if len(row) != len(t.Columns) {
			return nil, fmt.Errorf("row %d of %s has %d values for %d columns", i, t.Name, len(row), len(t.Columns))
		}
		for j, value := range row {
			if err := appendAny(b.Field(j), value); err != nil {
				return nil, fmt.Errorf("row %d of %s, column %s: %w", i, t.Name, t.Columns[j].Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

func appendAny(b array.Builder, value any) error {
	if value == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		return appendAs(b.Append, value)
	case *array.Float64Builder:
		return appendAs(b.Append, value)
	case *array.StringBuilder:
		return appendAs(b.Append, value)
	case *array.BooleanBuilder:
		return appendAs(b.Append, value)
	case *array.TimestampBuilder:
		return appendAs(func(t time.Time) { b.Append(arrow.Timestamp(t.UnixMicro())) }, value)
	case *array.ListBuilder:
		return appendAs(func(list []string) { appendTexts(b, list) }, value)
	case *array.MapBuilder:
		return appendAs(func(m map[string]int64) { appendCounts(b, m) }, value)
	}
	return fmt.Errorf("no values of type %s", b.Type())
}

// appendAs appends a value, which must have the column's Go type.
func appendAs[T any](add func(T), value any) error {
	v, ok := value.(T)
	if !ok {
		return fmt.Errorf("a %T where a %T belongs", value, v)
	}
	add(v)
	return nil
}

func appendTexts(b *array.ListBuilder, list []string) {
	b.Append(true)
	for _, s := range list {
		b.ValueBuilder().(*array.StringBuilder).Append(s)
	}
}

// appendCounts appends a map sorted by key, so that equal maps become equal rows.
func appendCounts(b *array.MapBuilder, m map[string]int64) {
	b.Append(true)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.KeyBuilder().(*array.StringBuilder).Append(key)
		b.ItemBuilder().(*array.Int64Builder).Append(m[key])
	}
}
