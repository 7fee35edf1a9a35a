package query

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"outlierd/sinks/duckdb/database"
)

// TestSpoolReturnsEveryRowInOrder exports more rows than one batch has. Parquet must write as many
// rows.
func TestSpoolReturnsEveryRowInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "published.duckdb")
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	const want = 3*spoolBatch + 7
	var told, got int64
	text := "SELECT i, repeat(md5(i::VARCHAR), 10) AS t, -i AS rowid FROM (SELECT range AS i FROM range(60007))"
	err = Spool(t.Context(), path, text, filepath.Join(dir, "temp"), func(_ []Field, rows int64) error {
		told = rows
		return nil
	}, func(row []any) error {
		if row[0].(int64) != got {
			t.Fatalf("row %d is %v", got, row[0])
		}
		got++
		return nil
	})
	if err != nil || told != want || got != want {
		t.Errorf("%d rows of %d, %v, want %d", got, told, err, want)
	}
	to := filepath.Join(dir, "result's ☕.parquet")
	rows, err := Parquet(t.Context(), path, text, filepath.Join(dir, "temp"), to)
	if info, missing := os.Stat(to); err != nil || missing != nil || rows != want || info.Size() == 0 {
		t.Errorf("%d rows in Parquet, %v, %v, want %d", rows, err, missing, want)
	}
}

// TestParquetReplacesIncompleteFile, such as that of its own first attempt, which ran out of memory.
func TestParquetReplacesIncompleteFile(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "published.duckdb"), filepath.Join(dir, "rows.parquet")
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "ATTACH "+database.Text(path)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.WriteFile(to, []byte("half of a file"), 0o600)); err != nil {
		t.Fatal(err)
	}
	rows, err := Parquet(t.Context(), path, "SELECT 1 AS one", filepath.Join(dir, "temp"), to)
	if err != nil || rows != 1 {
		t.Errorf("%d rows were written (%v), want one", rows, err)
	}
}
