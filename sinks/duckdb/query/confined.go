package query

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// User SQL of jobs runs in an instance of its own that allows only reading tables. The order of the
// steps matters: first all files are opened, then external access is disabled and the configuration is
// locked, then the SQL runs.

// maxMemory is the memory limit for user SQL, in bytes, on a machine with enough memory.
const maxMemory = 1 << 30

// Bind checks texts of user SQL against the declared tables and views, which are empty, and returns the columns of
// their results. Each must be one SELECT that uses no files, no network and no parameters. A problem has DuckDB's
// message and the line within the SQL.
//
// Binding reads no rows, but DuckDB evaluates constant expressions, however expensive. Use
// [Process.Bind] for untrusted SQL.
func Bind(ctx context.Context, texts ...string) (all []Bound) {
	var b binder
	for _, sql := range texts {
		fields, err := b.bindSQL(ctx, sql)
		if err != nil {
			all = append(all, Bound{Problem: err.Error()})
		} else {
			all = append(all, Bound{Fields: fields})
		}
	}
	_ = b.close() // what was bound is known
	return all
}

// A binder binds SQL to empty tables. Declaring them takes far longer than binding, so all texts share them
// until one fails: DuckDB may be unusable after that.
type binder struct{ db *database.DB }

func (b *binder) bindSQL(ctx context.Context, sql string) (fields []Field, err error) {
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if b.db == nil {
		err = b.openFile(limited)
	}
	if err == nil {
		err = oneSelect(limited, b.db, sql)
	}
	var rows [][]driver.Value
	if err == nil {
		rows, err = b.db.Query(limited, "DESCRIBE "+sql)
	}
	if err != nil {
		return nil, errors.Join(explainLimit(ctx, limited, err, maxMemory), b.close())
	}
	for _, row := range rows {
		fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
	}
	return fields, nil
}

func (b *binder) openFile(ctx context.Context) (err error) {
	if b.db, err = database.Open(ctx, database.Options{}); err != nil {
		return err
	}
	if _, err := b.db.Exec(ctx, "ATTACH ':memory:' AS warehouse"); err != nil {
		return err
	}
	if err := b.db.Create(ctx, slices.Concat(schema.Tables(), schema.OpsTables())); err != nil {
		return err
	}
	return restrictToTables(ctx, b.db)
}

func (b *binder) close() error {
	if b.db == nil {
		return nil
	}
	err := b.db.Close()
	b.db = nil
	return err
}

// Query runs user SQL that [Bind] accepts on the published file, and returns the values of the selected
// column as texts: in the order of the result, with duplicates, without NULLs. It opens the file
// read-only for this query. Time and memory are limited as far as DuckDB allows. Use [Process.Query]
// for untrusted SQL.
//
// If Now is set, today(), current_timestamp and the other functions for the current time return it, and
// dates are in its time zone if that has a name. Only age(t) with one argument still uses the real
// clock.
func (s IDs) Query(ctx context.Context, sql string) ([]string, error) {
	switch info, err := os.Stat(s.Path); {
	case os.IsNotExist(err):
		return nil, s.bindSQL(ctx, sql)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", s.Path, ErrNotRegular)
	}
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	values, err := s.queryIDs(limited, sql, database.DefaultMemory)
	most := memoryLimit(maxMemory)
	if database.OutOfMemory(err) {
		values, err = s.queryIDs(limited, sql, most)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", s.Path, explainLimit(ctx, limited, err, most))
	}
	return values, nil
}

// explainLimit returns the error for the limit that SQL exceeded, or DuckDB's own message.
func explainLimit(ctx, limited context.Context, err error, memory int64) error {
	switch {
	case ctx.Err() == nil && limited.Err() != nil:
		return timeoutError(timeLimit)
	case database.OutOfMemory(err):
		return fmt.Errorf("the SQL needs more memory than %s: make it read fewer rows, or produce smaller values",
			database.Megabytes(memory))
	}
	return explainSQL(err)
}

// bindSQL checks SQL while nothing is published yet.
func (s IDs) bindSQL(ctx context.Context, sql string) error {
	bound := Bind(ctx, sql)[0]
	if err := bound.Err(); err != nil {
		return err
	}
	_, err := Column(bound.Fields, s.Column)
	return err
}

func (s IDs) queryIDs(ctx context.Context, sql string, memory int64) (values []string, err error) {
	db, err := database.Open(ctx, database.Options{Memory: memory})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec(ctx, "ATTACH "+database.Text(s.Path)+" AS warehouse (READ_ONLY)"); err != nil {
		return nil, err
	}
	if err := setNow(ctx, db, s.Now); err != nil {
		return nil, err
	}
	if err := restrictToTables(ctx, db); err != nil {
		return nil, err
	}
	if err := oneSelect(ctx, db, sql); err != nil {
		return nil, err
	}
	return s.collectIDs(ctx, db, sql)
}

func (s IDs) collectIDs(ctx context.Context, db *database.DB, sql string) (values []string, err error) {
	fields, err := declareView(ctx, db, sql)
	if err != nil {
		return nil, err
	}
	at, err := Column(fields, s.Column)
	if err != nil {
		return nil, err
	}
	texts := fmt.Sprintf("SELECT %s::VARCHAR FROM temp.result", database.Name(fields[at].Name))
	err = readRows(ctx, db, texts, nil, func(row []any) error {
		if row[0] == nil {
			return nil
		}
		if len(values) == maxValues {
			return fmt.Errorf("the SQL returns more than %d values: add a LIMIT to it", maxValues)
		}
		values = append(values, row[0].(string))
		return nil
	})
	return values, err
}

// restrictToTables confines the instance: SQL may read the attached tables by their plain names.
func restrictToTables(ctx context.Context, db *database.DB) error {
	_, err := db.Exec(ctx, "USE warehouse; "+confined)
	return err
}

// setNow sets the current time by macros, since DuckDB resolves current_date and the like to functions
// of these names.
func setNow(ctx context.Context, db *database.DB, now time.Time) error {
	if now.IsZero() {
		return nil
	}
	zone := now.Location().String()
	if zone == "" || now.Location() == time.Local {
		zone = "UTC"
	}
	macros := []string{"SET TimeZone = " + database.Text(zone)}
	for _, m := range [][2]string{
		{"now", "TIMESTAMPTZ " + database.Text(now.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))},
		{"transaction_timestamp", "now()"}, {"get_current_timestamp", "now()"},
		{"current_localtimestamp", "now()::TIMESTAMP"}, {"current_localtime", "now()::TIMESTAMP::TIME"},
		{"get_current_time", "now()::TIMETZ"},
		{"today", "now()::DATE"}, {"current_date", "now()::DATE"},
	} {
		macros = append(macros, fmt.Sprintf("CREATE TEMP MACRO %s() AS %s", m[0], m[1]))
	}
	_, err := db.Exec(ctx, strings.Join(macros, "; "))
	return err
}
