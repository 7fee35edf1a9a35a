//go:build duckdb_arrow

package duckdb

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

func TestOpenRefusesWhatIsInTheWay(t *testing.T) {
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	folder := func(path string) error { return os.Mkdir(path, 0o755) }
	link := func(path string) error { return os.Symlink("elsewhere.duckdb", path) }
	for name, c := range map[string]struct {
		path  func(Options) string
		put   func(path string) error
		wants []string
	}{
		"private file that is none":   {private, file("id,title\n1,x\n"), []string{"not a DuckDB file", rebuild}},
		"private file that is short":  {private, file("x"), []string{"not a DuckDB file", rebuild}},
		"private folder":              {private, folder, []string{"folder", rebuild}},
		"published file that is none": {published, file("id,title\n1,x\n"), []string{"not a DuckDB file", "another path"}},
		"published folder":            {published, folder, []string{"folder", "another path"}},
		"published link":              {published, link, []string{"symbolic link", "another path"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t.TempDir())
			path := c.path(o)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			checkError(t, o, append(c.wants, path))
			if after, err := os.Lstat(path); err != nil || after.ModTime() != before.ModTime() || after.Size() != before.Size() {
				t.Errorf("%s was touched: %v", path, err)
			}
		})
	}
}

// TestNumbersArePacked: DuckDB packs numbers of 8 bytes only into blocks that are large enough.
func TestNumbersArePacked(t *testing.T) {
	db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(t.Context(), "ATTACH "+database.Text(filepath.Join(t.TempDir(), "numbers.duckdb"))+" AS warehouse ("+newFile+`);
		CREATE TABLE warehouse.numbers AS SELECT hash(i) % 1000 AS n, TIMESTAMP '2026-01-01' + to_seconds(i) AS at FROM range(5000) AS r(i);
		CHECKPOINT warehouse`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(t.Context(), `SELECT column_name, compression FROM pragma_storage_info('warehouse.numbers')
		WHERE segment_type <> 'VALIDITY' AND compression <> 'BitPacking'`)
	if err != nil || len(rows) > 0 {
		t.Errorf("columns that are not packed: %v, %v", rows, err)
	}
}

// TestFileThatWasBeingMadeIsMadeAnew: a kill in the midst of it leaves half of one, under
// another name than that of the file.
func TestFileThatWasBeingMadeIsMadeAnew(t *testing.T) {
	o := options(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(o.Private), 0o755); err != nil {
		t.Fatal(err)
	}
	half := []string{o.Private + ".new", o.Private + ".new.wal"}
	for _, path := range half {
		if err := os.WriteFile(path, []byte("half of it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range half {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", path, err)
		}
	}
}

func private(o Options) string   { return o.Private }
func published(o Options) string { return o.Published }

func checkError(t *testing.T, o Options, wants []string) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err == nil {
		s.Close()
		t.Fatal("opened without an error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestOpenRefusesAFileOfANewerVersion(t *testing.T) {
	o := options(t.TempDir())
	open(t, filepath.Dir(o.Published)).Close()
	text, err := os.ReadFile(o.Private)
	if err != nil {
		t.Fatal(err)
	}
	text[12]++ // the version follows the magic bytes
	if err := os.WriteFile(o.Private, text, 0o644); err != nil {
		t.Fatal(err)
	}
	checkError(t, o, []string{o.Private, "newer version", rebuild})
	if after, err := os.ReadFile(o.Private); err != nil || string(after) != string(text) {
		t.Errorf("%s was touched: %v", o.Private, err)
	}
}

func TestOpenRefusesAFolderThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := options(dir)
	o.Published = filepath.Join(dir, "file", "outliers.duckdb")
	checkError(t, o, []string{filepath.Join(dir, "file")})
}

func TestOpenRefusesAFolderThatMayNotBeWritten(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	o := options(dir)
	o.Published = filepath.Join(dir, "public", "outliers.duckdb")
	if err := os.Mkdir(filepath.Dir(o.Published), 0o555); err != nil {
		t.Fatal(err)
	}
	checkError(t, o, []string{filepath.Dir(o.Published), "permission denied"})
}

func TestPublishingRemovesAForeignLog(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	s := open(t, dir)
	defer s.Close()
	wal := filepath.Join(dir, "outliers.duckdb.wal")
	if err := os.WriteFile(wal, []byte("of a program that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, s, j, 0, 4)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(wal); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", wal, err)
	}
	suite.Check(t, dir, j, 4)
}

// TestPublishingReplacesNothingOfOthers: what somebody put in the place of the published file while the sink
// is open stays there, and the sink works again once it is moved away.
func TestPublishingReplacesNothingOfOthers(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "notes"), 0o755) },
		"text":   func(path string) error { return os.WriteFile(path, []byte("notes of somebody"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, j := t.TempDir(), sinktest.Sample(6)
			s := open(t, dir)
			defer s.Close()
			write(t, s, j, 0, 2)
			if err := s.Publish(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			path, away := s.options.Published, filepath.Join(dir, "away")
			if err := errors.Join(os.Rename(path, away), put(path)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, s, j, 2, 4)
			if err := s.Publish(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is not a DuckDB file") {
				t.Errorf("published over a %s: %v", name, err)
			}
			if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
				t.Fatalf("the %s is gone: %v, %v", name, after, err)
			}
			if err := errors.Join(os.RemoveAll(path), os.Rename(away, path)); err != nil {
				t.Fatal(err)
			}
			write(t, s, j, 4, 6)
			if err := s.Publish(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			suite.Check(t, dir, j, 6)
		})
	}
}

