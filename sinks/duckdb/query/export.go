package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/sinks/duckdb/database"
)

// exportMemory is the limit of DuckDB's buffers during an export, in bytes, on a machine with enough memory.
const exportMemory = 512 << 20

// Spool is [Run] for a result whose number of rows must be known before it is read: it calls columns once, with
// that number. Data that does not fit into memory goes to the folder temp. DuckDB renames duplicate columns. The
// query must be one SELECT.
func Spool(
	ctx context.Context, path, text, temp string,
	columns func(fields []Field, rows int64) error, row func([]any) error,
) error {
	return openAndQuery(ctx, path, text, exportResources(temp), permission{}, func(db *database.DB) error {
		fields, err := declareView(ctx, db, text)
		if err != nil {
			return err
		}
		rows, err := spoolResult(ctx, db, makeReadable("FROM temp.result", fields), len(fields))
		if err != nil {
			return err
		}
		if err := columns(fields, rows); err != nil {
			return err
		}
		return readSpooled(ctx, db, fields, rows, row)
	})
}

// Parquet writes the result of a query to a new Parquet file, with the types of DuckDB, and returns the
// number of rows. Data that does not fit into memory goes to the folder temp. The query must be one
// SELECT.
func Parquet(ctx context.Context, path, text, temp, to string) (rows int64, err error) {
	err = openAndQuery(ctx, path, text, exportResources(temp), permission{to: to}, func(db *database.DB) error {
		if _, err := declareView(ctx, db, text); err != nil {
			return err
		}
		var err error
		if rows, err = copyTo(ctx, db, to, 122_880); database.OutOfMemory(err) {
			rows, err = copyTo(ctx, db, to, 4096) // for rows with long texts
		}
		return err
	})
	return rows, err
}

// copyTo writes the view to a Parquet file with row groups of group rows. DuckDB has one row group per
// thread in memory.
func copyTo(ctx context.Context, db *database.DB, to string, group int) (int64, error) {
	return db.Exec(ctx, fmt.Sprintf(
		"COPY (FROM temp.result) TO %s (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE %d, USE_TMP_FILE false)",
		database.Text(to), group))
}

// exportResources are the resources of an export. Each thread may have a row group in memory.
func exportResources(temp string) resources {
	r := resources{memory: memoryLimit(exportMemory), threads: 2, temp: temp}
	if r.memory < exportMemory {
		r.threads = 1
	}
	return r
}

// ErrNoSelect is returned for an export of SQL that is not one SELECT. DuckDB splits a PIVOT without
// values into several statements.
var ErrNoSelect = errors.New("only the result of one SELECT can be exported (a PIVOT needs its values: " +
	"ON column IN (…))")

// ErrNoTable is returned for an export of a statement that DuckDB answers like a SELECT, but that no view can be of.
var ErrNoTable = errors.New("SHOW, DESCRIBE, SUMMARIZE and PRAGMA cannot be exported by themselves: write " +
	"FROM (DESCRIBE outliers), FROM pragma_table_info('outliers'), or FROM duckdb_tables() for all tables")

// declareView declares the temporary view result of a query, and returns its columns. Unlike a subquery, a view allows a
// semicolon or a comment at the end of the query.
func declareView(ctx context.Context, db *database.DB, text string) (fields []Field, err error) {
	_, err = db.Exec(ctx, "CREATE TEMP VIEW result AS\n"+text)
	if wrong, ok := errors.AsType[*duckdb.Error](err); ok && wrong.Type == duckdb.ErrorTypeParser {
		return nil, ErrNoTable // confine has parsed the text itself
	}
	if err != nil {
		return nil, lineBefore(err)
	}
	err = readRows(ctx, db, "DESCRIBE temp.result", nil, func(row []any) error {
		fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
		return nil
	})
	return fields, err
}

// Table returns a query of all rows of a table or view: "ops.runs" is runs in the schema ops.
func Table(name string) string {
	if space, table, ok := strings.Cut(name, "."); ok {
		return "FROM " + database.Name(space) + "." + database.Name(table)
	}
	return "FROM " + database.Name(name)
}
