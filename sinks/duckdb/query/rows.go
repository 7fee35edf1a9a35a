package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"outlierd/sinks/duckdb/database"
)

// Rows are the first rows of a result, as texts for display.
type Rows struct {
	Columns []Field
	Rows    [][]*string // nil is NULL; times with a zone are in RFC 3339, numbers in the format of Go
	More    bool        // whether the result has more rows
}

// first is a request for the first rows of a result.
type first struct {
	Path  string // the published file
	Limit int    // rows
}

// mostText is the maximum length of a text, in bytes. Longer ones are truncated.
const mostText = 2000

// First runs user SQL on a published file in a separate process, and returns at most most rows. The SQL
// must be one SELECT that reads only the published tables. It may use no disk space; time and memory
// are limited.
func (a Process) First(ctx context.Context, path, sql string, most int) (*Rows, error) {
	got, err := a.sendRequest(ctx, request{SQL: sql, First: &first{path, most}})
	return got.First, err
}

func (f first) rows(ctx context.Context, sql string) (*Rows, error) {
	got := &Rows{}
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	err := openAndQuery(limited, f.Path, sql, exportResources(""), permission{}, func(db *database.DB) error {
		var err error
		if got.Columns, err = declareView(limited, db, sql); err != nil {
			return err
		}
		some := fmt.Sprintf("%s LIMIT %d", makeReadable("FROM temp.result", got.Columns), f.Limit+1)
		return readRows(limited, db, some, nil, func(values []any) error {
			if got.More = len(got.Rows) == f.Limit; got.More {
				return nil
			}
			row := make([]*string, len(values))
			for i, v := range values {
				row[i] = textOf(v)
			}
			got.Rows = append(got.Rows, row)
			return nil
		})
	})
	if _, denied := errors.AsType[*DeniedError](err); denied {
		return nil, errors.New("the SQL may read only the published tables")
	}
	if err != nil {
		return nil, explainLimit(ctx, limited, err, memoryLimit(exportMemory))
	}
	return got, nil
}

// textOf converts a value of [Run] to a text; nil is NULL.
func textOf(v any) *string {
	var s string
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		s = v
	case time.Time:
		s = v.UTC().Format(time.RFC3339Nano)
	case float64:
		s = strconv.FormatFloat(v, 'g', -1, 64)
	case []byte:
		s = fmt.Sprintf("%x", v[:min(len(v), mostText)])
	case fmt.Stringer:
		s = v.String()
	default:
		s = fmt.Sprint(v)
	}
	if len(s) > mostText {
		end := mostText
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return &s
}