func TestPublishedFileIsReadOnlyAndAlone(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	s := open(t, dir)
	defer s.Close()
	write(t, s, j, 0, 4)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "outliers.duckdb"))
	if err != nil || info.Mode() != 0o444 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if others, err := filepath.Glob(filepath.Join(dir, "outliers*")); err != nil || len(others) != 1 {
		t.Errorf("published are %v, %v", others, err)
	}
}

func TestFileHoldsWhatIsDeclaredAloneAndSaysWhatItIs(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	s := openWhole(t, dir)
	write(t, s, j, 0, 4)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	in := readOnly(t, filepath.Join(dir, "outliers.duckdb"))
	defer in.Close()
	var views []string
	for _, v := range database.Views() {
		views = append(views, v.Name)
	}
	slices.Sort(views)
	for query, want := range map[string]any{
		"SELECT string_agg(schema_name || '.' || view_name, ' ' ORDER BY schema_name || '.' || view_name) FROM duckdb_views() WHERE database_name = 'warehouse'": strings.Join(views, " "),
		"SELECT comment FROM duckdb_views() WHERE database_name = 'warehouse' AND view_name = 'spend_by_day'":                                                    view(t, "ops.spend_by_day").Comment,
		"SELECT count(*) FROM duckdb_indexes() WHERE database_name = 'warehouse'":                                                                                int64(0),
		"SELECT comment FROM duckdb_tables() WHERE database_name = 'warehouse' AND table_name = 'comments'":                                                      schema.Comments.Comment,
		"SELECT data_type FROM duckdb_columns() WHERE database_name = 'warehouse' AND table_name = 'comments' AND column_name = 'extra'":                         "JSON",
	} {
		rows, err := in.Query(t.Context(), query)
		if err != nil || rows[0][0] != want {
			t.Errorf("%s\ngot %v, %v, want %v", query, rows, err, want)
		}
	}
}

// shrunk makes a file as an earlier version would have: without what ddl takes away.
func shrunk(t *testing.T, dir, ddl string) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	in, err := s.instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.db.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
}

func TestOpenAddsWhatTheDeclarationGained(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	shrunk(t, dir, `ALTER TABLE warehouse.main.outliers DROP COLUMN thumbnails; DROP TABLE warehouse.main.comments`)
	s := open(t, dir)
	defer s.Close()
	write(t, s, j, 0, 6)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	suite.Check(t, dir, j, 6)
}

func TestOpenRefusesAColumnOfAnotherType(t *testing.T) {
	dir := t.TempDir()
	shrunk(t, dir, `ALTER TABLE warehouse.main.outliers ALTER COLUMN view_count TYPE VARCHAR`)
	checkError(t, options(dir), []string{"outliers", "view_count", "VARCHAR", "BIGINT", rebuild})
}

func TestAFailedBatchLeavesNothingAndTheSinkUsable(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	s := open(t, dir)
	defer s.Close()
	write(t, s, j, 0, 3)
	spoiled := j.Batch(3, 6)
	defer sinktest.Release(spoiled)
	in, err := s.instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.db.Exec(t.Context(), "DROP TABLE warehouse.main.transcript_events"); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), spoiled); err == nil {
		t.Fatal("a batch was written to a table that is not there")
	}
	if mark, err := s.Watermark(t.Context()); err != nil || mark != 3 {
		t.Errorf("watermark = %d, %v; want 3", mark, err)
	}
	rows, err := s.in.db.Query(t.Context(), "SELECT count(*) FROM warehouse.main.outliers_history")
	if want := int64(count(j, schema.OutliersHistory, 3)); err != nil || rows[0][0] != want {
		t.Errorf("%v rows, %v; want %d", rows, err, want)
	}
}

// TestFailedBatchIsForgotten: rows that were rolled back count neither as kept last nor
// as a parent's older ones.
func TestFailedBatchIsForgotten(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(8)
	s := open(t, dir)
	defer s.Close()
	write(t, s, j, 0, 3)
	again := j.Batch(3, 8)
	defer sinktest.Release(again)
	rename(t, s, "transcript_events", "away")
	if err := s.Write(t.Context(), again); err == nil {
		t.Fatal("a batch was written to a table that is not there")
	}
	rename(t, s, "away", "transcript_events")
	if err := s.Write(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	suite.Check(t, dir, j, 8)
}

func rename(t *testing.T, s *Sink, from, to string) {
	t.Helper()
	in, err := s.instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.db.Exec(t.Context(), "ALTER TABLE warehouse.main."+from+" RENAME TO "+to); err != nil {
		t.Fatal(err)
	}
}

func TestQuotingKeepsHostileNamesApart(t *testing.T) {
	in, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, hostile := range []string{"plain", "select", `a"b`, "it's", `"; DROP TABLE x; --`, "two words", "🎬"} {
		rows, err := in.Query(t.Context(), "SELECT * FROM (SELECT "+database.Text(hostile)+" AS "+database.Name(hostile)+") WHERE "+database.Name(hostile)+" = "+database.Text(hostile))
		if err != nil || len(rows) != 1 || rows[0][0] != hostile {
			t.Errorf("%q came back as %v, %v", hostile, rows, err)
		}
	}
}
