package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	r := limitedResources(jobMemory, "")
	var db *database.DB
	for _, sql := range texts {
		var b Bound
		var err error
		if db == nil {
			db, err = openEmpty(ctx, r)
		}
		if err == nil {
			b.Fields, err = permission{}.declareView(ctx, db, sql)
		}
		if err != nil {
			b.Problem = explainSQL(r.explainMemory(err)).Error()
		}
		all = append(all, b)
		// Declaring the tables takes far longer than binding, so all texts share them until one fails: DuckDB may be
		// unusable after that.
		if db != nil && (err != nil || len(all) == len(texts)) {
			_ = db.Close() // what was bound is known
			db = nil
		}
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
		err = db.Create(ctx, slices.Concat(schema.Tables(), schema.OpsTables()))
	}
	if err == nil {
		err = permission{settings: "USE warehouse; "}.confine(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// ask returns the request for the values, and one more if there are too many.
func (s IDs) ask(sql string) ask {
	return ask{SQL: sql, Path: s.Path, Now: s.Now, Zone: s.Now.Location().String(), Column: &s.Column, Limit: maxValues + 1, Memory: jobMemory}
}

// collectTexts returns the texts of the only column.
func collectTexts(rows *Rows, err error) (values []string, _ error) {
	switch {
	case err != nil:
		return nil, err
	case len(rows.Rows) > maxValues:
		return nil, fmt.Errorf("the SQL returns more than %d values: add a LIMIT to it", maxValues)
	}
	for _, row := range rows.Rows {
		if row[0] != nil {
			values = append(values, *row[0])
		}
	}
	return values, nil
}

// ask is a request for the first rows of the result of user SQL.
type ask struct {
	SQL    string
	Path   string    // the published file
	Now    time.Time // see [Process.Query]
	Zone   string    // the time zone of Now, whose name JSON does not preserve
	Column *string   // the column to return, see [Column]; nil for all, of whose texts long ones are truncated
	Limit  int       // rows
	Memory int64     // limit of DuckDB's buffers, in bytes, on a machine with enough memory
}

// read runs the SQL. A column of a file that is not published yet has no values.
func (q ask) read(ctx context.Context) (*Rows, error) {
	got := &Rows{}
	r, p := limitedResources(q.Memory, ""), permission{settings: setNow(q.Now)}
	err := openAndQuery(ctx, q.Path, q.SQL, r, p, func(db *database.DB, fields []Field) (err error) {
		if got.Columns, err = q.chooseColumns(fields); err != nil {
			return err
		}
		some := fmt.Sprintf("%s LIMIT %d", selectReadable(got.Columns), q.Limit)
		return readRows(ctx, db, some, nil, func(values []any) error {
			row := make([]*string, len(values))
			for i, v := range values {
				if row[i] = textOf(v); row[i] != nil && q.Column == nil {
					*row[i] = excerpt.Bytes(*row[i], mostText, excerpt.Mark)
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

// setNow returns SQL that sets the current time by macros, since DuckDB resolves current_date and the like to functions
// of these names; "" for the real clock.
func setNow(now time.Time) string {
	if now.IsZero() {
		return ""
	}
	zone := now.Location().String()
	if zone == "" || now.Location() == time.Local {
		zone = "UTC"
	}
	set := "SET TimeZone = " + database.Text(zone) + "; "
	for _, m := range [][2]string{
		{"now", "TIMESTAMPTZ " + database.Text(now.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))},
		{"transaction_timestamp", "now()"}, {"get_current_timestamp", "now()"},
		{"current_localtimestamp", "now()::TIMESTAMP"}, {"current_localtime", "now()::TIMESTAMP::TIME"},
		{"get_current_time", "now()::TIMETZ"},
		{"today", "now()::DATE"}, {"current_date", "now()::DATE"},
	} {
		set += fmt.Sprintf("CREATE TEMP MACRO %s() AS %s; ", m[0], m[1])
	}
	return set
}
