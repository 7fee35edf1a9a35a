//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

var update = flag.Bool("update", false, "make blank.duckdb.zst and its fingerprint anew")

// declare brings a file to the declarations, as opening a sink does.
func declare(ctx context.Context, path string, tables []*schema.Table) error {
	db, err := database.Open(ctx, database.Options{})
	if err != nil {
		return err
	}
	in := &instance{db: db}
	if err = in.attach(ctx, path, noBlank); err == nil {
		err = db.Declare(ctx, tables)
	}
	if err == nil {
		_, err = db.Exec(ctx, "CHECKPOINT warehouse; DETACH warehouse")
	}
	return errors.Join(err, db.Close())
}

func noBlank() *blankFile { return nil }

// compressed is a file as a [blankFile] has it.
func compressed(path string, level zstd.EncoderLevel) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level))
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(content, nil), encoder.Close()
}

// blankOfSuite is the blank file of sinks with the tables of sinktest, which open hundreds of new files.
var blankOfSuite = sync.OnceValue(func() *blankFile {
	folder, err := os.MkdirTemp("", "blank")
	if err != nil {
		panic(err)
	}
	path, tables := filepath.Join(folder, "new.duckdb"), slices.Concat(sinktest.Tables(), sinktest.Ops())
	blank := &blankFile{has: database.Fingerprint(tables)}
	if err = declare(context.Background(), path, tables); err == nil {
		blank.content, err = compressed(path, zstd.SpeedFastest)
	}
	if err := errors.Join(err, os.RemoveAll(folder)); err != nil {
		panic(err)
	}
	return blank
})

// TestBlankFileHasWhatIsDeclared of this version, so that nothing is left to be declared in a new
// file; -update makes it so.
func TestBlankFileHasWhatIsDeclared(t *testing.T) {
	o := whole(t.TempDir())
	tables := slices.Concat(o.Tables, o.Ops)
	fingerprint := database.Fingerprint(tables)
	if *update {
		path := filepath.Join(t.TempDir(), "new.duckdb")
		err := declare(t.Context(), path, tables)
		if err != nil {
			t.Fatal(err)
		}
		if blankContent, err = compressed(path, zstd.SpeedBestCompression); err != nil {
			t.Fatal(err)
		}
		blankFingerprint = fingerprint
		err = errors.Join(os.WriteFile("blank.duckdb.zst", blankContent, 0o644), os.WriteFile("blank.fingerprint", []byte(fingerprint+"\n"), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "blank.duckdb")
	if err := o.blankOf().write(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := declare(t.Context(), path, tables); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) || o.blankOf().has != fingerprint {
		t.Error("blank.duckdb.zst and blank.fingerprint are not of this version: go test -tags duckdb_arrow ./sinks/duckdb -run TestBlankFile -update")
	}
	t.Logf("%d bytes, %d in the program", len(after), len(blankContent))
}

// TestTextsAreKeptWithoutDictionary unless they repeat, in a new file, in one that an older version made
// and this one adds tables to, and in one of a version that did not say how texts are kept.
func TestTextsAreKeptWithoutDictionary(t *testing.T) {
	o, path := whole(t.TempDir()), filepath.Join(t.TempDir(), "new.duckdb")
	if err := o.blankOf().write(path); err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	exec := func(sql string) {
		t.Helper()
		_, err := db.Exec(t.Context(), sql)
		must(err)
	}
	check := func(file, texts, pictures string) {
		t.Helper()
		exec(`INSERT INTO warehouse.transcript_events (video_id, position, text)
				SELECT 'dQw4w9WgXcQ', i, 'line ' || i || ' of what is said' FROM range(5000) AS r(i);
			INSERT INTO warehouse.comments (video_id, author_thumbnails)
				SELECT 'dQw4w9WgXcQ', [{url: 'https://pictures.example/' || md5(i::varchar), width: 48, height: 48}] FROM range(5000) AS r(i)`)
		must(db.Checkpoint(t.Context()))
		for table, want := range map[string]string{"transcript_events": texts, "comments": pictures} {
			rows, err := db.Query(t.Context(), `SELECT string_agg(DISTINCT column_name || ' ' || compression, ', ' ORDER BY column_name || ' ' || compression)
				FROM pragma_storage_info('warehouse.`+table+`') WHERE segment_type = 'VARCHAR'
				AND column_name IN ('video_id', if('`+table+`' = 'comments', 'author_thumbnails', 'text'))`)
			must(err)
			if got := rows[0][0].(string); got != want {
				t.Errorf("%s: %s: %s, want %s", file, table, got, want)
			}
		}
	}
	const texts, pictures = "text ZSTD, video_id DICT_FSST", "author_thumbnails ZSTD, video_id DICT_FSST"
	exec("ATTACH " + database.Text(path) + " AS warehouse")
	check("new file", texts, pictures)
	exec("DROP TABLE warehouse.transcript_events; DROP TABLE warehouse.comments")
	must(db.Declare(t.Context(), slices.Concat(schema.Tables(), schema.OpsTables())))
	check("older file", texts, pictures)
	exec(`DROP TABLE warehouse.transcript_events; CREATE TABLE warehouse.transcript_events (video_id VARCHAR, position BIGINT, text VARCHAR);
		DELETE FROM warehouse.comments; DELETE FROM warehouse.outlierd.marks WHERE name = 'declared'; RESET force_compression`)
	check("file of a version that did not say it", "text DICT_FSST, video_id DICT_FSST", "author_thumbnails DICT_FSST, video_id DICT_FSST")
}

// TestNewSinkPublishesTheBlankFile: both files of a new sink are the blank one, and so is the published
// file of a sink whose first start was killed between the two.
func TestNewSinkPublishesTheBlankFile(t *testing.T) {
	for name, before := range map[string]func(o Options) error{
		"nothing": func(Options) error { return nil },
		"killed":  func(o Options) error { return o.blankOf().write(o.Private) },
	} {
		t.Run(name, func(t *testing.T) {
			o := whole(t.TempDir())
			err := errors.Join(os.MkdirAll(filepath.Dir(o.Private), 0o755), before(o))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			db, err := database.Open(t.Context(), database.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			rows, err := db.Query(t.Context(), fmt.Sprintf(`ATTACH %s AS published (READ_ONLY);
				SELECT count(*) FROM duckdb_tables() WHERE database_name = 'published' AND schema_name IN ('main', 'ops')`,
				database.Text(o.Published)))
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(len(o.Tables) + len(o.Ops)); rows[0][0] != want {
				t.Errorf("%v tables are published, want %d", rows[0][0], want)
			}
			if info, err := os.Stat(o.Published); err != nil || info.Mode().Perm() != 0o444 {
				t.Errorf("the published file is %v, %v; want read-only", info.Mode(), err)
			}
		})
	}
}
