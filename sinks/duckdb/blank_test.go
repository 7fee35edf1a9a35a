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

// TestTextsAreKeptWithoutDictionary unless they repeat, in a new file and in one that an older version
// made and this one adds a table to.
func TestTextsAreKeptWithoutDictionary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.duckdb")
	if err := writeBlank(path); err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	add := func(video string) string {
		return `INSERT INTO warehouse.transcript_events (video_id, position, text)
			SELECT ` + video + `, i, 'line ' || i || ' of what is said' FROM range(5000) AS r(i);
			CHECKPOINT warehouse`
	}
	kept := func() string {
		rows, err := db.Query(t.Context(), `SELECT string_agg(DISTINCT column_name || ' ' || compression, ', ' ORDER BY column_name || ' ' || compression)
			FROM pragma_storage_info('warehouse.transcript_events') WHERE segment_type = 'VARCHAR'`)
		if err != nil {
			t.Fatal(err)
		}
		return rows[0][0].(string)
	}
	const want = "text ZSTD, video_id DICT_FSST"
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS warehouse; "+add("'dQw4w9WgXcQ'"))
	if got := kept(); err != nil || got != want {
		t.Errorf("new file: %s, error %v, want %s", got, err, want)
	}
	if _, err = db.Exec(t.Context(), "DROP TABLE warehouse.transcript_events"); err != nil {
		t.Fatal(err)
	}
	if err = db.Declare(t.Context(), slices.Concat(schema.Tables(), schema.OpsTables())); err == nil {
		_, err = db.Exec(t.Context(), add("'dQw4w9WgXcQ'"))
	}
	if got := kept(); err != nil || got != want {
		t.Errorf("older file: %s, error %v, want %s", got, err, want)
	}
}
