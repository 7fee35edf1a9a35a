package compare

import (
	"database/sql/driver"
	"fmt"
	"math"
	"math/big"
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

// columnsOf returns the SQL of the columns of a table, with the same types in every sink: JSON is cast
// to text, as in Parquet. Columns that were added later are NULL before their first value.
func columnsOf(t *schema.Table, added addedColumns) string {
	var list []string
	for _, c := range t.All() {
		name := database.Name(c.Name)
		value := name
		if c.JSON {
			value = "CAST(" + name + " AS VARCHAR)"
		}
		if first, ok := added[c.Name]; ok && first == math.MaxInt64 {
			value = "NULL"
		} else if ok {
			value = fmt.Sprintf("CASE WHEN _response_id >= %d THEN %s END", first, value)
		}
		if value != name {
			value += " AS " + name
		}
		list = append(list, value)
	}
	return strings.Join(list, ", ")
}

func columnNames(t *schema.Table) (names []string) {
	for _, c := range t.All() {
		names = append(names, c.Name)
	}
	return names
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
