// Package query queries the published DuckDB file: for SQL of users and of jobs, and for the output
// of commands. It opens the file read-only for each query and closes it again.
package query

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks/duckdb/database"
)

// Run queries a published file. It calls columns once, unless it is nil, with the names of the columns
// of the result, of which DuckDB renames duplicates, and then row for each row. The file is opened read-only for
// each query, so that every query reads the latest publication.
//
// Values are nil for NULL, bool, the integers and floats of Go, *big.Int for HUGEINT and UHUGEINT,
// json.Number for DECIMAL, time.Time for TIMESTAMP WITH TIME ZONE, []byte for BLOB, and json.RawMessage for lists,
// structs and maps. All other values, such as DATE, INTERVAL, UUID, NaN and infinity, are strings in the format of SQL.
//
// The query may not read or write other files, or change settings, because people paste SQL from
// untrusted sources. Its error is then [ErrDenied]. See [RunUnsafe]. Its days are those of UTC. It may use
// a third of the memory, and a folder for temporary files, which is removed. Of several statements, the result is
// that of the last one.
func Run(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	return runQuery(ctx, path, text, permission{statements: true}, columns, row)
}

// RunUnsafe is [Run] for a query that may read and write other files, with the permissions of the user.
func RunUnsafe(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	return runQuery(ctx, path, text, permission{statements: true, files: true}, columns, row)
}

func runQuery(ctx context.Context, path, text string, p permission, columns func([]string) error,
	row func([]any) error) error {
	temp := privateFolder()
	defer os.RemoveAll(temp)
	r := resourcesUpTo(personal, temp)
	return openAndQuery(ctx, path, text, r, p, func(db *database.DB, fields []Field) error {
		if fields == nil {
			return readRows(ctx, db, text, columns, row)
		}
		return spoolRows(ctx, db, text, fields, func(int64) error {
			var names []string
			for _, f := range fields {
				names = append(names, f.Name)
			}
			if columns == nil {
				return nil
			}
			return columns(names)
		}, row)
	})
}

const queryFolders = "outlierd-query-"

// privateFolder makes a folder for temporary files, which DuckDB writes readable for all, and removes what killed
// queries left a day ago or earlier. Most queries need none: those that do say so if it cannot be made.
func privateFolder() string {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), queryFolders+"*")) // the pattern is valid
	for _, folder := range left {
		if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(folder) // that of another user stays
		}
	}
	folder, err := os.MkdirTemp("", queryFolders)
	if err != nil {
		return filepath.Join(os.TempDir(), queryFolders)
	}
	return folder
}

// permission says what a query may do besides a SELECT of the published tables.
type permission struct {
	statements bool   // run other statements, such as EXPLAIN, of which the last one has the rows
	files      bool   // read and write all files
	settings   string // SQL that runs before its instance is confined; may be ""
}

