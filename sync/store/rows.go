package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
)

// Reader is what a query reads: a [Tx], or a [Store], of which each query sees what is durable then.
type Reader interface {
	View(f func(*Tx) error) error
	query(f func(*Tx) error) error
}

// Writer is what a statement changes: a [Tx], or a [Store], of which each statement is a transaction of its own.
type Writer interface {
	Reader
	Exec(query string, args ...any) error
	Change(query string, args ...any) (rows int, err error)
	Update(f func(*Tx) error) error
}

// View performs f as part of the transaction.
func (t *Tx) View(f func(*Tx) error) error { return f(t) }

func (t *Tx) query(f func(*Tx) error) error { return f(t) }

// Update performs f as part of the transaction.
func (t *Tx) Update(f func(*Tx) error) error { return f(t) }

// Read returns what f reads by several queries that see the same.
func Read[T any](in Reader, f func(*Tx) (T, error)) (value T, err error) {
	err = in.View(func(tx *Tx) error {
		value, err = f(tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// Exec performs a statement that writes.
func (t *Tx) Exec(query string, args ...any) error {
	_, err := t.Change(query, args...)
	return err
}

// Exec performs a statement as a transaction.
func (s *Store) Exec(query string, args ...any) error {
	return s.Update(func(tx *Tx) error { return tx.Exec(query, args...) })
}

// Change is [Tx.Exec], and returns how many rows the statement has changed.
func (t *Tx) Change(query string, args ...any) (rows int, err error) {
	result, err := t.exec(query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Change is [Store.Exec], and returns how many rows the statement has changed.
func (s *Store) Change(query string, args ...any) (rows int, err error) {
	err = s.Update(func(tx *Tx) error {
		rows, err = tx.Change(query, args...)
		return err
	})
	return rows, err
}

// exec performs a statement that writes. After some errors, such as a full disk, SQLite has rolled back, and what
// followed would take effect without what came before: it is refused. After a violated constraint the transaction
// may go on.
func (t *Tx) exec(query string, args ...any) (result sql.Result, err error) {
	switch {
	case t.view:
		return nil, errView
	case t.failed != nil:
		return nil, t.failed
	}
	t.wrote = true
	stmt, err := t.conn.prepareOnce(query)
	if err == nil {
		result, err = stmt.Exec(args...)
	}
	if err = nameTable(query, err); !IsConstraint(err) {
		t.failed = err
	}
	return result, err
}

// tableIn finds the first table in a statement.
var tableIn = lazyregexp.New(`\b(?:FROM|INTO|UPDATE(?: OR [A-Z]+)?) ([a-z_]+)`)

// nameTable adds to the error of a statement which table it is about.
func nameTable(query string, err error) error {
	if err == nil {
		return nil
	}
	if found := tableIn().FindStringSubmatch(query); found != nil {
		err = fmt.Errorf("table %s of the state: %w", found[1], err)
	}
	return err
}

// Columns are the columns of a row by their names, or by the expressions that compute them: pointers to the
// variables that are read or written. See [Time], [Duration], [JSON] and [Optional] for values that SQLite
// has in another form.
type Columns map[string]any

// Insert inserts a row. If orElse is not "", it is what to do about a conflict, such as "ON CONFLICT DO NOTHING".
func Insert(in Writer, table string, row Columns, orElse string) error {
	_, err := InsertID(in, table, row, orElse)
	return err
}

// InsertID is [Insert], and returns the id of the row.
func InsertID(in Writer, table string, row Columns, orElse string) (id int64, err error) {
	names := slices.Sorted(maps.Keys(row))
	err = in.Update(func(tx *Tx) error {
		result, err := tx.exec(`INSERT INTO `+table+` (`+strings.Join(names, ", ")+`) VALUES (`+
			strings.Repeat(`?, `, len(names)-1)+`?) `+orElse, row.valuesOf(names)...)
		if err == nil {
			id, err = result.LastInsertId()
		}
		return err
	})
	return id, err
}

// Set sets columns of the rows that have a value in the column key, before which there may be a condition, as in
// "ended = 0 AND run". It returns an error if no row has it.
func Set(in Writer, table, key string, value any, row Columns) error {
	names := slices.Sorted(maps.Keys(row))
	rows, err := in.Change(`UPDATE `+table+` SET `+strings.Join(names, " = ?, ")+` = ? WHERE `+key+` = ?`,
		append(row.valuesOf(names), value)...)
	if err == nil && rows == 0 {
		err = fmt.Errorf("table %s of the state: no such record: %s = %v", table, key[strings.LastIndexByte(key, ' ')+1:], value)
	}
	return err
}

// valuesOf returns the values of columns in the order of names.
func (c Columns) valuesOf(names []string) []any {
	values := make([]any, len(names), len(names)+1)
	for i, name := range names {
		values[i] = c[name]
	}
	return values
}

// Select reads rows. columns returns the columns of a row, and from is the rest of the query: "FROM runs
// WHERE job = ?".
func Select[T any](in Reader, columns func(*T) Columns, from string, args ...any) ([]T, error) {
	var row, empty T
	of := columns(&row)
	names := slices.Sorted(maps.Keys(of))
	into := of.valuesOf(names)
	next := func() (*T, []any) {
		row = empty
		return &row, into
	}
	return list(in, next, `SELECT `+strings.Join(names, ", ")+` `+from, args...)
}

// First is [Select] for the first row; nil if there is none.
func First[T any](in Reader, columns func(*T) Columns, from string, args ...any) (*T, error) {
	rows, err := Select(in, columns, from+` LIMIT 1`, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// Value reads the only column of the first row; the zero value if there is no row, or if it is NULL.
func Value[T any](in Reader, query string, args ...any) (value T, err error) {
	all, err := List(in, func(value *sql.Null[T]) []any { return []any{value} }, query, args...)
	if len(all) > 0 {
		value = all[0].V
	}
	return value, err
}

// ValueTime is [Value] for a time; see [Micros].
func ValueTime(in Reader, query string, args ...any) (time.Time, error) {
	us, err := Value[int64](in, query, args...)
	return Instant(us), err
}

// Values reads the only column of a query.
func Values[T any](in Reader, query string, args ...any) ([]T, error) {
	return List(in, func(value *T) []any { return []any{value} }, query, args...)
}

// Scan reads the columns of the only row into variables, as [sql.Row.Scan] does, and reports whether there is one.
func Scan(in Reader, into []any, query string, args ...any) (found bool, err error) {
	rows, err := List(in, func(*struct{}) []any { return into }, query, args...)
	return len(rows) > 0, err
}

// List reads all rows of a query; into returns the destinations of the columns, as for Scan.
func List[T any](in Reader, into func(*T) []any, query string, args ...any) (all []T, err error) {
	next := func() (*T, []any) {
		row := new(T)
		return row, into(row)
	}
	return list(in, next, query, args...)
}

// list reads all rows of a query. next returns where the next row goes, and the destinations of its columns.
func list[T any](in Reader, next func() (*T, []any), query string, args ...any) (all []T, err error) {
	err = in.query(func(tx *Tx) error {
		all, err = scanAll(tx, next, query, args...)
		return nameTable(query, err)
	})
	return all, err
}

func scanAll[T any](tx *Tx, next func() (*T, []any), query string, args ...any) (all []T, err error) {
	stmt, err := tx.conn.prepareOnce(query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.Query(args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := next()
		if err := rows.Scan(into...); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, *row)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}
