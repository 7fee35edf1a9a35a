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

// exportMemory returns the limit of DuckDB's buffers during an export, in bytes: 512 MiB, but at most a third of
// the machine's or container's memory, where a daemon may run, too. Otherwise the kernel would kill one of them.
func exportMemory() int64 { return max(database.DefaultMemory, min(mostOfExport, machine()/3)) }

var machine = database.Memory // tests replace it

const mostOfExport = 512 << 20

// exportBatch is the number of rows of a result that are in memory at a time.
const exportBatch = 20_000

// Spool is [Run] for a result of any size. It first writes the result to a temporary table, which
// DuckDB moves to the folder temp if it does not fit into memory. Then it calls columns once, with the
// number of rows, and row for each row in order. DuckDB renames duplicate columns. The query must be
// one SELECT.
func Spool(
	ctx context.Context, path, text, temp string,
	columns func(fields []Field, rows int64) error, row func([]any) error,
) error {
	return export(ctx, path, text, temp, "", func(conn driver.Conn) error {
		if err := execute(ctx, conn, "CREATE TEMP TABLE result AS\n"+text); err != nil {
			return err
		}
		fields, rows, err := shape(ctx, conn)
		if err != nil {
			return err
		}
		if err := columns(fields, rows); err != nil {
			return err
		}
		for from := int64(0); from < rows; from += exportBatch {
			batch := fmt.Sprintf("FROM temp.result WHERE rowid >= %d AND rowid < %d", from, from+exportBatch)
			if err := read(ctx, conn, batch, nil, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// shape returns the columns and the number of rows of the temporary table.
func shape(ctx context.Context, conn driver.Conn) (fields []Field, rows int64, err error) {
	err = read(ctx, conn, "DESCRIBE temp.result", nil, func(row []any) error {
		fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	err = read(ctx, conn, "SELECT count(*) FROM temp.result", nil, func(row []any) error {
		rows = row[0].(int64)
		return nil
	})
	return fields, rows, err
}

// Parquet writes the result of a query to a new Parquet file, with the types of DuckDB, and returns the
// number of rows. Data that does not fit into memory goes to the folder temp. The query must be one
// SELECT.
func Parquet(ctx context.Context, path, text, temp, to string) (rows int64, err error) {
	err = export(ctx, path, text, temp, to, func(conn driver.Conn) error {
		// Unlike a subquery, a view allows a semicolon or a comment at the end of the query.
		if err := execute(ctx, conn, "CREATE TEMP VIEW result AS\n"+text); err != nil {
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
	memory, threads := exportMemory(), 2 // each thread may have a row group in memory
	if memory < mostOfExport {
		threads = 1
	}
	settings := []string{
		fmt.Sprintf("SET memory_limit = '%dB'", memory),
		"SET temp_directory = " + database.Text(temp),
		fmt.Sprintf("SET threads = %d", threads),
	}
	if to != "" {
		settings = append(settings, "SET allowed_paths = ["+database.Text(to)+"]")
	}
	settings = append(settings, "SET enable_external_access = false", "SET lock_configuration = true")
	err := withFile(ctx, path, func(conn driver.Conn) error {
		if err := checkSingle(text); err != nil {
			return err
		}
		if err := execute(ctx, conn, strings.Join(settings, "; ")); err != nil {
			return fmt.Errorf("confine the query: %w", err)
		}
		if err := checkSelect(conn, text); err != nil {
			return err
		}
		if err := work(conn); err != nil {
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

// checkSelect returns [ErrNoSelect] if text is not one SELECT.
func checkSelect(conn driver.Conn, text string) error {
	stmt, err := conn.Prepare(text)
	if _, wrong := errors.AsType[*duckdb.Error](err); wrong {
		return err
	}
	if err != nil {
		return ErrNoSelect
	}
	kind, err := stmt.(*duckdb.Stmt).StatementType()
	if err = errors.Join(err, stmt.Close()); err == nil && kind != duckdb.STATEMENT_TYPE_SELECT {
		err = ErrNoSelect
	}
	return err
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
