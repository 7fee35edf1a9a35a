package query

import (
	"os"
	"path/filepath"
	"testing"

	"outlierd/sinks/duckdb/database"
)

// TestPathsWithSpecialNames reads published files whose paths have a special meaning in URLs, in SQL, or as
// names of DuckDB's own databases.
func TestPathsWithSpecialNames(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(made)+" AS made; CREATE TABLE made.t AS SELECT 7 AS n; DETACH made")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"plain/outliers.duckdb", "100%/o.duckdb", "%41/o.duckdb", "#1/o.duckdb", "a:b/o.duckdb", "it's \"odd\"/o.duckdb",
		"line\nbreak/o.duckdb", "[a]*/o.duckdb", "a/my.file.duckdb", "a/memory.duckdb", "a/temp.duckdb", "a/system.duckdb",
		"a/.duckdb", "a/none", `a/"q"'.duckdb`, "ü/ñ 表.duckdb",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(made, path); err != nil {
			t.Fatal(err)
		}
		var got any
		err := Run(t.Context(), path, "select n from t", nil, func(row []any) error {
			got = row[0]
			return nil
		})
		if got != int64(7) && got != int32(7) || err != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if RunUnsafe(t.Context(), made, "insert into t values (8)", nil, func([]any) error { return nil }) == nil {
		t.Error("the file is not opened read-only")
	}
}
