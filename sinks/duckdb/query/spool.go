package query

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks/duckdb/database"
)

// DuckDB has the whole result of a query in memory, outside its memory limit. A temporary table counts, and DuckDB
// moves it to disk if it does not fit. So a result of any size goes to such a table first, and is read from there in
// batches.

// spoolBatch is the number of rows of a result that are in memory at a time.
const spoolBatch = 20_000

// spoolRows reads the rows of the result of a text in order, and calls columns with their number before. The columns of
// the table have names of their own, because a column with the name rowid would hide the row numbers.
func spoolRows(
	ctx context.Context, db *database.DB, text string, fields []Field, columns func(rows int64) error, row func([]any) error,
) error {
	table, batch, count := "temp.spooled", int64(spoolBatch), ""
	if ofCatalog().MatchString(text) { // the temporary table would be among what it lists
		table, batch = "("+selectReadable(text, fields)+")", math.MaxInt64
		count = "SELECT count(*) FROM " + table
	} else {
		names := make([]string, len(fields))
		for i := range names {
			names[i] = fmt.Sprintf("c%d", i)
		}
		// This returns the number of rows, too.
		count = fmt.Sprintf("CREATE TEMP TABLE spooled(%s) AS %s", strings.Join(names, ", "), selectReadable(text, fields))
	}
	counted, err := db.Query(ctx, count)
	if err != nil {
		return err
	}
	rows := counted[0][0].(int64)
	if err := columns(rows); err != nil {
		return err
	}
	for from := int64(0); from < rows; from += batch {
		some := "FROM " + table
		if batch < rows {
			some += fmt.Sprintf(" WHERE rowid >= %d AND rowid < %d", from, from+batch)
		}
		err := readRows(ctx, db, some, nil, func(values []any) error {
			for i, f := range fields {
				switch text, ok := values[i].(string); {
				case ok && f.asJSON() && json.Valid([]byte(text)): // NaN is not valid
					values[i] = json.RawMessage(text)
				case ok && strings.HasPrefix(f.Kind, "DECIMAL"):
					values[i] = json.Number(text)
				}
			}
			return row(values)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofCatalog matches the names of what lists tables or columns. A result whose query only has such a word in a literal
// is in memory.
var ofCatalog = lazyregexp.New(`(?i)\b(?:duckdb_|information_schema\b|pragma_|sqlite_|pg_)|(?:^|\()\s*show\b`)

// # Values that have no type in Go
//
// The driver does not know all types of DuckDB, and returns days, infinite times and the time 24:00 as others. DuckDB
// itself converts what is not a plain value: to text, or to JSON if it consists of several values.

var (
	composed = lazyregexp.New(`^(?:STRUCT|MAP)\(|\]$`)
	asText   = lazyregexp.New(`^(?:DATE|TIME|TIMETZ|TIME WITH TIME ZONE|TIME_NS|TIMESTAMP(?:_S|_MS|_NS)?|INTERVAL|UUID|BIT|VARIANT|` +
		`(?:DECIMAL|UNION|GEOMETRY)\b.*)$`)
)

// asJSON reports whether DuckDB converts a column to JSON.
func (f Field) asJSON() bool { return f.Kind == "JSON" || composed().MatchString(f.Kind) }

// selectReadable returns a query of columns of the result of a text, with values that the driver can read.
func selectReadable(text string, fields []Field) string {
	var columns []string
	for _, f := range fields {
		switch name := database.Name(f.Name); {
		case f.asJSON():
			columns = append(columns, "to_json("+name+")::VARCHAR")
		case asText().MatchString(f.Kind):
			columns = append(columns, name+"::VARCHAR")
		default:
			columns = append(columns, name)
		}
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + resultOf(text)
}
