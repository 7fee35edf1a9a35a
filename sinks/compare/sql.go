package compare

import (
	"fmt"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// columnsOf returns the SQL of the columns of a table that are compared, with the same types in every copy:
// JSON is cast to text, as in Parquet.
func columnsOf(t *schema.Table) string {
	var list []string
	for _, c := range comparedColumns(t) {
		name := database.Name(c.Name)
		if c.JSON {
			name = "CAST(" + name + " AS VARCHAR) AS " + name
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

func columnNames(t *schema.Table) (names []string) {
	for _, c := range comparedColumns(t) {
		names = append(names, c.Name)
	}
	return names
}

// comparedColumns returns the columns of a table without the version of the state with which a row was written.
func comparedColumns(t *schema.Table) []schema.Column {
	return slices.DeleteFunc(t.All(), func(c schema.Column) bool { return c.Name == schema.OpsVersion })
}

// keyText returns the SQL of a text with the key of a row: "video_id=abc, _response_id=17".
func keyText(key []string) string {
	var parts []string
	for _, c := range key {
		value := fmt.Sprintf("coalesce(left(CAST(%s AS VARCHAR), 60), 'NULL')", database.Name(c))
		parts = append(parts, database.Text(c+"=")+" || "+value)
	}
	return strings.Join(parts, " || ', ' || ")
}
