package duckdb_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

func wantError(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// TestNothingOfOthersIsReplaced: what somebody put in the place of the published file stays there, and the copy works
// again once it is moved away.
func TestNothingOfOthersIsReplaced(t *testing.T) {
	duck := func(ddl string) func(string) error {
		return func(path string) error {
			db, err := database.Open(t.Context(), database.Options{})
			if err != nil {
				return err
			}
			_, err = db.Exec(t.Context(), "ATTACH "+database.Text(path)+" AS theirs; "+ddl+"; DETACH theirs")
			return errors.Join(err, db.Close())
		}
	}
	dir, j, answers := t.TempDir(), sinktest.Sample(14), int64(2)
	l := open(t, dir)
	l.Write(t, j, 0, 2)
	l.Publish(t)
	for name, c := range map[string]struct {
		put  func(path string) error
		want string
	}{
		"folder":             {func(path string) error { return os.MkdirAll(filepath.Join(path, "notes"), 0o755) }, "not a regular file"},
		"link":               {func(path string) error { return os.Symlink("elsewhere.duckdb", path) }, "not a regular file"},
		"text":               {func(path string) error { return os.WriteFile(path, []byte("notes of somebody"), 0o644) }, "not a DuckDB file"},
		"DuckDB of another":  {duck("CREATE TABLE theirs.mine AS SELECT 42 AS answer"), "another program"},
		"without our marks":  {duck("CREATE SCHEMA theirs.outlierd; CREATE TABLE theirs.outlierd.marks (name VARCHAR, id BIGINT)"), "another program"},
		"marks of no number": {duck("CREATE SCHEMA theirs.outlierd; CREATE TABLE theirs.outlierd.marks AS SELECT 'warehouse' AS name, 'x' AS id"), "another program"},
	} {
		t.Run(name, func(t *testing.T) {
			path, away := published(dir), filepath.Join(dir, "away")
			if err := errors.Join(os.Rename(path, away), c.put(path)); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			l.Write(t, j, answers, answers+1)
			_, err = l.Copy.Shows(t.Context())
			wantError(t, err, path, c.want, "move it away")
			wantError(t, l.Copy.Publish(t.Context()), path, c.want, "move it away")
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.ModTime() != before.ModTime() {
				t.Fatalf("it was touched: %v, %v", after, err)
			}
			if err := errors.Join(os.RemoveAll(path), os.Rename(away, path)); err != nil {
				t.Fatal(err)
			}
			l.Write(t, j, answers+1, answers+2)
			l.Publish(t)
			answers += 2
		})
	}
	l.Check(t, j, answers)
}

func TestUnwritableFolderIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := sinktest.Open(openCopy).With(t, filepath.Join(dir, "file"), sinktest.Options(dir))
	defer l.Close(t)
	wantError(t, l.Copy.Publish(t.Context()), filepath.Join(dir, "file"))
	if os.Getuid() == 0 {
		return // root may write everywhere
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o555); err != nil {
		t.Fatal(err)
	}
	l = sinktest.Open(openCopy).With(t, locked, sinktest.Options(dir))
	wantError(t, l.Copy.Publish(t.Context()), locked, "permission denied")
}

