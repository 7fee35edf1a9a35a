package store

import (
	"database/sql"
	"errors"
	"strings"
)

// Changed reports whether a statement touched a row. SQLite always knows.
func Changed(result sql.Result) bool {
	n, err := result.RowsAffected()
	return err == nil && n > 0
}

// Found turns an update that met no row into an error.
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

// OrNull is nil for 0, which stands for "none".
func OrNull(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// Known is nil for a negative number, which stands for "unknown".
func Known(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}

// maxText bounds what is kept of a text that others wrote, in bytes.
const maxText = 500

// Bounded is a text cut to what is kept of it. It stays UTF-8, wherever the cut falls.
func Bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
