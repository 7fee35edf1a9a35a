package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/schema"
)

// IDs are the options of a query by which user SQL finds ids or other values in the published file.
type IDs struct {
	Path   string         // the published file; if it does not exist, there are no values
	Column string         // the column to return, see [Column]; "" means the first
	Zone   *time.Location // of days, such as current_date; nil means UTC
}

// The limits of user SQL in a process of its own. Tests lower them.
var (
	timeLimit = 30 * time.Second
	maxValues = 100_000 // more are an error
)

// Field is a column of a result.
type Field struct {
	Name string
	Kind string // its type in DuckDB; "" if it is not known yet
}

// numbers matches the types of columns of numbers.
var numbers = lazyregexp.New(`^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\))$`)

// IsNumber reports whether the values of the column are numbers.
func (f Field) IsNumber() bool { return numbers().MatchString(f.Kind) }

// Column returns the index of the column want in a result: the column with that name, else the only
// column, unless its name shows that it contains something else. If want is "", it is the first column.
// It returns an error if there is no such column, or its type cannot be converted to text; an id must
// be a text.
func Column(fields []Field, want string) (int, error) {
	i := slices.IndexFunc(fields, func(f Field) bool { return strings.EqualFold(f.Name, want) })
	switch {
	case i >= 0:
		return i, fields[i].checkSuitable(want)
	case len(fields) == 1, want == "" && len(fields) > 0:
		return 0, fields[0].checkSuitable(want)
	}
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("the SQL returns no column %s but %s: select one column only, "+
		"or rename the right one: AS %[1]s", want, strings.Join(names, ", "))
}

// checkSuitable returns an error if the name or type of a column shows that it does not contain want.
func (f Field) checkSuitable(want string) error {
	id := strings.HasSuffix(want, "_id")
	switch {
	case id && f.namesAnother(want):
		return fmt.Errorf("the SQL returns no column %s but %s: select %[1]s, "+
			"or %[2]s AS %[1]s if it contains such ids", want, f.Name)
	case strings.HasSuffix(f.Kind, "]"):
		return fmt.Errorf("column %s contains lists: select unnest(%[1]s) for one value per row", f.Name)
	case noText().MatchString(f.Kind), id && f.Kind != "" && !isText().MatchString(f.Kind):
		return fmt.Errorf("column %s has type %s, which cannot be a %s: select %s",
			f.Name, f.Kind, cmp.Or(want, "text"), suggestColumn(f.Name, want))
	}
	return nil
}

// namesAnother reports whether the tables have a column with the name of f that does not contain want. Ids
// of one kind have the same suffix: author_channel_id is a channel_id.
func (f Field) namesAnother(want string) bool {
	name := strings.ToLower(f.Name)
	if strings.HasSuffix(name, want) || strings.HasSuffix(want, name) {
		return false
	}
	return slices.ContainsFunc(schema.AllTables(), func(t *schema.Table) bool {
		return slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
	})
}

var (
	// noText matches types whose values have no unique text, and isText types that are texts.
	noText = lazyregexp.New(`^(DOUBLE|FLOAT|BOOLEAN|BLOB|BIT|TIMESTAMP WITH TIME ZONE|(STRUCT|MAP|UNION)\(.*)$`)
	isText = lazyregexp.New(`^(VARCHAR|JSON|ENUM\(.*)$`)
)

// suggestColumn returns what to select instead of a column.
func suggestColumn(column, want string) string {
	if want == "" {
		return column + "::VARCHAR"
	}
	return "the column with the ids, or " + column + "::VARCHAR AS " + want + " if it contains them"
}
