package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Read returns what f reads in a view. doing describes that in the error: "look for run 7".
func Read[T any](s *Store, doing string, f func(*Tx) (T, error)) (value T, err error) {
	err = s.View(func(tx *Tx) error {
		value, err = f(tx)
		return err
	})
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return value, nil
}

// Change is [Store.Update] with a description of what is done, for the error.
func Change(s *Store, doing string, f func(*Tx) error) error {
	if err := s.Update(f); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Exec performs a statement that writes.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	if t.view {
		return nil, errView
	}
	stmt, err := t.conn.prepareOnce(query)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(args...)
}

// Columns are the columns of a row by their names, or by the expressions that compute them: pointers to the
// variables that are read or written. See [Time], [Duration], [JSON] and [Optional] for values that SQLite
// has in another form.
type Columns map[string]any

// Insert inserts a row and returns its id. If orElse is not "", it is what to do about a conflict, such as
// "ON CONFLICT DO NOTHING".
func Insert(tx *Tx, table string, row Columns, orElse string) (id int64, err error) {
	names := slices.Sorted(maps.Keys(row))
	result, err := tx.Exec(`INSERT INTO `+table+` (`+strings.Join(names, ", ")+`) VALUES (`+
		strings.Repeat(`?, `, len(names)-1)+`?) `+orElse, row.valuesOf(names)...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// Set sets columns of the row that has a value in the column key. It returns an error if there is none.
func Set(tx *Tx, table, key string, value any, row Columns) error {
	names := slices.Sorted(maps.Keys(row))
	return Found(tx.Exec(`UPDATE `+table+` SET `+strings.Join(names, " = ?, ")+` = ? WHERE `+key+` = ?`,
		append(row.valuesOf(names), value)...))
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
func Select[T any](tx *Tx, columns func(*T) Columns, from string, args ...any) ([]T, error) {
	names := slices.Sorted(maps.Keys(columns(new(T))))
	return List(tx, func(row *T) []any { return columns(row).valuesOf(names) },
		`SELECT `+strings.Join(names, ", ")+` `+from, args...)
}

// First is [Select] for the first row; nil if there is none.
func First[T any](tx *Tx, columns func(*T) Columns, from string, args ...any) (*T, error) {
	rows, err := Select(tx, columns, from+` LIMIT 1`, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// Value reads the only column of the first row; the zero value if there is no row, or if it is NULL.
func Value[T any](tx *Tx, query string, args ...any) (value T, err error) {
	var found sql.Null[T]
	err = tx.Row(query, args...).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return found.V, err
}

// Values reads the only column of a query.
func Values[T any](tx *Tx, query string, args ...any) ([]T, error) {
	return List(tx, func(value *T) []any { return []any{value} }, query, args...)
}

// Row reads one row. Its Scan fails with [sql.ErrNoRows] if there is none.
func (t *Tx) Row(query string, args ...any) Row {
	stmt, err := t.conn.prepareOnce(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRow(args...)
}

// Row is a row, or the error in its place.
type Row interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (f failedRow) Scan(...any) error { return f.err }

// List reads all rows of a query; into returns the destinations of the columns, as for Scan.
func List[T any](t *Tx, into func(*T) []any, query string, args ...any) (all []T, err error) {
	stmt, err := t.conn.prepareOnce(query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.Query(args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var one T
		if err := rows.Scan(into(&one)...); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, one)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// Changed reports whether a statement changed a row. SQLite always knows.
func Changed(result sql.Result) bool {
	n, err := result.RowsAffected()
	return err == nil && n > 0
}

// Found returns an error for an update that matched no row.
func Found(result sql.Result, err error) error {
	if err == nil && !Changed(result) {
		err = errors.New("no such record")
	}
	return err
}
