//go:build duckdb_arrow

package duckdb

import (
	"flag"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/sinks"
	"outlierd/sinks/compare"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

var kills = flag.Int("kills", 3, "how often TestKilledWriterLosesNothing kills the writer")

// TestKilledWriterLosesNothing kills a writer of both sinks at moments drawn by chance, most of them
// while it publishes, compacts or vacuums, beside a reader that must not notice.
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
	open(t, dir).Close() // publishes tables without rows
	reader := spawn(t, "reader", dir)
	looks, went, damaged := make(chan int), 0, 0
	go func() {
		n := 0
		for reader.out.Scan() {
			n++
		}
		looks <- n
	}()
	for range times {
		p := spawn(t, "writer", dir)
		acknowledged := p.watermark(t)
		for range rand.IntN(4) {
			acknowledged = p.watermark(t)
		}
		time.Sleep(rand.N(50 * time.Millisecond)) // as long as both publications take
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.out.Scan() { // what it said before it died
			acknowledged = parseMark(t, p.out.Text())
		}
		p.Wait()
		spared, mended := checkKilled(t, dir, acknowledged)
		if spared {
			went++
		}
		if mended {
			damaged++
		}
	}
	reader.in.Close()
	n := <-looks
	if err := reader.Wait(); err != nil {
		t.Fatalf("the reader failed after %d looks: %v %s", n, err, reader.errors)
	}
	mark := sameInBoth(t, dir, j)
	suite.Check(t, dir, j, mark)
	t.Logf("%d kills, after %d of which the next publication of DuckDB wrote only what had changed and after %d its file was damaged; %d answers, %d looks",
		times, went, damaged, mark, n)
}

// checkKilled publishes what a killed writer left, and reports whether that went on from the spare file,
// and whether DuckDB's own file was damaged. Then it lacks what was not published.
func checkKilled(t *testing.T, dir string, acknowledged int64) (spared, mended bool) {
	t.Helper()
	o, told := options(dir), &strings.Builder{}
	o.Log = slog.New(slog.NewTextHandler(told, nil))
	one, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mended = strings.Contains(told.String(), "damaged DuckDB file removed")
	defer one.Close()
	other, err := parquet.Open(parquetOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, s := range []sinks.Sink{one, other} {
		mark, err := s.Watermark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if mark < acknowledged && !(mended && s == sinks.Sink(one)) {
			t.Errorf("watermark %d of %s, but %d was acknowledged", mark, s.Name(), acknowledged)
		}
	}
	if err := other.Publish(t.Context(), nil); err != nil {
		t.Error(err)
	}
	return publishes(t, one), mended
}

// sameInBoth holds what readers find in both sinks against each other, once they hold the same answers,
// and each Parquet file against its sum.
func sameInBoth(t *testing.T, dir string, j sinktest.Journal) (mark int64) {
	t.Helper()
	one := open(t, dir)
	defer one.Close()
	other, err := parquet.Open(parquetOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	both := []sinks.Sink{one, other}
	for _, s := range both {
		n, err := s.Watermark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mark = max(mark, n)
	}
	for id := range mark {
		if err := writeBoth(t.Context(), both, j, id); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := parquet.Look(t.Context(), parquetOptions(dir).Dir, "", sinktest.Tables())
	if err != nil {
		t.Fatal(err)
	}
	damaged, err := folder.Verify(t.Context())
	if err != nil || len(damaged)+len(folder.Problems) > 0 {
		t.Errorf("Parquet: %v %q %q", err, folder.Problems, damaged)
	}
	reader := compare.Open(filepath.Join(dir, "compare"))
	defer reader.Close()
	duck := compare.Source{Name: "DuckDB", File: one.options.Published}
	files := compare.Source{Name: "Parquet", Parquet: folder.Paths, Within: folder.Within}
	for _, table := range sinktest.Tables() {
		d, err := reader.Compare(t.Context(), duck, files, table)
		if err != nil {
			t.Fatal(err)
		}
		if d.Any() {
			t.Errorf("table %s: rows %s in Parquet %q", table.Name, d, d.Examples)
		}
	}
	return mark
}
