package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// SQL of the user's that a schedule runs gets an instance of its own, in which there
// are tables to be read, and nothing else. Order matters: whatever opens a file comes
// first, then the settings that confine it, which cannot be changed again, then the SQL.

// maxMemory is the most memory that such SQL gets.
const maxMemory = 1 << 30

// Bind checks SQL of the user's against the declared tables and the views over them,
// all empty, and gives the columns of its result. It must be one SELECT that needs no
// file, no network and no parameters. The error has DuckDB's words and the line within
// the SQL.
//
// Binding looks at no rows, but DuckDB computes constants on the way, however large:
// ask it [Process].
func Bind(ctx context.Context, sql string, tables, ops []*schema.Table) ([]Field, error) {
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	fields, err := fieldsOf(limited, sql, slices.Concat(tables, ops))
	if err != nil {
		return nil, reason(ctx, limited, err, timeLimit, maxMemory)
	}
	return fields, nil
}

func fieldsOf(ctx context.Context, sql string, tables []*schema.Table) (fields []Field, err error) {
	db, err := database.Open(ctx, database.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec(ctx, "ATTACH ':memory:' AS warehouse"); err != nil {
		return nil, err
	}
	if err := db.Create(ctx, tables); err != nil {
		return nil, err
	}
	if err := admit(ctx, db, sql); err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, "DESCRIBE "+sql)
	for _, row := range rows {
		fields = append(fields, Field{Name: row[0].(string), Kind: row[1].(string)})
	}
	return fields, err
}

// Query runs SQL of the user's, which [Bind] would accept, over the published file
// and gives the values of the wanted column as text, in order and as often as they
// come, without the NULLs. The file is opened for this query, read-only, and closed.
// Time and memory are limited, as far as DuckDB lets them be: ask it [Process].
//
// A given Now is also the meaning of today(), current_timestamp and the other names
// for the present; its time zone, if it has a name, is that of dates. Only age(t),
// with one argument, goes on looking at the real clock.
func (s IDs) Query(ctx context.Context, sql string) ([]string, error) {
	if _, err := os.Stat(s.Path); os.IsNotExist(err) {
		return nil, s.bind(ctx, sql)
	}
	limit := cmp.Or(s.Timeout, timeLimit)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	values, err := s.query(limited, sql, database.DefaultMemory)
	if database.OutOfMemory(err) {
		values, err = s.query(limited, sql, maxMemory)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", s.Path, reason(ctx, limited, err, limit, maxMemory))
	}
	return values, nil
}

// reason says which limit SQL has met, or in DuckDB's words what else is wrong with it.
func reason(ctx, limited context.Context, err error, limit time.Duration, memory int64) error {
	switch {
	case ctx.Err() == nil && limited.Err() != nil:
		return slow(limit)
	case database.OutOfMemory(err):
		return fmt.Errorf("the SQL needs more memory than %s: make it read fewer rows, or produce smaller values", database.Megabytes(memory))
	}
	return explain(err)
}

// bind finds the mistakes in SQL for which there is no file yet.
func (s IDs) bind(ctx context.Context, sql string) error {
	fields, err := Bind(ctx, sql, schema.Tables(), schema.OpsTables())
	if err != nil {
		return err
	}
	_, err = Column(fields, s.Column)
	return err
}

func (s IDs) query(ctx context.Context, sql string, memory int64) (values []string, err error) {
	db, err := database.Open(ctx, database.Options{Memory: memory})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec(ctx, "ATTACH "+database.Text(s.Path)+" AS warehouse (READ_ONLY)"); err != nil {
		return nil, err
	}
	if err := pretend(ctx, db, s.Now); err != nil {
		return nil, err
	}
	if err := admit(ctx, db, sql); err != nil {
		return nil, err
	}
	return s.collect(ctx, db, sql)
}

func (s IDs) collect(ctx context.Context, db *database.DB, sql string) (values []string, err error) {
	var column string
	var at int
	err = read(ctx, db.Conn(), sql, func(columns []string) error {
		var fields []Field
		for _, name := range columns {
			fields = append(fields, Field{Name: name})
		}
		if at, err = Column(fields, s.Column); err == nil {
			column = columns[at]
		}
		return err
	}, func(row []any) error {
		if row[at] == nil {
			return nil
		}
		if limit := cmp.Or(s.Limit, maxValues); len(values) == limit {
			return fmt.Errorf("the SQL gives more than %d values: add a LIMIT to it", limit)
		}
		value, err := seed(row[at], column)
		values = append(values, value)
		return err
	})
	return values, err
}

// admit prepares for SQL of the user's, if it is one SELECT: it leaves the attached
// tables to be read, by their plain names, and nothing else: no file, no network, no
// extension, no setting.
func admit(ctx context.Context, db *database.DB, sql string) error {
	_, err := db.Exec(ctx, `USE warehouse;
		SET allow_community_extensions = false;
		SET enable_external_access = false;
		SET lock_configuration = true`)
	if err != nil {
		return err
	}
	return oneSelect(ctx, db, sql)
}

// pretend makes it now. The words current_date and the like are functions of these
// names to DuckDB.
func pretend(ctx context.Context, db *database.DB, now time.Time) error {
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
		{"current_localtimestamp", "now()::TIMESTAMP"}, {"current_localtime", "now()::TIMESTAMP::TIME"}, {"get_current_time", "now()::TIMETZ"},
		{"today", "now()::DATE"}, {"current_date", "now()::DATE"},
	} {
		macros = append(macros, fmt.Sprintf("CREATE TEMP MACRO %s() AS %s", m[0], m[1]))
	}
	_, err := db.Exec(ctx, strings.Join(macros, "; "))
	return err
}
