//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

var update = flag.Bool("update", false, "make blank.duckdb.zst anew")

// declare brings a file to the declarations, as opening a sink does.
func declare(t *testing.T, path string) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	in := &instance{db: db}
	if err = in.attach(t.Context(), path, false); err == nil {
		err = db.Declare(t.Context(), slices.Concat(schema.Tables(), schema.OpsTables()))
	}
	if err == nil {
		_, err = db.Exec(t.Context(), "CHECKPOINT warehouse; DETACH warehouse")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlankFileHasWhatIsDeclared of this version, so that nothing is left to be declared in a new
// file; -update makes it so.
func TestBlankFileHasWhatIsDeclared(t *testing.T) {
	if *update {
		path := filepath.Join(t.TempDir(), "new.duckdb")
		declare(t, path)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		if err != nil {
			t.Fatal(err)
		}
		blank = encoder.EncodeAll(content, nil)
		if err := os.WriteFile("blank.duckdb.zst", blank, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "blank.duckdb")
	if err := writeBlank(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	declare(t, path)
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("blank.duckdb.zst is not of this version: go test -tags duckdb_arrow ./sinks/duckdb -run TestBlankFile -update")
	}
	t.Logf("%d bytes, %d in the program", len(after), len(blank))
}
