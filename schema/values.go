package schema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The values of a row are in the order of the columns: nil for NULL, int64, float64, string, bool,
// time.Time, []string or []any for a LIST, []any for the fields of a STRUCT, and map[string]int64.

// NewRecord converts rows to Arrow.
func NewRecord(of *arrow.Schema, rows [][]any) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, of)
	defer b.Release()
	for i, row := range rows {
		if len(row) != of.NumFields() {
			return nil, fmt.Errorf("row %d has %d values for %d columns", i, len(row), of.NumFields())
		}
		for j, value := range row {
			if err := appendValue(b.Field(j), value); err != nil {
				return nil, fmt.Errorf("row %d, column %s: %w", i, of.Field(j).Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// appendValue appends a value, which must have the column's Go type.
func appendValue(to array.Builder, value any) error {
	ok := false
	switch v := value.(type) {
	case nil:
		to.AppendNull()
		return nil
	case int64:
		ok = appendTo[*array.Int64Builder](to, v)
	case float64:
		ok = appendTo[*array.Float64Builder](to, v)
	case string:
		ok = appendTo[*array.StringBuilder](to, v)
	case bool:
		ok = appendTo[*array.BooleanBuilder](to, v)
	case time.Time:
		ok = appendTo[*array.TimestampBuilder](to, arrow.Timestamp(v.UnixMicro()))
	case map[string]int64:
		if ok = appendTo[*array.MapBuilder](to, true); ok {
			b := to.(*array.MapBuilder)
			for _, key := range slices.Sorted(maps.Keys(v)) { // so that equal maps become equal rows
				b.KeyBuilder().(*array.StringBuilder).Append(key)
				b.ItemBuilder().(*array.Int64Builder).Append(v[key])
			}
		}
	case []string:
		if ok = appendTo[*array.ListBuilder](to, true); ok {
			return appendEach(v, func(int) array.Builder { return to.(*array.ListBuilder).ValueBuilder() })
		}
	case []any:
		if fields, is := to.(*array.StructBuilder); is {
			fields.Append(true)
			return appendEach(v, fields.FieldBuilder)
		} else if ok = appendTo[*array.ListBuilder](to, true); ok {
			return appendEach(v, func(int) array.Builder { return to.(*array.ListBuilder).ValueBuilder() })
		}
	}
	if !ok {
		return fmt.Errorf("got %T, want %s", value, to.Type())
	}
	return nil
}

// appendTo appends a value, and reports whether the builder takes such values.
func appendTo[B interface{ Append(T) }, T any](to array.Builder, v T) bool {
	b, ok := to.(B)
	if ok {
		b.Append(v)
	}
	return ok
}

func appendEach[T any](values []T, to func(i int) array.Builder) error {
	for i, v := range values {
		if err := appendValue(to(i), v); err != nil {
			return err
		}
	}
	return nil
}

// textSize returns the bytes of text in a value.
func textSize(value any) (n int) {
	switch v := value.(type) {
	case string:
		return len(v)
	case []string:
		for _, s := range v {
			n += len(s)
		}
	case []any:
		for _, e := range v {
			n += textSize(e)
		}
	}
	return n
}

// orNull returns a value of the source, or NULL if it is zero.
func orNull(value any) any {
	if t, ok := value.(time.Time); ok && t.IsZero() || reflect.ValueOf(value).IsZero() {
		return nil
	}
	return value
}

// text returns a value that is a text, or "" for NULL.
func text(value any) string {
	s, _ := value.(string)
	return s
}
