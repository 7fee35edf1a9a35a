package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks/duckdb/database"
)

// DuckDB has the whole result of a query in memory, outside its memory limit. A temporary table counts, and DuckDB
// moves it to disk if it does not fit. So a result of any size goes to such a table first, and is read from there in
// batches.

// spoolBatch is the number of rows of a result that are in memory at a time.
const spoolBatch = 20_000

// spoolResult writes the result of a query with some columns to the temporary table spooled, and returns the number of rows.
// The columns have names of their own, because a column with the name rowid would hide the row numbers.
func spoolResult(ctx context.Context, db *database.DB, text string, columns int) (rows int64, err error) {
	names := make([]string, columns)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	create := fmt.Sprintf("CREATE TEMP TABLE spooled(%s) AS\n%s", strings.Join(names, ", "), text)
	if _, err := db.Exec(ctx, create); err != nil {
		return 0, lineBefore(err)
	}
	err = readRows(ctx, db, "SELECT count(*) FROM temp.spooled", nil, func(row []any) error {
		rows = row[0].(int64)
		return nil
	})
	return rows, err
}

// readSpooled reads the rows of the temporary table in order.
func readSpooled(ctx context.Context, db *database.DB, fields []Field, rows int64, row func([]any) error) error {
	for from := int64(0); from < rows; from += spoolBatch {
		batch := fmt.Sprintf("FROM temp.spooled WHERE rowid >= %d AND rowid < %d", from, from+spoolBatch)
		err := readRows(ctx, db, batch, nil, func(values []any) error {
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

// makeReadable returns a query of the view of [declareView] with values that the driver can read, and text if all are.
func makeReadable(text string, fields []Field) string {
	var columns []string
	for _, f := range fields {
		switch name := database.Name(f.Name); {
		case f.asJSON():
			columns = append(columns, fmt.Sprintf("to_json(%s)::VARCHAR AS %[1]s", name))
		case asText().MatchString(f.Kind):
			columns = append(columns, fmt.Sprintf("%s::VARCHAR AS %[1]s", name))
		}
	}
	if len(columns) == 0 {
		return text
	}
	return "SELECT * REPLACE (" + strings.Join(columns, ", ") + ") FROM temp.result"
}

// ofCatalog matches the names of what lists tables or columns.
var ofCatalog = lazyregexp.New(`(?i)\b(?:duckdb_|information_schema\b|pragma_|sqlite_|pg_|show\b)`)

// readsCatalog reports whether a query may list tables or columns, among which the temporary table would be.
func readsCatalog(text string) bool {
	return ofCatalog().MatchString(withoutTexts(text))
}

// readAny is [readRows] for a result of any size. Only results that no view can have, such as that of EXPLAIN, and lists
// of tables and columns are in memory.
func readAny(
	ctx context.Context, db *database.DB, text string, columns func([]string) error, row func([]any) error,
) error {
	if readsCatalog(text) {
		return readRows(ctx, db, text, columns, row)
	}
	fields, err := declareView(ctx, db, text)
	if err != nil { // or the text has a mistake, which is reported for the text itself
		return readRows(ctx, db, text, columns, row)
	}
	rows, err := spoolResult(ctx, db, makeReadable(text, fields), len(fields))
	if err != nil {
		return err
	}
	if columns != nil {
		var names []string
		for _, f := range fields {
			names = append(names, f.Name)
		}
		if err := columns(names); err != nil {
			return err
		}
	}
	return readSpooled(ctx, db, fields, rows, row)
}

// lineOfText matches the line of a mistake in DuckDB's message.
var lineOfText = lazyregexp.New(`(\n\nLINE )(\d+)(: )`)

// lineBefore counts the line in DuckDB's message from the second one, where the query of a user begins.
func lineBefore(err error) error {
	failed, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	m := lineOfText().FindStringSubmatchIndex(failed.Msg)
	if m == nil {
		return err
	}
	n, _ := strconv.Atoi(failed.Msg[m[4]:m[5]]) // it has only digits
	return &duckdb.Error{Type: failed.Type, Msg: failed.Msg[:m[4]] + strconv.Itoa(n-1) + failed.Msg[m[5]:]}
}
