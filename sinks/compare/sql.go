package compare

import (
	"database/sql/driver"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

func names(of string, columns []string) string {
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = of + database.Name(c)
	}
	return strings.Join(quoted, ", ")
}

func same(a, b string, columns []string) string {
	equal := make([]string, len(columns))
	for i, c := range columns {
		equal[i] = a + database.Name(c) + " IS NOT DISTINCT FROM " + b + database.Name(c)
	}
	return strings.Join(equal, " AND ")
}

// columnsOf returns the SQL of the columns of a table that are compared, with the same types in every copy:
// JSON is cast to text, as in Parquet.
func columnsOf(t *schema.Table) string {
	var list []string
	for _, c := range compared(t) {
		name := database.Name(c.Name)
		if c.JSON {
			name = "CAST(" + name + " AS VARCHAR) AS " + name
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

func columnNames(t *schema.Table) (names []string) {
	for _, c := range compared(t) {
		names = append(names, c.Name)
	}
	return names
}

// compared returns the columns of a table without the version of the state with which a row was written.
func compared(t *schema.Table) []schema.Column {
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

// toInt64 converts a sum, which DuckDB returns as HUGEINT, to int64.
func toInt64(v driver.Value) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case *big.Int:
		return v.Int64()
	}
	return 0
}
