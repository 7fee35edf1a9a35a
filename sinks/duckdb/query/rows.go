package query

import (
	"context"
	"fmt"
	"time"
)

// Rows are the first rows of a result, as texts for display.
type Rows struct {
	Columns []Field
	Rows    [][]*string // nil is NULL; times with a zone are in RFC 3339, numbers in the format of Go
	More    bool        // whether the result has more rows
}

// maxText is the maximum length of a text, in bytes. Longer ones are truncated.
const maxText = 2000

// First runs user SQL on a published file in a separate process, and returns at most most rows. The SQL
// must be one SELECT that reads only the published tables. It may use no disk space; time and memory
// are limited.
func (a Process) First(ctx context.Context, path, sql string, most int) (*Rows, error) {
	got, err := a.sendRequest(ctx, request{Ask: &ask{SQL: sql, Path: path, Zone: "UTC", Limit: most + 1, Memory: exportMemory}})
	if err != nil {
		return nil, err
	}
	if got.Rows.More = len(got.Rows.Rows) > most; got.Rows.More {
		got.Rows.Rows = got.Rows.Rows[:most]
	}
	return got.Rows, nil
}

// textOf converts a value of [Run] to a text; nil is NULL.
func textOf(v any) *string {
	switch of := v.(type) {
	case nil:
		return nil
	case time.Time:
		v = of.UTC().Format(time.RFC3339Nano)
	case []byte:
		v = fmt.Sprintf("%x", of[:min(len(of), maxText)])
	}
	return new(fmt.Sprint(v))
}
