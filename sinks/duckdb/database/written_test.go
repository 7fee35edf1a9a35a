//go:build duckdb_arrow

package database

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLogHasEveryWriteOfANewFile writes more than fits into memory, so that the log also has writes
// to temporary files.
func TestLogHasEveryWriteOfANewFile(t *testing.T) {
	dir := t.TempDir()
	path, record := filepath.Join(dir, `it's a "file" of, mine.duckdb`), filepath.Join(dir, "writes.csv")
	db, err := Open(t.Context(), Options{Memory: 48 << 20, Temp: filepath.Join(dir, "temp")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.RecordWrites(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(t.Context(), fmt.Sprintf(`ATTACH %s AS made (BLOCK_SIZE 32768); CREATE TABLE made.hashes (a VARCHAR, b VARCHAR);
		INSERT INTO made.hashes SELECT md5(i::VARCHAR), md5((-i)::VARCHAR) FROM range(600_000) AS r(i) ORDER BY hash(i);
		CHECKPOINT made; DETACH made`, Text(path)))
	if err != nil {
		t.Fatal(err)
	}
	writes, err := db.Written(t.Context(), record, path)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(writes, func(a, b Write) int { return cmp.Compare(a.At, b.At) })
	var end int64
	for _, w := range writes {
		if w.At > end {
			t.Errorf("nothing is recorded from %d to %d", end, w.At)
		}
		end = max(end, w.At+w.Bytes)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != end || end < 20<<20 {
		t.Errorf("recorded up to %d, want the size of %v, %v", end, info, err)
	}
}

// TestLogCreatesNoFolder: a folder that was moved stays away, so that it can be put back. The log goes on in
// the moved file, and a new log fails.
func TestLogCreatesNoFolder(t *testing.T) {
	dir := t.TempDir()
	folder, moved := filepath.Join(dir, "state"), filepath.Join(dir, "moved")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Options{Memory: 48 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.RecordWrites(t.Context(), filepath.Join(folder, "writes.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder, moved); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "made.duckdb")
	if _, err := db.Exec(t.Context(), "ATTACH "+Text(path)+" AS made; CREATE TABLE made.t AS SELECT 1 AS i; DETACH made"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Written(t.Context(), filepath.Join(folder, "writes.csv"), path); !os.IsNotExist(err) {
		t.Errorf("read a log that was moved: %v, want that it does not exist", err)
	}
	if err := db.RecordWrites(t.Context(), filepath.Join(folder, "writes.csv")); !os.IsNotExist(err) {
		t.Errorf("start a log in a folder that was moved: %v, want that it does not exist", err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder that was moved exists again: %v", err)
	}
	if writes, err := db.Written(t.Context(), filepath.Join(moved, "writes.csv"), path); err != nil || len(writes) == 0 {
		t.Errorf("the moved log has %d writes, %v", len(writes), err)
	}
}
