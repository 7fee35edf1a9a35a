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
// untrusted sources. Its error is then a [DeniedError]. See [RunUnsafe]. Its days are those of UTC. It may use
// a third of the memory, and a folder for temporary files, which is removed.
func Run(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	return runQuery(ctx, path, text, permission{statements: true}, columns, row)
}

// RunUnsafe is [Run] for a query that may read and write other files, with the permissions of the user.
func RunUnsafe(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) error {
	return runQuery(ctx, path, text, permission{statements: true, files: true}, columns, row)
}

func runQuery(ctx context.Context, path, text string, p permission, columns func([]string) error,
	row func([]any) error) (err error) {
	r := personalResources()
	if r.temp, r.noTemp = os.MkdirTemp("", "outlierd-query-*"); r.noTemp == nil { // most queries need none
		defer func() { err = errors.Join(err, os.RemoveAll(r.temp)) }()
	}
	return openAndQuery(ctx, path, text, r, p, func(db *database.DB) error { return readAny(ctx, db, text, columns, row) })
}

// permission says what a query may do besides a SELECT of the published tables.
type permission struct {
	statements bool   // run another statement that has rows, such as EXPLAIN
	to         string // write this file
	files      bool   // read and write all files
}

// openAndQuery opens the published file read-only and calls work, in which text may run. It closes the file.
func openAndQuery(ctx context.Context, path, text string, r resources, p permission, work func(*database.DB) error) error {
	db, err := openFile(ctx, path, r)
	if err != nil {
		return err
	}
	if err = checkSingle(text); err == nil {
		err = p.confineDuckDB(ctx, db, text)
	}
	if err == nil {
		if err = work(db); err != nil && !errors.Is(err, ErrNoTable) {
			err = fmt.Errorf("query %s: %w", path, err)
		}
	}
	err = errors.Join(r.explainMemory(err), db.Close())
	if failed, ok := errors.AsType[*duckdb.Error](err); ok && failed.Type == duckdb.ErrorTypePermission && !p.files {
		return &DeniedError{Cause: err}
	}
	return err
}

// confined are the settings after which SQL can use no files but those that are open, no network, no extensions and
// no settings.
const confined = "SET allow_community_extensions = false; SET enable_external_access = false; SET lock_configuration = true"

// writing matches the keywords of all statements that write files.
var writing = lazyregexp.New(`(?i)\b(?:copy|export)\b`)

// confineDuckDB confines DuckDB, and returns an error for a statement that is not permitted. Even without external access,
// DuckDB lets COPY and EXPORT write to the open file and its log. The type comes from DuckDB, because a query may
// contain these keywords in texts and nested comments.
func (p permission) confineDuckDB(ctx context.Context, db *database.DB, text string) error {
	if p.files {
		return nil
	}
	settings := confined
	if p.to != "" {
		settings = "SET allowed_paths = [" + database.Text(p.to) + "]; " + confined
	}
	if _, err := db.Exec(ctx, settings); err != nil {
		return fmt.Errorf("confine the query: %w", err)
	}
	if p.statements && !writing().MatchString(text) {
		return nil
	}
	stmt, err := db.Conn().Prepare(text)
	if _, wrong := errors.AsType[*duckdb.Error](err); wrong {
		return err
	}
	kind, parameters := duckdb.STATEMENT_TYPE_INVALID, 0 // also if there are several statements
	if err == nil {
		kind, err = stmt.(*duckdb.Stmt).StatementType()
		parameters = stmt.NumInput()
		if err = errors.Join(err, stmt.Close()); err != nil {
			return err
		}
	}
	switch {
	case kind == duckdb.STATEMENT_TYPE_SELECT && parameters > 0:
		return ErrParameter
	case kind == duckdb.STATEMENT_TYPE_SELECT:
		return nil
	case p.statements:
		return &DeniedError{Cause: errors.New("COPY and EXPORT write files")}
	}
	return ErrNoSelect
}

// DeniedError is the error of a query that uses more than the published tables.
type DeniedError struct{ Cause error }

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the query may use only the published tables: %v", e.Cause)
}

// Unwrap returns DuckDB's error.
func (e *DeniedError) Unwrap() error { return e.Cause }

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
	// Its default name in DuckDB.
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	switch strings.ToLower(name) {
	case "", "memory", "temp", "system": // reserved by DuckDB
		name += "_db"
	}
	attach := fmt.Sprintf("%sATTACH %s AS %s (READ_ONLY); USE %[3]s", r.maxTemp(), database.Text(path), database.Name(name))
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

// ErrParameter is returned for a query with parameters, such as ? or $1.
var ErrParameter = errors.New("the query has a parameter (?, $1 or $name), which has no value here: " +
	"write the value itself, a text as 'text'")

// ErrSeveral is returned for several statements, because only the result of the last one would be
// returned.
var ErrSeveral = errors.New("the SQL has several statements, but only one result is printed: run them one at a time")

// checkSingle returns [ErrSeveral] for more than one statement. DuckDB's own count is of no use: it splits
// one PIVOT into several statements.
func checkSingle(text string) error {
	if _, rest, _ := strings.Cut(withoutTexts(text), ";"); strings.Trim(rest, "; \t\r\n") != "" {
		return ErrSeveral
	}
	return nil
}

// withoutTexts replaces the comments of SQL by blanks, and its literals and quoted names by x: nothing in them
// has a meaning for the statement.
func withoutTexts(text string) string {
	var bare strings.Builder
	for text != "" {
		token := sqlToken().FindString(text)
		switch {
		case token == "":
			token = text[:1]
			bare.WriteString(token)
		case strings.HasPrefix(token, "--"), strings.HasPrefix(token, "/*"):
			bare.WriteString(" ")
		case strings.HasPrefix(token, "$"): // the text goes on up to the same tag
			inside, _, closed := strings.Cut(text[len(token):], token)
			if closed {
				token += inside + token
			}
			bare.WriteString(" x ")
		case strings.HasSuffix(token, "'"), strings.HasSuffix(token, `"`):
			bare.WriteString(" x ")
		default:
			bare.WriteString(token)
		}
		text = text[len(token):]
	}
	return bare.String()
}

// sqlToken matches a comment, a literal, a quoted name, the tag of a dollar-quoted text, or a word, which may
// contain a $, at the beginning of SQL.
var sqlToken = lazyregexp.New(`^(?s:--[^\n]*|/\*.*?\*/|[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|"[^"]*"|\$\w*\$|[\pL\pN_][\pL\pN_$]*)`)

// readRows runs a query and calls columns and row like [Run]. The slice that row receives is reused.
func readRows(ctx context.Context, db *database.DB, text string, columns func([]string) error,
	row func([]any) error) (err error) {
	stmt, err := db.Conn().(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if stmt.NumInput() > 0 {
		return ErrParameter
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(ctx, nil)
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
