package query

import (
	"context"
	"os"
)

// Finder runs SQL over the published file and returns one column of its result.
type Finder func(ctx context.Context, sql, column string) ([]string, error)

// Once runs each SQL once while the file at path stays the same, which a run may replace. A
// price and the run that follows it are then about the same values, and a slow query is waited
// for once.
func (find Finder) Once(path string) Finder {
	type question struct{ sql, column string }
	type answer struct {
		values []string
		err    error
	}
	var asked os.FileInfo
	known := map[question]answer{}
	return func(ctx context.Context, sql, column string) ([]string, error) {
		if now, _ := os.Stat(path); !sameFile(now, asked) { // what is wrong with it, the SQL tells
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

// sameFile reports whether no other file was swapped in; nil is no file.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
