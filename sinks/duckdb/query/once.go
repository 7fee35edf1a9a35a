package query

import (
	"context"
	"os"
)

// Finder runs SQL over the published file and returns one column of its result.
type Finder func(ctx context.Context, sql, column string) ([]string, error)

// Once returns a Finder that caches the results of find until the file at path is replaced. So a run
// uses the values that its price was calculated from, and a slow query runs once only. Cancelled
// queries are not cached.
func (find Finder) Once(path string) Finder {
	type question struct{ sql, column string }
	type answer struct {
		values []string
		err    error
	}
	var asked os.FileInfo
	known := map[question]answer{}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		if now, _ := os.Stat(path); !sameFile(now, asked) { // if Stat fails, the query returns the error
			clear(known)
			asked = now
		}
		q := question{sql, column}
		a, ok := known[q]
		if !ok {
			a.values, a.err = find(ctx, sql, column)
		}
		if ctx.Err() == nil {
			known[q] = a
		}
		return a.values, a.err
	}
}

// sameFile reports whether a and b describe the same, unchanged file. nil means that there is no file.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
