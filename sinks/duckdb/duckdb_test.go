package duckdb_test

import (
	"os"
	"path/filepath"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// openCopy is a [sinktest.Open].
func openCopy(_ testing.TB, dir string, w *warehouse.Warehouse) sinktest.Copy {
	return sinktest.Copy{
		Copy: duckdb.New(w, published(dir), filepath.Join(dir, "state", "tmp")),
		Read: func(t testing.TB, table *schema.Table) []sinktest.Row {
			return sinktest.QueryFile(t, table, published(dir))
		},
	}
}

func published(dir string) string { return filepath.Join(dir, "outliers.duckdb") }
func private(dir string) string   { return sinktest.Options(dir).Path }

// open opens a line that is closed when the test ends.
func open(t testing.TB, dir string) *sinktest.Line {
	t.Helper()
	l := sinktest.Open(openCopy).Line(t, dir)
	t.Cleanup(func() { l.Close(t) })
	return l
}

// readOnly opens a published file as a reader does.
func readOnly(t testing.TB, path string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS warehouse (READ_ONLY)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCopyFulfilsTheContract(t *testing.T) {
	testenv.RacesLittle(t)
	sinktest.Run(t, openCopy)
}
