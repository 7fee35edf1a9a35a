package store

import (
	"database/sql"
	"errors"
	"strings"
)

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
