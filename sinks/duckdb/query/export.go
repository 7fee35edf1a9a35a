package query

import (
	"context"
	"database/sql/driver"
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
	return export(ctx, path, text, temp, "", func(conn driver.Conn) error {
		fields, err := view(ctx, conn, text)
		if err != nil {
			return err
		}
		rows, err := spool(ctx, conn, readable("FROM temp.result", fields), len(fields))
		if err != nil {
			return err
		}
		if err := columns(fields, rows); err != nil {
			return err
		}
		return readSpooled(ctx, conn, fields, rows, row)
	})
}

// Parquet writes the result of a query to a new Parquet file, with the types of DuckDB, and returns the
// number of rows. Data that does not fit into memory goes to the folder temp. The query must be one
// SELECT.
func Parquet(ctx context.Context, path, text, temp, to string) (rows int64, err error) {
	err = export(ctx, path, text, temp, to, func(conn driver.Conn) error {
		if _, err := view(ctx, conn, text); err != nil {
			return err
		}
		var err error
		if rows, err = copyTo(ctx, conn, to, 122_880); database.OutOfMemory(err) {
			rows, err = copyTo(ctx, conn, to, 4096) // for rows with long texts
		}
		return err
	})
	return rows, err
}

// copyTo writes the view to a Parquet file with row groups of group rows. DuckDB has one row group per
// thread in memory.
func copyTo(ctx context.Context, conn driver.Conn, to string, group int) (int64, error) {
	copied, err := conn.(driver.ExecerContext).ExecContext(ctx, fmt.Sprintf(
		"COPY (FROM temp.result) TO %s (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE %d, USE_TMP_FILE false)",
		database.Text(to), group), nil)
	if err != nil {
		return 0, err
	}
	return copied.RowsAffected()
}

// export opens the published file and calls work, which runs a query. The query may read only the
// tables. DuckDB may write to the file to and to the folder temp, unless they are "".
func export(ctx context.Context, path, text, temp, to string, work func(driver.Conn) error) error {
	r := resources{memory: room(exportMemory), threads: 2, temp: temp} // each thread may have a row group in memory
	if r.memory < exportMemory {
		r.threads = 1
	}
	var settings []string
	if to != "" {
		settings = append(settings, "SET allowed_paths = ["+database.Text(to)+"]")
	}
	settings = append(settings, "SET enable_external_access = false", "SET lock_configuration = true")
	err := withFile(ctx, path, r, func(conn driver.Conn) error {
		if err := checkSingle(text); err != nil {
			return err
		}
		if err := execute(ctx, conn, strings.Join(settings, "; ")); err != nil {
			return fmt.Errorf("confine the query: %w", err)
		}
		if err := checkSelect(conn, text); err != nil {
			return err
		}
		if err := work(conn); errors.Is(err, ErrNoTable) {
			return err
		} else if err != nil {
			return fmt.Errorf("query %s: %w", path, err)
		}
		return nil
	})
	if failed, ok := errors.AsType[*duckdb.Error](err); ok && failed.Type == duckdb.ErrorTypePermission {
		return &DeniedError{Cause: err}
	}
	return err
}

// ErrNoSelect is returned for an export of SQL that is not one SELECT. DuckDB splits a PIVOT without
// values into several statements.
var ErrNoSelect = errors.New("only the result of one SELECT can be exported (a PIVOT needs its values: " +
	"ON column IN (…))")

// ErrNoTable is returned for an export of a statement that DuckDB answers like a SELECT, but that no view can be of.
var ErrNoTable = errors.New("SHOW, DESCRIBE, SUMMARIZE and PRAGMA cannot be exported by themselves: write " +
	"FROM (DESCRIBE outliers), FROM pragma_table_info('outliers'), or FROM duckdb_tables() for all tables")

// checkSelect returns [ErrNoSelect] if text is not one SELECT, and [ErrParameter] if it has parameters.
func checkSelect(conn driver.Conn, text string) error {
	stmt, err := conn.Prepare(text)
	if _, wrong := errors.AsType[*duckdb.Error](err); wrong {
		return err
	}
	if err != nil {
		return ErrNoSelect
	}
	kind, err := stmt.(*duckdb.Stmt).StatementType()
	parameters := stmt.NumInput()
	switch err = errors.Join(err, stmt.Close()); {
	case err != nil:
		return err
	case kind != duckdb.STATEMENT_TYPE_SELECT:
		return ErrNoSelect
	case parameters > 0:
		return ErrParameter
	}
	return nil
}

// view declares the temporary view result of a query, and returns its columns. Unlike a subquery, a view allows a
// semicolon or a comment at the end of the query.
func view(ctx context.Context, conn driver.Conn, text string) (fields []Field, err error) {
	err = execute(ctx, conn, "CREATE TEMP VIEW result AS\n"+text)
	if wrong, ok := errors.AsType[*duckdb.Error](err); ok && wrong.Type == duckdb.ErrorTypeParser {
		return nil, ErrNoTable // checkSelect has parsed the text itself
	}
	if err != nil {
		return nil, lineBefore(err)
	}
	err = read(ctx, conn, "DESCRIBE temp.result", nil, func(row []any) error {
		fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
		return nil
	})
	return fields, err
}

func execute(ctx context.Context, conn driver.Conn, sql string) error {
	_, err := conn.(driver.ExecerContext).ExecContext(ctx, sql, nil)
	return err
}

// Table returns a query of all rows of a table or view: "ops.runs" is runs in the schema ops.
func Table(name string) string {
	if space, table, ok := strings.Cut(name, "."); ok {
		return "FROM " + database.Name(space) + "." + database.Name(table)
	}
	return "FROM " + database.Name(name)
}
