package duckdb

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Seeds are ids, or other values, that the user's SQL finds in the published file.
type Seeds struct {
	Path    string        // the published file; one that does not exist yet has no rows
	Column  string        // whose values are wanted, see [Column]; "" means the first
	Now     time.Time     // what now() and current_date mean; zero means the real clock, in UTC
	Timeout time.Duration // 0 means 30 s
	Limit   int           // more values than this are an error; 0 means 100,000
}

const (
	patience = 30 * time.Second
	most     = 100_000
)

// slow says that SQL met the limit of time.
func slow(limit time.Duration) error {
	return fmt.Errorf("the SQL took longer than %v: make it look at fewer rows", limit)
}

// Field is a column of a result.
type Field struct {
	Name string
	Kind string // its type, as DuckDB writes it; "" where it is not known yet
}

// Column is the place of the wanted column among those of a result: the one of that
// name, or the only one there is, whatever its name. Without a wish it is the first.
func Column(fields []Field, want string) (int, error) {
	i := slices.IndexFunc(fields, func(f Field) bool { return strings.EqualFold(f.Name, want) })
	switch {
	case i >= 0:
		return i, nil
	case len(fields) == 1, want == "" && len(fields) > 0:
		return 0, nil
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("the SQL gives no column %s but %s: select one column alone, or name the one that is meant: AS %[1]s",
		want, strings.Join(names, ", "))
}

// seed is a value as the text that a request takes. What has no one text, or none
// without loss, is refused.
func seed(v any, column string) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case *big.Int:
		return v.String(), nil
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), nil
	case []any:
		return "", fmt.Errorf("column %s holds lists: select unnest(%[1]s) to have one value in a row", column)
	}
	return "", fmt.Errorf("column %s holds neither text nor whole numbers: select %[1]s::VARCHAR", column)
}
