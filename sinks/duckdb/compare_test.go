package duckdb_test

import (
	"path/filepath"
	"strings"
	"testing"

	"outlierd/schema"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb/database"
)

// startDuckDB starts DuckDB for the rest of a test.
func startDuckDB(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// parquetOf writes a Parquet file of a table for each query.
func parquetOf(t *testing.T, db *database.DB, of *schema.Table, queries ...string) compare.Source {
	t.Helper()
	var files []string
	dir := t.TempDir()
	for i, q := range queries {
		file := filepath.Join(dir, string(rune('a'+i))+".parquet")
		if _, err := db.Exec(t.Context(), "COPY ("+q+") TO "+database.Text(file)); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return compare.Source{Name: dir, Parquet: func(table *schema.Table) []string {
		if table.Name == of.Name {
			return files
		}
		return nil
	}}
}

// rowsOf returns a query of rows of a table, which have other columns than these as NULL.
func rowsOf(table *schema.Table, columns, values string) string {
	var all []string
	for _, c := range table.All() {
		all = append(all, "NULL::"+c.SQLType()+" AS "+database.Name(c.Name))
	}
	return "FROM (SELECT " + strings.Join(all, ", ") + " WHERE false) UNION ALL BY NAME FROM (VALUES " + values + ") AS v(" + columns + ")"
}

func TestDifferencesAreCountedByKind(t *testing.T) {
	db, r := startDuckDB(t), compare.Open(t.TempDir())
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	const columns = "video_id, title, _response_id"
	const all = "('a', 'A', 1), ('b', 'B', 1001), ('c', 'C', 2001), ('d', 'D', NULL::BIGINT)"
	want := parquetOf(t, db, schema.Outliers, rowsOf(schema.Outliers, columns, all))
	nothing := compare.Source{Name: "nothing", Parquet: func(*schema.Table) []string { return nil }}
	for name, c := range map[string]struct {
		rows, found, example string
	}{
		"the same":           {"('d', 'D', NULL::BIGINT), ('c', 'C', 2001), ('b', 'B', 1001), ('a', 'A', 1)", "", ""},
		"one is missing":     {"('a', 'A', 1), ('c', 'C', 2001), ('d', 'D', NULL::BIGINT)", "1 missing", "1 missing: video_id=b, _response_id=1001"},
		"one is there twice": {all + ", ('d', 'D', NULL::BIGINT)", "1 unexpected", "1 unexpected: video_id=d, _response_id=NULL"},
		"one is changed":     {"('a', 'A', 1), ('b', 'X', 1001), ('c', 'C', 2001), ('d', 'D', NULL::BIGINT)", "1 changed", "1 changed: video_id=b, _response_id=1001"},
		"of each kind":       {"('a', NULL, 1), ('c', 'C', 2001), ('d', 'D', NULL::BIGINT), ('e', 'E', 9001)", "1 missing, 1 unexpected, 1 changed", "1 changed: video_id=a, _response_id=1"},
		"all are missing":    {"", "4 missing", "1 missing: video_id=a, _response_id=1"},
	} {
		t.Run(name, func(t *testing.T) {
			have := nothing
			if c.rows != "" {
				have = parquetOf(t, db, schema.Outliers, rowsOf(schema.Outliers, columns, c.rows))
			}
			d, err := r.Compare(t.Context(), want, have, schema.Outliers)
			if err != nil || d.Rows != 4 || d.String() != c.found || d.Any() != (c.found != "") || len(d.Examples) > 3 {
				t.Errorf("%+v (%v), want %q of 4 rows", d, err, c.found)
			}
			if d.Any() && d.Examples[0] != c.example {
				t.Errorf("the examples are %q, want %q first", d.Examples, c.example)
			}
		})
	}
	d, err := r.Compare(t.Context(), nothing, want, schema.Outliers)
	if err != nil || d.String() != "4 unexpected" {
		t.Errorf("%s (%v), want 4 rows that are not expected", d, err)
	}
	other := parquetOf(t, db, schema.Outliers, "SELECT * REPLACE (_response_id::INTEGER AS _response_id) FROM ("+rowsOf(schema.Outliers, columns, all)+")")
	if _, err := r.Compare(t.Context(), want, other, schema.Outliers); err == nil || err.Error() != "column _response_id has type INTEGER instead of BIGINT" {
		t.Errorf("another type: %v", err)
	}
	older := parquetOf(t, db, schema.Outliers, "SELECT * EXCLUDE (title) FROM ("+rowsOf(schema.Outliers, columns, all)+")")
	if _, err := r.Compare(t.Context(), want, older, schema.Outliers); err == nil || err.Error() != "column title is missing" {
		t.Errorf("without a column: %v", err)
	}
}
