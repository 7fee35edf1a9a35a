package warehouse_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// ask returns the one value of a query.
func ask(t testing.TB, w *warehouse.Warehouse, sql string) (value any) {
	t.Helper()
	err := w.Run(t.Context(), func(db *database.DB) error {
		rows, err := db.Query(t.Context(), sql)
		if err == nil {
			value = rows[0][0]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// alter changes the file behind the warehouse's back, as one of an earlier version may be, and closes it.
func alter(t testing.TB, w *warehouse.Warehouse, ddl string) {
	t.Helper()
	err := w.Run(t.Context(), func(db *database.DB) error {
		_, err := db.Exec(t.Context(), ddl+"; UPDATE warehouse.outlierd.marks SET id = 0 WHERE name = 'declared'")
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(path string) error
		want string
	}{
		"text":   {func(path string) error { return os.WriteFile(path, []byte("id,title\n1,x\n"), 0o644) }, "not a DuckDB file"},
		"short":  {func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }, "not a DuckDB file"},
		"folder": {func(path string) error { return os.Mkdir(path, 0o755) }, "not a regular file"},
		"link":   {func(path string) error { return os.Symlink("elsewhere.duckdb", path) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := sinktest.Options(t.TempDir())
			if err := errors.Join(os.MkdirAll(filepath.Dir(o.Path), 0o755), c.put(o.Path)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(o.Path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = warehouse.New(o).Marks(t.Context())
			wantError(t, err, o.Path, c.want, "outlierd rebuild")
			if after, err := os.Lstat(o.Path); err != nil || after.ModTime() != before.ModTime() || after.Size() != before.Size() {
				t.Errorf("%s was touched: %v", o.Path, err)
			}
		})
	}
}

func TestNewerFileIsRefused(t *testing.T) {
	l := sinktest.Open(open).Line(t, t.TempDir())
	l.Marks(t)
	l.Close(t)
	path := l.Options().Path
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[12]++ // the version follows the magic bytes
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = l.Warehouse.Marks(t.Context())
	wantError(t, err, path, "newer version", "outlierd rebuild")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, text) {
		t.Errorf("%s was touched: %v", path, err)
	}
}

// TestHalfMadeFileIsMadeAnew: a kill in the midst of it leaves half of one, under another name than that of the file.
func TestHalfMadeFileIsMadeAnew(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(3)
	path := sinktest.Options(dir).Path
	half := []string{path + ".new", path + ".new.wal", path + ".wal"} // the last one of a file that was moved away
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range half {
		if err := os.WriteFile(path, []byte("half of it"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := sinktest.Open(open).Line(t, dir)
	l.Write(t, j, 0, 3)
	l.Check(t, j, 3)
	l.Close(t)
	for _, path := range half {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left (%v)", path, err)
		}
	}
}

func TestFileGainsWhatTheDeclarationGained(t *testing.T) {
	l, j := sinktest.Open(open).Line(t, t.TempDir()), sinktest.Sample(6)
	defer l.Close(t)
	alter(t, l.Warehouse, "ALTER TABLE warehouse.main.outliers DROP COLUMN thumbnails; DROP TABLE warehouse.main.comments; "+
		"ALTER TABLE warehouse.ops.runs DROP COLUMN status")
	l.Write(t, j, 0, 6)
	l.WriteOps(t, sinktest.Runs(0, 3))
	l.Check(t, j, 6)
	l.CheckRuns(t, 3)
}

func TestColumnOfAnotherTypeIsRefused(t *testing.T) {
	l := sinktest.Open(open).Line(t, t.TempDir())
	defer l.Close(t)
	alter(t, l.Warehouse, "ALTER TABLE warehouse.main.outliers ALTER COLUMN view_count TYPE VARCHAR")
	_, err := l.Warehouse.Marks(t.Context())
	wantError(t, err, "outliers", "view_count", "VARCHAR", "BIGINT", "outlierd rebuild")
}

// TestFailedBatchLeavesNothing, and the warehouse usable.
func TestFailedBatchLeavesNothing(t *testing.T) {
	l, j := sinktest.Open(open).Line(t, t.TempDir()), sinktest.Sample(8)
	defer l.Close(t)
	l.Write(t, j, 0, 3)
	again := j.Batch(3, 8)
	defer sinktest.Release(again)
	rename := func(from, to string) {
		ask(t, l.Warehouse, "ALTER TABLE warehouse.main."+from+" RENAME TO "+to+"; SELECT 1")
	}
	rename("transcript_events", "away")
	if err := l.Warehouse.Write(t.Context(), again); err == nil {
		t.Fatal("a batch was written to a table that is not there")
	}
	rename("away", "transcript_events")
	l.Check(t, j, 3)
	l.Write(t, j, 3, 8)
	l.Check(t, j, 8)
}

// TestVacuumShrinksSmallBatches to the size of one load of the same answers, once a week.
func TestVacuumShrinksSmallBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("many batches, which race little; the ordinary run writes them")
	}
	const answers = 50
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	filled := func(each int64) *warehouse.Warehouse {
		o := sinktest.Options(t.TempDir())
		o.Tables, o.Uncommented = []*schema.Table{schema.Outliers, schema.OutliersHistory}, false
		w := warehouse.New(o)
		t.Cleanup(func() { w.Close() })
		w.SetClock(func() time.Time { return now })
		for lo := int64(0); lo < answers; lo += each {
			b := sinktest.Hits(lo, lo+each)
			err := w.Write(t.Context(), b)
			sinktest.Release(b)
			if err == nil && b.Hi%10 == 0 {
				err = w.CopyTo(t.Context(), filepath.Join(t.TempDir(), "copy"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return w
	}
	version := int64(0)
	publish := func(w *warehouse.Warehouse) int64 {
		t.Helper()
		version++
		if err := w.WriteOps(t.Context(), sinktest.Changes(0, version, nil, nil, 1000)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "copy")
		if err := w.CopyTo(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	small := filled(1)
	load, large := publish(filled(answers)), publish(small)
	before := map[string]any{}
	for _, question := range tellingQuestions {
		before[question] = ask(t, small, question)
	}
	now = now.Add(warehouse.VacuumEvery - time.Second)
	if got := publish(small); got < large {
		t.Errorf("it was vacuumed within the week: %d bytes, %d before", got, large)
	}
	now = now.Add(time.Second)
	got := publish(small)
	t.Logf("small batches %d kB, vacuumed %d kB, one load %d kB", large>>10, got>>10, load>>10)
	if float64(got) > 1.05*float64(load) || got > large*4/5 {
		t.Errorf("%d bytes of %d are left, one load takes %d", got, large, load)
	}
	for question, want := range before {
		if got := ask(t, small, question); got != want {
			t.Errorf("%s: %v, before %v", question, got, want)
		}
	}
	path := small.Options().Path
	if _, err := os.Stat(path + ".vacuumed"); !os.IsNotExist(err) {
		t.Errorf("a file is left: %v", err)
	}
	f, err := os.Open(path) // while it is open, no other file can get its inode
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	now = now.Add(warehouse.VacuumEvery)
	publish(small)
	is, err := os.Stat(path)
	was, errWas := f.Stat()
	if err != nil || errWas != nil || !os.SameFile(is, was) {
		t.Errorf("a file without free blocks was vacuumed, %v %v", err, errWas)
	}
}

// tellingQuestions have one answer each, which a vacuumed file must give, too. The order of rows
// counts: of some tables the last row of a key is the one that stands.
var tellingQuestions = []string{
	"SELECT md5(string_agg(t::VARCHAR, chr(10) ORDER BY rowid)) FROM warehouse.main.outliers AS t",
	"SELECT md5(string_agg(t::VARCHAR, chr(10) ORDER BY rowid)) FROM warehouse.main.outliers_history AS t",
	"SELECT string_agg(name || id, ' ' ORDER BY name) FROM warehouse.outlierd.marks WHERE name NOT IN ('vacuum', 'operations', 'published')",
	`SELECT string_agg(concat_ws(' ', schema_name, table_name, column_name, data_type, comment), chr(10)
		ORDER BY schema_name, table_name, column_index) FROM duckdb_columns() WHERE database_name = 'warehouse'`,
	"SELECT string_agg(concat_ws(' ', schema_name, table_name, comment), chr(10) ORDER BY ALL) FROM duckdb_tables() WHERE database_name = 'warehouse'",
	`SELECT string_agg(concat_ws(' ', schema_name, view_name, comment, sql), chr(10) ORDER BY ALL) FROM duckdb_views()
		WHERE database_name = 'warehouse' AND NOT internal`,
}

// TestRebuildReplacesFileLast, and until then the file is as it was.
func TestRebuildReplacesFileLast(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(8)
	l := sinktest.Open(open).Line(t, dir)
	l.Write(t, j, 0, 4)
	old := l.Marks(t)
	l.Close(t)
	broken := errors.New("the journal cannot be read")
	for _, failure := range []error{broken, nil} {
		err := warehouse.Rebuild(t.Context(), sinktest.Options(dir), func(w *warehouse.Warehouse) error {
			b := j.Batch(0, 8)
			defer sinktest.Release(b)
			if err := w.Write(t.Context(), b); err != nil {
				return err
			}
			if l := sinktest.Open(open).Line(t, dir); l.Marks(t) != old {
				t.Error("the old file has changed")
			} else {
				l.Check(t, j, 4)
				l.Close(t)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatalf("error %v, want %v", err, failure)
		}
		left, err := filepath.Glob(sinktest.Options(dir).Path + "?*")
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	l = sinktest.Open(open).Line(t, dir)
	defer l.Close(t)
	if now := l.Marks(t); now.Answers != 8 || now.Warehouse == old.Warehouse {
		t.Errorf("marks %+v after the rebuild, %+v before", now, old)
	}
	l.Check(t, j, 8)
}

// TestAdoptedRowsContinue: later answers are folded into rows whose own answers the journal no longer has.
func TestAdoptedRowsContinue(t *testing.T) {
	j := sinktest.Sample(14)
	for _, a := range j { // as an answer has them
		a.Rows[schema.OutliersHistory] = a.Rows[schema.Outliers]
	}
	older := sinktest.Open(open).Line(t, t.TempDir())
	older.Write(t, j, 0, 14)
	omitted := sinks.Omitted{UpTo: map[string]int64{"outliers_history": 5}}
	older.Omit(t, omitted)
	older.Close(t)
	l := sinktest.Open(open).Line(t, t.TempDir())
	defer l.Close(t)
	if err := l.Adopt(t.Context(), older.Options().Path, 7, warehouse.Except{}); err != nil {
		t.Fatal(err)
	}
	if mark := l.Marks(t).Answers; mark != 7 {
		t.Errorf("watermark %d, want 7", mark)
	}
	l.Write(t, j, 7, 14)
	if err := l.CarryOver(t.Context(), older.Options().Path, 7); err != nil {
		t.Fatal(err)
	}
	l.Omit(t, omitted)
	for _, table := range sinktest.Tables() {
		want, got := j.Want(table, 14), l.Copy.Read(t, table)
		if table == schema.OutliersHistory {
			want = slices.DeleteFunc(want, func(row sinktest.Row) bool { return row[sinks.ResponseID].(int64) <= 5 })
		}
		if table.Kind != schema.Current { // parents with later answers begin anew
			for _, row := range append(want, got...) {
				delete(row, schema.FirstResponseID)
			}
		}
		if diff := sinktest.Diff(want, got); diff != "" {
			t.Errorf("table %s (-want +got):\n%s", table.Name, diff)
		}
	}
	if err := l.Adopt(t.Context(), older.Options().Path, 7, warehouse.Except{}); err == nil {
		t.Error("a warehouse with answers took over others")
	}
}

// TestErasedIDsAreNotAdopted, wherever a row has them.
func TestErasedIDsAreNotAdopted(t *testing.T) {
	type row = sinktest.Row
	dir := t.TempDir()
	older := whole(t, dir)
	hit := func(video, channel string, seeds ...any) row {
		return row{"video_id": video, "channel_id": channel, "seeds": seeds, "item": "like " + video, "extra": `{"by": "` + channel + `"}`, sinks.ResponseID: int64(1)}
	}
	comment := func(video, author string) row {
		return row{"video_id": video, "comment_key": author, "author_channel_id": author, sinks.ResponseID: int64(1)}
	}
	hits := []row{hit("forgotten", "c"), hit("a", "bad.channel"), hit("b", "c", "forgotten", "x"), hit("d", "c")}
	hits[2]["item"], hits[2]["extra"] = "like forgotten", `{"next": "forgotten"}`
	comments := []row{comment("b", "writer"), comment("b", "c"), comment("forgotten", "c")}
	b := sinks.Batch{Hi: 1, Parts: []schema.Part{
		{Table: schema.Outliers, Rows: sinktest.Record(schema.Outliers.Schema(), hits)},
		{Table: schema.OutliersHistory, Rows: sinktest.Record(schema.OutliersHistory.Schema(), hits)},
		{Table: schema.Comments, Rows: sinktest.Record(schema.Comments.Schema(), comments)},
	}}
	defer sinktest.Release(b)
	if err := errors.Join(older.Write(t.Context(), b), older.Close()); err != nil {
		t.Fatal(err)
	}
	w := whole(t, t.TempDir())
	err := w.Adopt(t.Context(), older.Options().Path, 1, warehouse.Except{
		IDs: []string{"forgotten", "bad.channel"}, Authors: []string{"writer"}, Erased: "erased"})
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT string_agg(concat_ws(' ', video_id, extra), ', ' ORDER BY video_id) FROM warehouse.outliers":                      `b, d {"by": "c"}`,
		"SELECT string_agg(concat_ws(' ', video_id, item, seeds, extra), ', ' ORDER BY video_id) FROM warehouse.outliers_history": `b like erased [erased, x], d like d [] {"by": "c"}`,
		"SELECT string_agg(concat_ws(' ', video_id, author_channel_id), ', ') FROM warehouse.comments":                            "b c",
	} {
		if got := ask(t, w, sql); got != want {
			t.Errorf("%s: %v, want %s", sql, got, want)
		}
	}
}

// TestDeletedRowsAreRecorded for copies, which else would keep them; rows that are written again are not.
func TestDeletedRowsAreRecorded(t *testing.T) {
	type row = sinktest.Row
	l := sinktest.Open(open).Line(t, t.TempDir())
	defer l.Close(t)
	comments := func(id int64, videos ...string) schema.Part {
		var rows []row
		for _, video := range videos {
			rows = append(rows, row{"video_id": video, "comment_key": "k", sinks.ResponseID: id})
		}
		return schema.Part{Table: schema.Comments, Rows: sinktest.Record(schema.Comments.Schema(), rows)}
	}
	gone := func(part schema.Part, id int64, video string) schema.Part {
		all := sinktest.Record(schema.Comments.Schema(), []row{{"video_id": video, sinks.ResponseID: id}})
		defer all.Release()
		fields := all.Schema()
		var columns []arrow.Array
		var of []arrow.Field
		for _, name := range []string{"video_id", sinks.ResponseID} {
			at := fields.FieldIndices(name)[0]
			columns, of = append(columns, all.Column(at)), append(of, fields.Field(at))
		}
		part.Gone = array.NewRecordBatch(arrow.NewSchema(of, nil), columns, 1)
		return part
	}
	for i, part := range []schema.Part{
		comments(1, "a", "b"), comments(2, "a"), // is replaced
		gone(comments(3), 3, "a"), gone(comments(4, "b"), 4, "never there"), gone(comments(5, "c"), 5, "b"),
	} {
		b := sinks.Batch{Lo: int64(i), Hi: int64(i + 1), Parts: []schema.Part{part}}
		if err := l.Warehouse.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(b)
	}
	l.WriteOps(t, sinktest.Runs(0, 4))
	l.WriteOps(t, sinktest.Changes(4, 5, map[string]int64{"ops.runs": 2}, map[*schema.Table][]row{
		schema.OpsRuns: {{"id": int64(2)}, {"id": int64(3)}}}, 1))
	got := ask(t, l.Warehouse, `SELECT string_agg(concat_ws(' ', table_name, "placing", version), ', ' ORDER BY ALL) FROM warehouse.outlierd.deleted`)
	if want := "comments 1 3, comments 1 5, ops.runs 4 5"; got != want {
		t.Errorf("deleted are %v, want %s", got, want)
	}
}
