package duckdb_test

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/internal/testenv"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

var (
	kills      = flag.Int("kills", 3, "how often TestKilledWriterLosesNothing kills the writer")
	everyBlock = flag.Bool("every-block", false, "damage each of the blocks in place of some by chance")
)

// TestKilledWriterLosesNothing kills a writer at moments drawn by chance, most of them while it publishes, vacuums or
// rebuilds, beside a reader that sees whole batches and never an older one.
func TestKilledWriterLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("a process that ends races little; the ordinary run kills some")
	}
	for left := *kills; left > 0; left -= 50 {
		killWriter(t, min(left, 50))
	}
}

func killWriter(t *testing.T, times int) {
	dir, j := t.TempDir(), sinktest.Sample(journalLength)
	l := open(t, dir)
	l.Publish(t) // tables without rows
	if err := folderOf(l.Warehouse, dir).Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Close(t)
	reader := spawn(t, "reader", dir)
	looks, damaged := make(chan int), 0
	go func() {
		n := 0
		for reader.out.Scan() {
			n++
		}
		looks <- n
	}()
	random := testenv.Random(t)
	for range times {
		p := spawn(t, "writer", dir)
		acknowledged := p.watermark(t)
		for range random.IntN(4) {
			acknowledged = p.watermark(t)
		}
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond)))) // as long as what follows takes
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.out.Scan() { // what it said before it died
			acknowledged = parseMark(t, p.out.Text())
		}
		p.Wait()
		if checkKilled(t, dir, acknowledged) {
			damaged++
		}
	}
	reader.in.Close()
	n := <-looks
	if err := reader.Wait(); err != nil || n == 0 {
		t.Fatalf("the reader failed after %d looks: %v %s", n, err, reader.errors)
	}
	l = open(t, dir)
	mark := l.Marks(t).Answers
	l.Publish(t)
	l.Check(t, j, mark)
	if err := folderOf(l.Warehouse, dir).Publish(t.Context()); err != nil {
		t.Error(err)
	}
	l.Close(t)
	checkData(t, dir)
	t.Logf("%d kills, after %d of which the warehouse was damaged; %d answers, %d looks", times, damaged, mark, n)
}

// checkData does what 'outlierd check --read-data' does: it compares both copies with the warehouse, and all blocks and
// files with their checksums.
func checkData(t *testing.T, dir string) {
	t.Helper()
	folder, err := parquet.Look(t.Context(), filepath.Join(dir, "parquet"), "", slices.Concat(sinktest.Tables(), sinktest.Ops()))
	if err != nil {
		t.Fatal(err)
	}
	damaged, err := folder.Verify(t.Context())
	if problems := slices.Concat(damaged, folder.Problems, folder.Foreign); err != nil || len(problems) > 0 {
		t.Errorf("%q, %v", problems, err)
	}
	want := compare.Source{Name: "warehouse", File: private(dir)}
	copies := []compare.Source{{Name: "file", File: published(dir)}, {Name: "folder", Parquet: folder.Paths}}
	for _, path := range []string{private(dir), published(dir)} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(database.Verify(file), file.Close()); err != nil {
			t.Error(err)
		}
	}
	reader := compare.Open(t.TempDir())
	defer reader.Close()
	for _, have := range copies {
		for _, table := range sinktest.Tables() {
			d, err := reader.Compare(t.Context(), want, have, table)
			if err != nil || d.Any() {
				t.Errorf("%s, table %s: %v, %v", have.Name, table.Name, d, err)
			}
		}
		for _, table := range sinktest.Ops() {
			d, err := reader.Compare(t.Context(), want, have, table)
			if err != nil || d.Any() {
				t.Errorf("%s, table %s: %v, %v", have.Name, table.Name, d, err)
			}
		}
	}
}

// checkKilled looks at what a killed writer left, and reports whether its file was damaged. It is then empty.
func checkKilled(t *testing.T, dir string, acknowledged int64) (damaged bool) {
	t.Helper()
	o, told := sinktest.Options(dir), &strings.Builder{}
	o.Log = slog.New(slog.NewTextHandler(told, nil))
	l := sinktest.Open(openCopy).With(t, dir, o)
	defer l.Close(t)
	mark := l.Marks(t).Answers
	damaged = strings.Contains(told.String(), "damaged warehouse removed")
	if mark < acknowledged && !damaged {
		t.Errorf("watermark %d, but %d was acknowledged", mark, acknowledged)
	}
	return damaged
}

// beStarved writes and publishes while the disk is full: no file may grow beyond a limit.
func beStarved(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	w, c, _ := lineOf(dir)
	j := sinktest.Sample(6)
	if err := errors.Join(writeNext(w, j, 0, 3), c.Publish(ctx)); err != nil {
		return err
	}
	for _, do := range []func() error{
		func() error { return writeNext(w, j, 3, 6) },
		func() error { return c.Publish(ctx) },
	} {
		if err := limitFiles(4096); err != nil {
			return err
		}
		failed := do()
		if err := limitFiles(unix.RLIM_INFINITY); err != nil {
			return err
		}
		if failed == nil {
			return errors.New("it did not fail on a full disk: the test shows nothing")
		}
		if _, err := os.Stat(published(dir) + ".new"); !os.IsNotExist(err) {
			return fmt.Errorf("half a copy is left: %v", err)
		}
		if shown, err := duckdb.New(w, published(dir), dir).Shows(ctx); err != nil || shown.Answers != 3 {
			return fmt.Errorf("readers find %+v, %v", shown, err)
		}
		say(failed)
		if err := do(); err != nil {
			return fmt.Errorf("with space again: %w", err)
		}
	}
	return w.Close()
}

func limitFiles(size uint64) error {
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY})
}

func TestFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, "starved", dir)
	for p.out.Scan() {
		t.Log(p.out.Text())
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v %s", err, p.errors)
	}
	open(t, dir).Check(t, sinktest.Sample(6), 6)
}
