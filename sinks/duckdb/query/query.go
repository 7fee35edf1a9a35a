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
	"regexp"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/sinks/duckdb/database"
)

// Run queries a published file. It calls columns, unless that is nil, once with the names of the
// result's columns, and then row with each row. The file is opened read-only for this query and closed
// after it: one that stayed open would go on showing the file from before the next publication.
//
// Values are nil for NULL, bool, the integers and floats of Go, *big.Int for HUGEINT
// and its like, json.Number for DECIMAL, time.Time for TIMESTAMP WITH TIME ZONE,
// []byte for BLOB, []any for lists and map[string]any for structs. A map marshals
// itself into JSON in its own order. Everything else, such as a DATE, an INTERVAL, a
// UUID or what is no finite number, is a string as SQL writes it.
//
// The query may read and write no other file, and change no setting: what a person pastes
// may come from a stranger. See [RunUnsafe].
func Run(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	err := run(ctx, path, text, func(conn driver.Conn) error {
		const confined = `SET enable_external_access = false; SET lock_configuration = true`
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, confined, nil); err != nil {
			return fmt.Errorf("confine the query: %w", err)
		}
		return noWriting(conn, text)
	}, columns, row)
	if failed, ok := errors.AsType[*duckdb.Error](err); ok && failed.Type == duckdb.ErrorTypePermission {
		return &DeniedError{Cause: err}
	}
	return err
}

// RunUnsafe is [Run] for a query that may read and write other files, as the user may.
func RunUnsafe(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	return run(ctx, path, text, func(driver.Conn) error { return nil }, columns, row)
}

// DeniedError is about a query that needs more than the published file.
type DeniedError struct{ Cause error }

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the query may use nothing but the published tables: %v", e.Cause)
}

// Unwrap gives DuckDB's error.
func (e *DeniedError) Unwrap() error { return e.Cause }

// writing are the words without which no statement writes a file.
var writing = regexp.MustCompile(`(?i)\b(?:copy|export)\b`)

// noWriting refuses statements that write files. DuckDB's own confinement lets them write the very file
// that is open, and the log beside it. Only DuckDB can tell these from a query that looks for
// the words, as it nests comments.
func noWriting(conn driver.Conn, text string) error {
	if !writing.MatchString(text) {
		return nil
	}
	stmt, err := conn.Prepare(text)
	if _, wrong := errors.AsType[*duckdb.Error](err); wrong {
		return err
	}
	kind := duckdb.STATEMENT_TYPE_INVALID // as of several statements
	if err == nil {
		kind, err = stmt.(*duckdb.Stmt).StatementType()
		err = errors.Join(err, stmt.Close())
	}
	if err != nil || kind != duckdb.STATEMENT_TYPE_SELECT {
		return &DeniedError{Cause: errors.New("COPY and EXPORT write files")}
	}
	return nil
}

// run runs a query after what confines it, which comes when the file is open.
func run(
	ctx context.Context, path, text string, confine func(driver.Conn) error,
	columns func([]string) error, row func([]any) error,
) error {
	return opened(ctx, path, func(conn driver.Conn) error {
		if err := single(text); err != nil {
			return err
		}
		if err := confine(conn); err != nil {
			return err
		}
		if err := read(ctx, conn, text, columns, row); err != nil {
			return fmt.Errorf("query %s: %w", path, err)
		}
		return nil
	})
}

// opened opens the published file read-only for some work, and closes it.
func opened(ctx context.Context, path string, work func(driver.Conn) error) (err error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", path, ErrNotPublished)
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	connector, err := duckdb.NewConnector("?autoinstall_known_extensions=false&autoload_known_extensions=false", nil)
	if err != nil {
		return fmt.Errorf("start DuckDB: %w", err)
	}
	defer func() { err = errors.Join(err, connector.Close()) }()
	conn, err := connector.Connect(ctx)
	if err != nil {
		return fmt.Errorf("start DuckDB: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The driver reads a path as a URL, and so loses what follows a # in it, such as that the file is
	// opened read-only. The file is attached under the name that DuckDB would give it.
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	switch strings.ToLower(name) {
	case "", "memory", "temp", "system": // which are taken
		name += "_db"
	}
	attach := fmt.Sprintf("ATTACH %s AS %s (READ_ONLY); USE %[2]s", database.Text(path), database.Name(name))
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, attach, nil); err != nil {
		return fmt.Errorf("open %s read-only: %w", path, err)
	}
	return work(conn)
}

// The errors about what stands in the place of the published file. Opening a pipe there might
// take forever.
var (
	ErrNotPublished = errors.New("nothing is published yet")
	ErrNotRegular   = errors.New("not a regular file")
)

// ErrSeveral refuses several statements at once: only the last one's result would be shown.
var ErrSeveral = errors.New("the SQL has several statements, and one result is printed at a time; run each by itself")

// single refuses more than one statement. DuckDB's own count does not help: it makes several of
// one PIVOT.
func single(text string) error {
	bare := inert.ReplaceAllStringFunc(text, func(token string) string {
		if strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*") {
			return " "
		}
		return "x"
	})
	if _, rest, _ := strings.Cut(bare, ";"); strings.Trim(rest, "; \t\r\n") != "" {
		return ErrSeveral
	}
	return nil
}

// inert are the parts of SQL in which a semicolon ends nothing: comments, literals and names.
var inert = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|"[^"]*"|\$\w*\$.*?\$\w*\$`)

// read runs a query for [Run]. The slice that row gets is used again.
func read(ctx context.Context, conn driver.Conn, text string, columns func([]string) error, row func([]any) error) (err error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, text, nil)
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
			values[i] = plain(v, rows.(driver.RowsColumnTypeDatabaseTypeName).ColumnTypeDatabaseTypeName(i))
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return ctx.Err()
}
