package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/duckdb/duckdb-go/v2"

	"outlierd/schema"
)

// Stage appends rows to a temporary table, which it makes if there is none. JSON is text in it: the driver would encode
// it once more.
func (db *DB) Stage(ctx context.Context, table string, rows arrow.RecordBatch) (err error) {
	var columns []string
	var values []func(i int) any
	for c, f := range rows.Schema().Fields() {
		columns = append(columns, Name(f.Name)+" "+schema.SQLType(f.Type))
		values = append(values, valuesOf(rows.Column(c)))
	}
	if _, err := db.Exec(ctx, "CREATE TEMP TABLE IF NOT EXISTS "+Name(table)+" ("+strings.Join(columns, ", ")+")"); err != nil {
		return err
	}
	to, err := duckdb.NewAppender(db.conn, "temp", "main", table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.CloseWithCancel(ctx)) }()
	row := make([]driver.Value, len(values))
	for i := range int(rows.NumRows()) {
		for c, value := range values {
			row[c] = value(i)
		}
		if err := to.AppendRow(row...); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns a function that returns a value of a column as the driver wants it.
func valuesOf(a arrow.Array) func(i int) any {
	value := validValuesOf(a)
	return func(i int) any {
		if a.IsNull(i) {
			return nil
		}
		return value(i)
	}
}

func validValuesOf(a arrow.Array) func(i int) any {
	switch a := a.(type) {
	case *array.String:
		return func(i int) any { return a.Value(i) }
	case *array.Int64:
		return func(i int) any { return a.Value(i) }
	case *array.Float64:
		return func(i int) any { return a.Value(i) }
	case *array.Boolean:
		return func(i int) any { return a.Value(i) }
	case *array.Timestamp:
		return func(i int) any { return time.UnixMicro(int64(a.Value(i))).UTC() }
	case *array.Map:
		keys, items := valuesOf(a.Keys()), valuesOf(a.Items())
		return func(i int) any {
			var entries duckdb.OrderedMap
			from, to := a.ValueOffsets(i)
			for j := int(from); j < int(to); j++ {
				entries.Set(keys(j), items(j))
			}
			return entries
		}
	case *array.List:
		element := valuesOf(a.ListValues())
		return func(i int) any {
			from, to := a.ValueOffsets(i)
			list := make([]any, 0, to-from)
			for j := int(from); j < int(to); j++ {
				list = append(list, element(j))
			}
			return list
		}
	case *array.Struct:
		names, fields := a.DataType().(*arrow.StructType).Fields(), make([]func(int) any, a.NumField())
		for f := range fields {
			fields[f] = valuesOf(a.Field(f))
		}
		return func(i int) any {
			value := make(map[string]any, len(fields))
			for f, field := range fields {
				value[names[f].Name] = field(i)
			}
			return value
		}
	}
	panic(fmt.Sprintf("database: columns of type %v are not supported", a.DataType()))
}
