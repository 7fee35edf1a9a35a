package query

import (
	"context"
	"fmt"
	"strings"

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
	r := resourcesUpTo(exportMemory, temp)
	return openAndQuery(ctx, path, text, r, permission{}, func(db *database.DB, fields []Field) error {
		return spoolRows(ctx, db, text, fields, func(rows int64) error { return columns(fields, rows) }, row)
	})
}

// Parquet writes the result of a query to a new Parquet file, with the types of DuckDB, and returns the
// number of rows. Data that does not fit into memory goes to the folder temp. The query must be one
// SELECT.
func Parquet(ctx context.Context, path, text, temp, to string) (rows int64, err error) {
	r, p := resourcesUpTo(exportMemory, temp), permission{settings: "SET allowed_paths = [" + database.Text(to) + "]"}
	err = openAndQuery(ctx, path, text, r, p, func(db *database.DB, _ []Field) error {
		// DuckDB has a row group per thread in memory, and a row may have a long text.
		rows, err = db.Exec(ctx, fmt.Sprintf("COPY (FROM %s) TO %s (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 4096, USE_TMP_FILE false)",
			resultOf(text), database.Text(to)))
		return err
	})
	return rows, err
}

// Table returns a query of all rows of a table or view: "ops.runs" is runs in the schema ops.
func Table(name string) string {
	return "FROM " + strings.ReplaceAll(database.Name(name), ".", `"."`)
}
