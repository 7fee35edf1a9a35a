package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
)

// IDs are ids, or other values, that the user's SQL finds in the published file.
type IDs struct {
	Path    string        // the published file; one that does not exist yet has no rows
	Column  string        // whose values are wanted, see [Column]; "" means the first
	Now     time.Time     // what now() and current_date mean; zero means the real clock, in UTC
	Timeout time.Duration // 0 means 30 s
	Limit   int           // more values than this are an error; 0 means 100,000
}

const (
	timeLimit = 30 * time.Second
	maxValues = 100_000
)

// slow says that SQL met the limit of time.
func slow(limit time.Duration) error {
	return fmt.Errorf("the SQL took longer than %v: make it read fewer rows", limit)
}

// Field is a column of a result.
type Field struct {
	Name string
	Kind string // its type, as DuckDB writes it; "" where it is not known yet
}

// Column is the place of the wanted column among those of a result: the one of that
// name, or the only one there is, unless it is known to be something else. Without a
// wish it is the first. Its type must have a text, and an id's must be one.
func Column(fields []Field, want string) (int, error) {
	i := slices.IndexFunc(fields, func(f Field) bool { return strings.EqualFold(f.Name, want) })
	switch {
	case i >= 0:
		return i, fields[i].suits(want)
	case len(fields) == 1, want == "" && len(fields) > 0:
		return 0, fields[0].suits(want)
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("the SQL gives no column %s but %s: select one column alone, or name the one that is meant: AS %[1]s",
		want, strings.Join(names, ", "))
}

// suits says why a column cannot be what is wanted, as far as its name and type tell.
func (f Field) suits(want string) error {
	id := strings.HasSuffix(want, "_id")
	switch {
	case id && f.otherwise(want):
		return fmt.Errorf("the SQL gives no column %s but %s: select %[1]s, or, if %[2]s does hold such ids, %[2]s AS %[1]s", want, f.Name)
	case strings.HasSuffix(f.Kind, "]"):
		return holdsLists(f.Name)
	case mute.MatchString(f.Kind), id && f.Kind != "" && !literal.MatchString(f.Kind):
		return fmt.Errorf("column %s is %s, which is no %s: select %s", f.Name, f.Kind, cmp.Or(want, "text"), remedy(f.Name, want))
	}
	return nil
}

// otherwise reports whether the tables have a column of this name, and it holds something
// else than is wanted. Ids have names that end alike: author_channel_id is a channel_id.
func (f Field) otherwise(want string) bool {
	name := strings.ToLower(f.Name)
	if strings.HasSuffix(name, want) || strings.HasSuffix(want, name) {
		return false
	}
	return slices.ContainsFunc(slices.Concat(schema.Tables(), schema.OpsTables()), func(t *schema.Table) bool {
		return slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
	})
}

var (
	mute    = regexp.MustCompile(`^(DOUBLE|FLOAT|BOOLEAN|BLOB|BIT|TIMESTAMP WITH TIME ZONE|(STRUCT|MAP|UNION)\(.*)$`) // have no one text
	literal = regexp.MustCompile(`^(VARCHAR|JSON|ENUM\(.*)$`)                                                         // are text
)

// remedy is what to select instead of a column.
func remedy(column, want string) string {
	if want == "" {
		return column + "::VARCHAR"
	}
	return "the column that holds it, or " + column + "::VARCHAR AS " + want + " if this one does"
}

func holdsLists(column string) error {
	return fmt.Errorf("column %s holds lists: select unnest(%[1]s) to have one value in a row", column)
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
		return "", holdsLists(column)
	}
	return "", fmt.Errorf("column %s holds neither text nor whole numbers: select %[1]s::VARCHAR", column)
}