func TestPublishingRemovesAForeignLog(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := open(t, dir)
	wal := published(dir) + ".wal"
	if err := os.WriteFile(wal, []byte("of a program that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.Write(t, j, 0, 4)
	l.Publish(t)
	if _, err := os.Stat(wal); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", wal, err)
	}
	l.Check(t, j, 4)
}

// The published file is read-only and has the bytes of the warehouse, and no other file stays beside it.
func TestPublishedFileIsReadOnly(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := open(t, dir)
	if err := os.WriteFile(published(dir)+".new", []byte("of a publication that was killed"), 0o400); err != nil {
		t.Fatal(err)
	}
	l.Write(t, j, 0, 4)
	l.Publish(t)
	info, err := os.Stat(published(dir))
	if err != nil || info.Mode() != 0o444 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if others, err := filepath.Glob(published(dir) + "*"); err != nil || len(others) != 1 {
		t.Errorf("published are %v, %v", others, err)
	}
	if content(t, private(dir)) != content(t, published(dir)) {
		t.Error("the published file is not the warehouse's")
	}
}

// TestUnchangedWarehouseIsNotCopied, also by a new process; a new version of the program publishes its views.
func TestUnchangedWarehouseIsNotCopied(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(4)
	l := open(t, dir)
	l.Write(t, j, 0, 4)
	l.Publish(t)
	before, err := os.Stat(published(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*sinktest.Line{l, open(t, dir)} {
		l.Publish(t)
		if after, err := os.Stat(published(dir)); err != nil || !os.SameFile(before, after) {
			t.Errorf("it was published again: %v", err)
		}
		l.Close(t)
	}
	alter(t, l, "SELECT 1")
	if err := database.Copy(private(dir), published(dir), 0o444); err != nil { // that of another version
		t.Fatal(err)
	}
	l.Publish(t)
	if content(t, private(dir)) != content(t, published(dir)) {
		t.Error("what was declared is not published")
	}
}

// TestOpenFileStaysAsItWas: a reader keeps the copy that it has opened, and blocks nothing.
func TestOpenFileStaysAsItWas(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	l := open(t, dir)
	l.Write(t, j, 0, 3)
	l.Publish(t)
	db := readOnly(t, published(dir))
	l.Write(t, j, 3, 6)
	l.Publish(t)
	got := sinktest.Select(t, db, schema.OutliersHistory, "warehouse.outliers_history")
	if diff := sinktest.Diff(j.Want(schema.OutliersHistory, 3), got); diff != "" {
		t.Errorf("what was open has changed (-want +got):\n%s", diff)
	}
	l.Check(t, j, 6)
}

// TestFileHoldsWhatIsDeclaredAlone, with a comment on every column, and views that can be read under any name of the
// file.
func TestFileHoldsWhatIsDeclaredAlone(t *testing.T) {
	dir := t.TempDir()
	openCommented(t, dir).Publish(t)
	checkComments(t, dir)
	in := readOnly(t, published(dir))
	var views []string
	for _, v := range database.Views() {
		views = append(views, v.Name)
		if _, err := in.Query(t.Context(), "FROM warehouse."+v.Name); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
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

// TestOlderWarehouseCatchesUpWithCopy: the state was put back from an older copy, and what readers see is ahead.
func TestOlderWarehouseCatchesUpWithCopy(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(8)
	l := open(t, dir)
	l.Write(t, j, 0, 3)
	if err := os.CopyFS(filepath.Join(dir, "older"), os.DirFS(filepath.Join(dir, "state"))); err != nil { // with a log
		t.Fatal(err)
	}
	l.Write(t, j, 3, 6)
	l.Publish(t)
	l.Close(t)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "state")), os.Rename(filepath.Join(dir, "older"), filepath.Join(dir, "state"))); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir)
	shown, err := l.Copy.Shows(t.Context())
	if have := l.Marks(t); err != nil || shown.Answers != 6 || have.Answers != 3 || shown.Warehouse != have.Warehouse {
		t.Errorf("the copy shows %+v, %v; the warehouse has %+v", shown, err, have)
	}
	l.Write(t, j, 3, 8)
	l.Publish(t)
	l.Check(t, j, 8)
}

// beBorrower has the published file open for writing until its input ends.
func beBorrower(dir string) (err error) {
	db, err := database.Open(ctx, database.Options{Temp: filepath.Join(dir, "borrower")})
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "ATTACH "+database.Text(published(dir))+" AS theirs; CREATE TABLE theirs.scratch AS SELECT 1")
	if err == nil {
		say("borrowing")
		io.Copy(io.Discard, os.Stdin)
	}
	return errors.Join(err, db.Close())
}

// TestMarksAreReadDespiteOtherPrograms: one has the file open for writing, and another one was killed while it had.
func TestMarksAreReadDespiteOtherPrograms(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	l := open(t, dir)
	l.Write(t, j, 0, 3)
	l.Publish(t)
	l.Close(t)
	shows := func() {
		t.Helper()
		l := open(t, dir)
		if shown, err := l.Copy.Shows(t.Context()); err != nil || shown.Answers != 3 {
			t.Errorf("the copy shows %+v, %v", shown, err)
		}
		l.Close(t)
	}
	if err := os.WriteFile(published(dir)+".wal", []byte("of a program that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	shows()
	if err := errors.Join(os.Remove(published(dir)+".wal"), os.Chmod(published(dir), 0o644)); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "borrower", dir)
	p.says(t)
	if _, err := database.ReadMarks(t.Context(), published(dir)); err == nil {
		t.Error("the file is not locked")
	}
	shows()
	l = open(t, dir)
	l.Write(t, j, 3, 6)
	l.Publish(t)
	l.Check(t, j, 6)
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "state", "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestForeignOpenFileIsNotReplaced: the file of another program stays while that program has it open for writing.
func TestForeignOpenFileIsNotReplaced(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(3)
	p := spawn(t, "borrower", dir)
	p.says(t)
	before := content(t, published(dir))
	l := open(t, dir)
	l.Write(t, j, 0, 3)
	wantError(t, l.Copy.Publish(t.Context()), published(dir), "move it away")
	if content(t, published(dir)) != before {
		t.Error("it was touched")
	}
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
}

// TestUnreadableFileStopsAnEmptyWarehouse alone: beside it, the file may be the only copy of paid data.
func TestUnreadableFileStopsAnEmptyWarehouse(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"newer version": func(text []byte) []byte { text[12]++; return text },
		"cut off":       func(text []byte) []byte { return text[:len(text)/3] },
	} {
		t.Run(name, func(t *testing.T) {
			dir, j := t.TempDir(), sinktest.Sample(6)
			l := open(t, dir)
			l.Write(t, j, 0, 3)
			l.Publish(t)
			l.Close(t)
			path := published(dir)
			damaged := damage([]byte(content(t, path)))
			if err := errors.Join(os.Remove(path), os.WriteFile(path, damaged, 0o444)); err != nil {
				t.Fatal(err)
			}
			state, kept := filepath.Join(dir, "state"), filepath.Join(dir, "kept")
			if err := os.Rename(state, kept); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir)
			wantError(t, l.Copy.Publish(t.Context()), path, "cannot be read", "move it away")
			l.Close(t)
			if content(t, path) != string(damaged) {
				t.Error("it was touched")
			}
			if err := errors.Join(os.RemoveAll(state), os.Rename(kept, state)); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir)
			l.Write(t, j, 3, 6)
			l.Publish(t)
			l.Check(t, j, 6)
		})
	}
}

