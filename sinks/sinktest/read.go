package sinktest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// reader reads copies. Starting DuckDB takes longer than reading one.
var reader = struct {
	sync.Mutex
	start func() *database.DB
}{start: sync.OnceValue(func() *database.DB {
	db, err := database.Open(context.Background(), database.Options{})
	if err != nil {
		panic(err)
	}
	return db
})}

// Query reads all rows of a table from the SQL of a FROM clause, such as read_parquet('…').
func Query(t testing.TB, table *schema.Table, from string) []Row {
	t.Helper()
	reader.Lock()
	defer reader.Unlock()
	return Select(t, reader.start(), table, from)
}

// QueryFile reads all rows of a table from a DuckDB file.
func QueryFile(t testing.TB, table *schema.Table, path string) []Row {
	t.Helper()
	reader.Lock()
	defer reader.Unlock()
	db := reader.start()
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS warehouse (READ_ONLY)"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := db.Exec(context.WithoutCancel(t.Context()), "DETACH warehouse"); err != nil {
			t.Error(err)
		}
	}()
	return Select(t, db, table, database.TableName(table))
}

// Select reads all rows of a table in a DuckDB.
func Select(t testing.TB, db *database.DB, table *schema.Table, from string) (all []Row) {
	t.Helper()
	var columns []string
	for _, c := range table.All() {
		columns = append(columns, database.Name(c.Name)+"::"+schema.SQLType(c.Type)) // JSON as text
	}
	rows, err := db.Query(t.Context(), "SELECT "+strings.Join(columns, ", ")+" FROM "+from)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range rows {
		row := Row{}
		for i, c := range table.All() {
			if values[i] != nil {
				row[c.Name] = plain(values[i])
			}
		}
		all = append(all, row)
	}
	return all
}

// plain returns a value of the driver as a [Row] has it. Maps are in no list and no struct.
func plain(v any) any {
	of, isMap := v.(duckdb.OrderedMap)
	if !isMap {
		return v
	}
	counts := map[string]int64{}
	for i, key := range of.Keys() {
		counts[key.(string)] = of.Values()[i].(int64)
	}
	return counts
}
