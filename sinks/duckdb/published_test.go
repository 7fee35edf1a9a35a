//go:build duckdb_arrow

package duckdb

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
)

// saw publishes the answers up to hi, and closes the sink.
func saw(t *testing.T, dir string, j sinktest.Journal, hi int64) {
	t.Helper()
	s := open(t, dir)
	mark, err := s.Watermark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, j, mark, hi)
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// lose removes the folder of the state.
func lose(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// marked opens the sink, wants a watermark of it, and closes it again.
func marked(t *testing.T, dir string, want int64) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	if mark, err := s.Watermark(t.Context()); err != nil || mark != want {
		t.Errorf("watermark %d, %v; want %d", mark, err, want)
	}
}

func TestWatermarkIsOfThePublishedFileIfThatIsAhead(t *testing.T) {
	j := sinktest.Sample(8)
	for name, after := range map[string]func(t *testing.T, dir string){
		"state lost": lose,
		"private file lost": func(t *testing.T, dir string) {
			if err := os.Remove(private(options(dir))); err != nil {
				t.Fatal(err)
			}
		},
		"state put back from an older copy": func(t *testing.T, dir string) {
			lose(t, dir)
			if err := os.Rename(filepath.Join(dir, "older"), filepath.Join(dir, "state")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			older(t, dir, j)
			saw(t, dir, j, 6)
			after(t, dir)
			before := content(t, published(options(dir)))
			marked(t, dir, 6)
			if content(t, published(options(dir))) != before {
				t.Error("asking for the watermark published over what was bought")
			}
			saw(t, dir, j, 8) // whose journal is not behind goes on
			suite.Check(t, dir, j, 8)
			if info, err := os.Stat(private(options(dir))); err != nil || info.Mode() != 0o600 {
				t.Errorf("the private file has mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// older writes the first answers, and keeps the state as it was before the last one
// was published: with a log.
func older(t *testing.T, dir string, j sinktest.Journal) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	write(t, s, j, 0, 3)
	if _, err := os.Stat(private(options(dir)) + ".wal"); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "older"), os.DirFS(filepath.Join(dir, "state"))); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsRestoredKnowsItsFinalOperations(t *testing.T) {
	dir := t.TempDir()
	s := openWhole(t, dir)
	tell(t, s, map[*schema.Table][]sinktest.Row{schema.OpsCredits: {spending("m", "d", "spent", 2, nil), spending("m", "d", "spent", 3, nil)}})
	batch := sinktest.Hits(0, 1)
	defer sinktest.Release(batch)
	if err := s.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lose(t, dir)
	s = openWhole(t, dir)
	if version, err := s.OpsVersion(t.Context()); err != nil || version != 2 {
		t.Errorf("version %d, %v; want 2", version, err)
	}
	if err := s.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got := results(t, dir, "SELECT sum(price)::BIGINT AS price, (SELECT count(*) FROM outliers) AS hits FROM ops.credits")
	if diff := cmp.Diff([]sinktest.Row{{"price": int64(5), "hits": int64(40)}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPublishedFileOfAnOlderVersionIsAskedAndBroughtUpToDate(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	saw(t, dir, j, 3)
	shrunk(t, dir, "DROP TABLE warehouse.main.comments; CREATE TABLE warehouse.main.gone (id BIGINT)")
	if err := copyOver(private(options(dir)), published(options(dir)), 0o444); err != nil {
		t.Fatal(err)
	}
	lose(t, dir)
	marked(t, dir, 3)
	saw(t, dir, j, 6)
	in := readOnly(t, published(options(dir)))
	defer in.Close()
	if _, err := in.Query(t.Context(), "SELECT id, comment_key FROM warehouse.main.gone, warehouse.main.comments"); err != nil {
		t.Error(err)
	}
}

// beBorrower has the published file open for writing until its input ends.
func beBorrower(dir string) (err error) {
	ctx := context.TODO()
	db, err := database.Open(ctx, database.Options{Temp: filepath.Join(dir, "borrower")})
	if err != nil {
		return err
	}
	in := &instance{db: db}
	if err := in.attach(ctx, published(options(dir)), blankOfSuite); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, "CREATE TABLE warehouse.main.scratch AS SELECT 1"); err != nil {
		return err
	}
	fmt.Println("borrowing")
	io.Copy(io.Discard, os.Stdin)
	return db.Close()
}

func TestPublishedFileIsAskedThoughAnotherProgramHasItOpen(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(6)
	saw(t, dir, j, 3)
	if err := os.Chmod(published(options(dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "borrower", dir)
	p.says(t)
	if db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()}); err != nil {
		t.Fatal(err)
	} else if _, err := (&instance{db: db}).markOf(t.Context(), published(options(dir))); err == nil {
		t.Error("the file is not locked")
	} else {
		db.Close()
	}
	marked(t, dir, 3) // the private file is as good
	lose(t, dir)
	marked(t, dir, 3)
	saw(t, dir, j, 6)
	p.in.Close()
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "state", "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPublishedFileIsAskedWithoutAForeignLog(t *testing.T) {
	dir, j := t.TempDir(), sinktest.Sample(3)
	saw(t, dir, j, 3)
	if err := os.WriteFile(published(options(dir))+".wal", []byte("of a program that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	lose(t, dir)
	marked(t, dir, 3)
}

func TestDuckDBFileOfAnotherProgramIsNotPublishedOver(t *testing.T) {
	for name, ddl := range map[string]string{
		"no marks":      "CREATE TABLE warehouse.main.mine AS SELECT 42 AS answer",
		"no mark of us": "CREATE SCHEMA warehouse.outlierd; CREATE TABLE warehouse.outlierd.marks (name VARCHAR, id BIGINT)",
		"mark of no id": "CREATE SCHEMA warehouse.outlierd; CREATE TABLE warehouse.outlierd.marks AS SELECT 'journal' AS name, 'x' AS id",
	} {
		t.Run(name, func(t *testing.T) {
			dir, j := t.TempDir(), sinktest.Sample(3)
			saw(t, dir, j, 3)
			theirs := published(options(dir))
			if err := os.Remove(theirs); err != nil {
				t.Fatal(err)
			}
			makeFile(t, theirs, ddl)
			before := content(t, theirs)
			checkError(t, options(dir), []string{theirs, "another program", elsewhere})
			if content(t, theirs) != before {
				t.Error("it was touched")
			}
		})
	}
}

func makeFile(t *testing.T, path, ddl string) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	in := &instance{db: db}
	if err := in.attach(t.Context(), path, noBlank); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), ddl+"; CHECKPOINT warehouse; DETACH warehouse"); err != nil {
		t.Fatal(err)
	}
}

func TestPublishedFileThatCannotBeReadStopsOnlyASinkThatIsNew(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"newer version": func(text []byte) []byte { text[12]++; return text },
		"cut off":       func(text []byte) []byte { return text[:len(text)/3] },
	} {
		t.Run(name, func(t *testing.T) {
			dir, j := t.TempDir(), sinktest.Sample(6)
			saw(t, dir, j, 3)
			path := published(options(dir))
			damaged := damage([]byte(content(t, path)))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damaged, 0o444); err != nil {
				t.Fatal(err)
			}
			kept := filepath.Join(dir, "kept")
			if err := os.Rename(filepath.Join(dir, "state"), kept); err != nil {
				t.Fatal(err)
			}
			checkError(t, options(dir), []string{path, "cannot be read", "move it away"})
			if content(t, path) != string(damaged) {
				t.Error("it was touched")
			}
			lose(t, dir)
			if err := os.Rename(kept, filepath.Join(dir, "state")); err != nil {
				t.Fatal(err)
			}
			saw(t, dir, j, 6)
			suite.Check(t, dir, j, 6)
		})
	}
}

var everyBlock = flag.Bool("every-block", false, "damage each of the blocks, and the spare in each way, in place of some by chance")

// TestDamagedPrivateFileIsMadeAnew from the published one and the journal, whichever of its blocks is damaged: by a
// kill, or by the disk. It is never published.
func TestDamagedPrivateFileIsMadeAnew(t *testing.T) {
	var blocks []int64
	for block := range int64(20) {
		blocks = append(blocks, block)
	}
	if !*everyBlock { // one by chance, and one that DuckDB does not read when it writes
		blocks = []int64{rand.Int64N(19), 19}
	}
	for _, block := range blocks {
		dir, j := t.TempDir(), sinktest.Sample(8)
		saw(t, dir, j, 3)
		s := open(t, dir)
		write(t, s, j, 3, 5) // is not published
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(s.options.Private, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 16<<10), headersSize+block*64<<10)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		again := sinks.Reopening("duckdb", func(ctx context.Context) (sinks.Sink, error) { return Open(ctx, options(dir)) }, nil)
		errs := []error{}
		for mark := int64(0); mark < 8; {
			if mark, err = again.Watermark(t.Context()); err == nil && mark < 8 {
				b := j.Batch(mark, mark+1)
				err = errors.Join(again.Write(t.Context(), b), again.Publish(t.Context(), nil))
				sinktest.Release(b)
			}
			if err != nil {
				errs = append(errs, err)
			}
			if len(errs) > 1 {
				t.Fatalf("block %d: %v", block, errs)
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		suite.Check(t, dir, j, 8)
	}
}