// TestDamagedWarehouseIsMadeAnew from the journal, whichever of its blocks is damaged or cut off: by a kill, or by the
// disk. It is never published.
func TestDamagedWarehouseIsMadeAnew(t *testing.T) {
	random := testenv.Random(t)
	blocks := []int64{random.Int64N(14)}
	if *everyBlock {
		blocks = nil
		for block := range int64(15) {
			blocks = append(blocks, block)
		}
	}
	for _, block := range blocks {
		at := 3*4096 + block*64<<10
		for name, damage := range map[string]func(f *os.File) error{
			"noise": func(f *os.File) error {
				noise := make([]byte, 60<<10)
				rand.NewChaCha8([32]byte{1}).Read(noise)
				_, err := f.WriteAt(noise, at)
				return err
			},
			"cut":           func(f *os.File) error { return f.Truncate(at) },
			"cut in header": func(f *os.File) error { return f.Truncate(100 + 500*block) },
		} {
			t.Run(fmt.Sprintf("%s at block %d", name, block), func(t *testing.T) { healsAfter(t, damage) })
		}
	}
}

// healsAfter damages the warehouse, and publishes the whole journal then.
func healsAfter(t *testing.T, damage func(*os.File) error) {
	dir, j := t.TempDir(), sinktest.Sample(8)
	l := open(t, dir)
	l.Write(t, j, 0, 3)
	l.Publish(t)
	l.Write(t, j, 3, 5) // is not published
	l.Close(t)
	f, err := os.OpenFile(private(dir), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(damage(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for shown := int64(0); shown < 8; {
		marks, err := l.Warehouse.Marks(t.Context())
		if err == nil && marks.Answers < 8 {
			b := j.Batch(marks.Answers, min(marks.Answers+3, 8))
			err = l.Warehouse.Write(t.Context(), b)
			sinktest.Release(b)
		}
		if err == nil {
			err = l.Copy.Publish(t.Context())
		}
		var now sinks.Marks
		if err == nil {
			now, err = l.Copy.Shows(t.Context())
			shown = now.Answers
		}
		if err != nil {
			errs = append(errs, err)
		}
		if len(errs) > 1 {
			t.Fatal(errs)
		}
	}
	l.Check(t, j, 8)
}

// TestChangedFileIsPublishedAgain, also if the warehouse was lost, which then begins without it.
func TestChangedFileIsPublishedAgain(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dir, j := t.TempDir(), sinktest.Sample(6)
		l := open(t, dir)
		l.Write(t, j, 0, 6)
		l.Publish(t)
		l.Close(t)
		db, err := database.Open(t.Context(), database.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = os.Chmod(published(dir), 0o644)
		if err == nil {
			_, err = db.Exec(t.Context(), "ATTACH "+database.Text(published(dir))+" AS mine; UPDATE mine.outliers SET title = 'mine'")
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		l = open(t, dir)
		if lost {
			l.Close(t)
			if err := os.Remove(private(dir)); err != nil {
				t.Fatal(err)
			}
			if has := l.Marks(t); has.Answers != 0 {
				t.Errorf("the warehouse begins with answers up to %d", has.Answers)
			}
			l.Write(t, j, 0, 6)
		}
		if shown, err := l.Copy.Shows(t.Context()); err != nil || shown.Answers != 6 {
			t.Errorf("the copy shows %+v, %v", shown, err)
		}
		l.Publish(t)
		l.Check(t, j, 6)
		l.Close(t)
	}
}
