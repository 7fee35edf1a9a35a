package store

import (
	"database/sql"
	"errors"
	"strings"
	"time"
)

// Exec performs a statement that writes.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	if t.view {
		return nil, errView
	}
	stmt, err := t.conn.stmt(query)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(args...)
}

// Row reads one row. Its Scan fails with [sql.ErrNoRows] if there is none.
func (t *Tx) Row(query string, args ...any) Row {
	stmt, err := t.conn.stmt(query)
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
	stmt, err := t.conn.stmt(query)
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
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errors.New("no such record")
	}
	return err
}

// OrNull returns nil for 0, which means "none".
func OrNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// Known returns nil for a negative number, which means "unknown".
func Known(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}

// maxText is the maximum length in bytes of a stored text that others wrote.
const maxText = 500

// Bounded returns text cut to the maximum length of stored texts. It remains valid UTF-8.
func Bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// Micros returns a time as it is stored: microseconds since 1970, and 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Instant is the inverse of [Micros], in UTC.
func Instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