// openAndQuery opens the published file read-only and calls work, in which text may run: as a SELECT with the columns
// fields, see [resultOf], or without fields as other statements. It closes the file.
func openAndQuery(
	ctx context.Context, path, text string, r resources, p permission, work func(db *database.DB, fields []Field) error,
) error {
	db, err := openFile(ctx, path, r)
	if err != nil {
		return err
	}
	var fields []Field
	if err = p.confine(ctx, db); err == nil {
		fields, err = p.columnsOf(ctx, db, text)
	}
	if err == nil {
		err = work(db, fields)
	}
	failed, ok := errors.AsType[*duckdb.Error](err)
	if ok && fields != nil { // what follows is SQL that the user has not written
		failed.Msg, _, _ = strings.Cut(failed.Msg, "\n\nLINE ")
	}
	if ok {
		err = fmt.Errorf("query %s: %w", path, err)
	}
	if ok && failed.Type == duckdb.ErrorTypePermission && !p.files {
		err = fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return errors.Join(r.explainMemory(err), db.Close())
}

// confine confines an instance: afterwards SQL can use no files but those that are open, no network, no extensions and
// no settings.
func (p permission) confine(ctx context.Context, db *database.DB) error {
	if p.files {
		return nil
	}
	_, err := db.Exec(ctx, p.settings+
		"; SET allow_community_extensions = false; SET enable_external_access = false; SET lock_configuration = true")
	if err != nil {
		return fmt.Errorf("confine the query: %w", err)
	}
	return nil
}

// writing matches the keywords of all statements that write files.
var writing = lazyregexp.New(`(?i)\b(?:copy|export)\b`)

// columnsOf returns the columns of a SELECT; nil for other statements that may run.
//
// Even without external access, DuckDB lets COPY and EXPORT write to the open file and its log. The kind of a statement
// comes from DuckDB, because a query may contain these keywords in texts and nested comments.
func (p permission) columnsOf(ctx context.Context, db *database.DB, text string) (fields []Field, err error) {
	kind, err := kindOf(db, text)
	if err != nil {
		return nil, err
	}
	if kind == duckdb.STATEMENT_TYPE_SELECT {
		rows, err := db.Query(ctx, "DESCRIBE FROM "+resultOf(text))
		// Some PRAGMA are SELECTs for kindOf only.
		if wrong, ok := errors.AsType[*duckdb.Error](err); !ok || wrong.Type != duckdb.ErrorTypeParser {
			for _, row := range rows {
				fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
			}
			return fields, err
		}
	}
	switch {
	case !p.statements:
		return nil, ErrNoSelect
	case !p.files && writing().MatchString(text):
		return nil, fmt.Errorf("%w: COPY and EXPORT write files", ErrDenied)
	}
	return nil, nil
}

// resultOf returns the result of a SELECT, as what follows FROM. Unlike a subquery, it may end with a semicolon or a
// comment.
func resultOf(text string) string { return "query(" + database.Text(text) + ")" }

// kindOf returns the kind of a statement, without running it. That of several is unknown: DuckDB splits a PIVOT without
// values into several.
func kindOf(db *database.DB, text string) (duckdb.StmtType, error) {
	stmt, err := db.Conn().Prepare(text)
	if _, wrong := errors.AsType[*duckdb.Error](err); wrong {
		return 0, err
	}
	if err != nil { // no statement, or several
		return duckdb.STATEMENT_TYPE_INVALID, nil
	}
	kind, err := stmt.(*duckdb.Stmt).StatementType()
	if stmt.NumInput() > 0 {
		err = ErrParameter
	}
	return kind, errors.Join(err, stmt.Close())
}

// ErrDenied is the error of a query that uses more than the published tables.
var ErrDenied = errors.New("the query may use only the published tables")

// openFile opens the published file read-only in a DuckDB of its own.
func openFile(ctx context.Context, path string, r resources) (*database.DB, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, ErrNotPublished)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	db, err := database.Open(ctx, database.Options{Memory: r.memory, Threads: r.threads, Temp: r.temp})
	if err != nil {
		return nil, err
	}
	attach := r.maxTemp() + "ATTACH " + database.Text(path) + " AS outliers (READ_ONLY); USE outliers"
	if _, err := db.Exec(ctx, attach); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s read-only: %w", path, err), db.Close())
	}
	return db, nil
}

// Errors for a path that is not a published file. Other files are not opened, because opening a pipe
// may block forever.
var (
	ErrNotPublished = errors.New("nothing is published yet")
	ErrNotRegular   = errors.New("not a regular file")
)

// Errors for a text that is not what can be run. The commands treat them as wrong arguments.
var (
	ErrParameter = errors.New("the query has a parameter (?, $1 or $name), which has no value here: " +
		"write the value itself, a text as 'text'")
	// ErrNoSelect is for a text that is not one SELECT.
	ErrNoSelect = errors.New("the SQL must be one SELECT and nothing else (a PIVOT needs its values: ON column IN (…); " +
		"for a PRAGMA, write FROM pragma_table_info('outliers'))")
)

// readRows runs a query and calls columns and row like [Run]. The slice that row receives is reused.
func readRows(ctx context.Context, db *database.DB, text string, columns func([]string) error,
	row func([]any) error) (err error) {
	rows, err := db.Conn().(driver.QueryerContext).QueryContext(ctx, text, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names := rows.Columns()
	if columns != nil {
		if err := columns(names); err != nil {
			return err
		}
	}
	raw, values := make([]driver.Value, len(names)), make([]any, len(names))
	for ctx.Err() == nil {
		if err := rows.Next(raw); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a row of the result: %w", err)
		}
		for i, v := range raw {
			values[i] = convertValue(v, rows.(driver.RowsColumnTypeDatabaseTypeName).ColumnTypeDatabaseTypeName(i))
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return ctx.Err()
}
