package query

import (
	"context"
	"errors"
	"fmt"

	"outlierd/internal/excerpt"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// User SQL of jobs and of the page must be one SELECT of the published tables. It runs in an instance of its own. The
// order of the steps matters: first all files are opened, then external access is disabled and the configuration is
// locked, then the SQL runs.

// jobMemory is the memory limit for SQL of jobs, in bytes, on a machine with enough memory.
const jobMemory = 1 << 30

// Bind checks texts of user SQL against the declared tables and views, which are empty, and returns the columns of
// their results. Each must be one SELECT that uses no files, no network and no parameters. A problem has DuckDB's
// message and the line within the SQL.
//
// Binding reads no rows, but DuckDB evaluates constant expressions, however expensive. Use
// [Process.Bind] for untrusted SQL.
func Bind(ctx context.Context, texts ...string) (all []Bound) {
	r := resourcesUpTo(jobMemory, "")
	db, failed := openEmpty(ctx, r)
	for _, sql := range texts {
		b, err := Bound{}, failed
		if err == nil {
			b.Fields, err = permission{}.columnsOf(ctx, db, sql)
		}
		if err != nil {
			b.Problem = explainSQL(r.explainMemory(err)).Error()
		}
		all = append(all, b)
	}
	if failed == nil {
		_ = db.Close() // what was bound is known
	}
	return all
}

// openEmpty opens a confined DuckDB with the declared tables, which are empty.
func openEmpty(ctx context.Context, r resources) (*database.DB, error) {
	db, err := database.Open(ctx, database.Options{Memory: r.memory, Threads: r.threads})
	if err != nil {
		return nil, err
	}
	if _, err = db.Exec(ctx, "ATTACH ':memory:' AS warehouse"); err == nil {
		err = db.Declare(ctx, database.NewDeclarations(schema.AllTables(), false), "")
	}
	if err == nil {
		err = permission{settings: "USE warehouse"}.confine(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// ask is a request for the first rows of the result of user SQL.
type ask struct {
	SQL    string
	Path   string  // the published file
	Zone   string  // the time zone of days
	Column *string // the column to return, see [Column]; nil for all, of whose texts long ones are truncated
	Limit  int     // rows
	Memory int64   // limit of DuckDB's buffers, in bytes, on a machine with enough memory
}

// read runs the SQL. A column of a file that is not published yet has no values.
func (q ask) read(ctx context.Context) (*Rows, error) {
	got := &Rows{}
	r, p := resourcesUpTo(q.Memory, ""), permission{settings: "SET TimeZone = " + database.Text(q.Zone)}
	err := openAndQuery(ctx, q.Path, q.SQL, r, p, func(db *database.DB, fields []Field) (err error) {
		if got.Columns, err = q.chooseColumns(fields); err != nil {
			return err
		}
		some := fmt.Sprintf("%s LIMIT %d", selectReadable(q.SQL, got.Columns), q.Limit)
		return readRows(ctx, db, some, nil, func(values []any) error {
			row := make([]*string, len(values))
			for i, v := range values {
				if row[i] = textOf(v); row[i] != nil && q.Column == nil {
					*row[i] = excerpt.Bytes(*row[i], maxText, excerpt.Mark)
				}
			}
			got.Rows = append(got.Rows, row)
			return nil
		})
	})
	if q.Column != nil && errors.Is(err, ErrNotPublished) {
		bound := Bind(ctx, q.SQL)[0]
		if err = bound.Err(); err == nil {
			_, err = q.chooseColumns(bound.Fields)
		}
	}
	return got, explainSQL(err)
}

// chooseColumns returns those of the columns that are asked for.
func (q ask) chooseColumns(fields []Field) ([]Field, error) {
	if q.Column == nil {
		return fields, nil
	}
	at, err := Column(fields, *q.Column)
	if err != nil {
		return nil, err
	}
	return fields[at : at+1], nil
}
