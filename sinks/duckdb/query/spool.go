package query

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/lazyregexp"
)

// DuckDB has the whole result of a query in memory, outside its memory limit. A temporary table counts, and DuckDB
// moves it to disk if it does not fit. So a result of any size goes to such a table first, and is read from there in
// batches.

// spoolBatch is the number of rows of a result that are in memory at a time.
const spoolBatch = 20_000

// spool writes the result of a query with some columns to the temporary table spooled, and returns the number of rows.
func spool(ctx context.Context, conn driver.Conn, text string, columns int) (rows int64, err error) {
	if err := execute(ctx, conn, spooling(text, columns)); err != nil {
		return 0, lineBefore(err)
	}
	err = read(ctx, conn, "SELECT count(*) FROM temp.spooled", nil, func(row []any) error {
		rows = row[0].(int64)
		return nil
	})
	return rows, err
}

// spooling returns the statement of [spool]. The columns have names of their own, because a column with the name
// rowid would hide the row numbers.
func spooling(text string, columns int) string {
	names := make([]string, columns)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	return fmt.Sprintf("CREATE TEMP TABLE spooled(%s) AS\n%s", strings.Join(names, ", "), text)
}

// readSpooled reads the rows of the temporary table in order.
func readSpooled(ctx context.Context, conn driver.Conn, rows int64, row func([]any) error) error {
	for from := int64(0); from < rows; from += spoolBatch {
		batch := fmt.Sprintf("FROM temp.spooled WHERE rowid >= %d AND rowid < %d", from, from+spoolBatch)
		if err := read(ctx, conn, batch, nil, row); err != nil {
			return err
		}
	}
	return nil
}

// ofCatalog matches the names of what lists tables or columns.
var ofCatalog = lazyregexp.New(`(?i)\b(?:duckdb_|information_schema\b|pragma_|sqlite_|pg_|show\b)`)

// readsCatalog reports whether a query may list tables or columns, among which the temporary table would be.
func readsCatalog(text string) bool {
	return ofCatalog().MatchString(inert().ReplaceAllString(text, " "))
}

// readAny is [read] for a result of any size. Only results that no table can have, such as that of EXPLAIN, and lists
// of tables and columns are in memory.
func readAny(
	ctx context.Context, conn driver.Conn, text string, columns func([]string) error, row func([]any) error,
) error {
	var names []string
	if !readsCatalog(text) {
		names = spoolable(conn, text)
	}
	if names == nil {
		return read(ctx, conn, text, columns, row)
	}
	rows, err := spool(ctx, conn, text, len(names))
	if err != nil {
		return err
	}
	if columns != nil {
		if err := columns(names); err != nil {
			return err
		}
	}
	return readSpooled(ctx, conn, rows, row)
}

// spoolable returns the columns of a result, or nil if a table cannot have it.
func spoolable(conn driver.Conn, text string) (names []string) {
	prepared, err := conn.Prepare(text)
	if err != nil {
		return nil
	}
	defer prepared.Close()
	stmt := prepared.(*duckdb.Stmt)
	kind, err := stmt.StatementType()
	if err != nil || kind != duckdb.STATEMENT_TYPE_SELECT || stmt.NumInput() > 0 {
		return nil
	}
	n, err := stmt.ColumnCount()
	for i := 0; i < n && err == nil; i++ {
		var name string
		name, err = stmt.ColumnName(i)
		names = append(names, name)
	}
	if err != nil {
		return nil
	}
	create, err := conn.Prepare(spooling(text, len(names)))
	if err != nil {
		return nil
	}
	create.Close()
	return names
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
