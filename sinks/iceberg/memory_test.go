//go:build iceberg

package iceberg

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/sinktest"
)

var currentRows = flag.Int64("current-rows", 20_000, "rows of each table of TestReplacingRowsStaysWithinMemoryLimits")

// replaceVariable is the environment variable that makes this binary replace rows of a lake. Its value is the
// folder.
const replaceVariable = "OUTLIERD_LAKE_REPLACING"

// TestReplacingRowsStaysWithinMemoryLimits replaces rows of a current table and of an operations table, and
// has their files merged, in a process of its own. The index of the rows is in memory: docs/lake.md has the
// peak with a million rows in each table.
func TestReplacingRowsStaysWithinMemoryLimits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak is read from /proc")
	}
	if testing.Short() {
		t.Skip("it is about a program without the race detector, which takes memory of its own")
	}
	dir := t.TempDir()
	s, err := openLarge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := *currentRows
	const step = 10_000
	for at := int64(0); at < rows; at += step {
		b := sinktest.Hits(at/40, (at+step)/40)
		all := b.Parts
		b.Parts = b.Parts[:1]
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sinktest.Release(sinks.Batch{Parts: all})
		if err := s.Publish(t.Context(), requests(at, at, at+step)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), replaceVariable+"="+strconv.FormatInt(rows, 10)+" "+dir)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d rows in each table, %v, CPU %v:\n%s", rows, time.Since(began).Round(time.Second/10),
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(time.Second/10), out)
	for line := range strings.Lines(string(out)) {
		var peak int64
		if _, err := fmt.Sscanf(line[strings.LastIndexByte(line, ':')+1:], "%d MB", &peak); err != nil {
			t.Fatal(err)
		}
		if most := 160 + rows/10_000; peak > most {
			t.Errorf("got a peak of %d MB, want at most %d", peak, most)
		}
	}
}

func openLarge(ctx context.Context, dir string) (*Sink, error) {
	o := options(dir, "a")
	o.Tables, o.Ops = []*schema.Table{schema.Outliers}, []*schema.Table{schema.OpsRequests}
	return Open(ctx, o)
}

// requests are the changed rows (lo, hi] of ops.requests after a version.
func requests(since, lo, hi int64) *sinks.Ops {
	return &sinks.Ops{Since: since, Version: max(hi, since+1), Batches: func(yield func(sinks.OpsBatch, error) bool) {
		var rows []sinktest.Row
		for id := lo + 1; id <= hi; id++ {
			rows = append(rows, sinktest.Row{"id": id, "run_id": "0199a3c2-7b1e-7d3a-9c55-0123456789ab", "job": "food",
				"operation": "details", "entity": fmt.Sprintf("%011x", id*2_654_435_761%(1<<44)), "attempt": int64(1),
				"sent_at": time.Unix(id, 0).UTC(), "http_status": int64(200), "outcome": "refunded", "bytes": id % 9000})
		}
		part := schema.Part{Table: schema.OpsRequests, Rows: sinktest.Record(schema.OpsRequests.Schema(), rows)}
		defer part.Release()
		yield(sinks.OpsBatch{Parts: []schema.Part{part}, Last: true}, nil)
	}}
}

// replaceRows is the process of the test. rows is the number that each table has.
func replaceRows(rows, dir string) {
	n, err := strconv.ParseInt(rows, 10, 64)
	if err == nil {
		err = replaceSome(n, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// replaceSome replaces a few rows of each table, with Go's memory limits of the program, and merges their
// files. It prints the peak memory of this process after each.
func replaceSome(rows int64, dir string) (err error) {
	debug.SetMemoryLimit(48 << 20)
	debug.SetGCPercent(400)
	ctx := context.Background()
	s, err := openLarge(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := printPeak("opened"); err != nil {
		return err
	}
	for i := range int64(3) {
		b := seenAgain(i*250, rows/40+i+1)
		if err := s.Write(ctx, b); err != nil {
			return err
		}
		if err := s.Publish(ctx, requests(rows+i, 5*i, 5*i+5)); err != nil {
			return err
		}
	}
	if err := printPeak("some rows replaced"); err != nil {
		return err
	}
	for _, l := range s.tables {
		if err := l.merge(ctx, l.own.inOrder(l.orderID()), l.own.deleteFiles()); err != nil {
			return err
		}
	}
	if err := printPeak("files merged"); err != nil {
		return err
	}
	if err := s.Publish(ctx, requests(rows+3, 100, 200)); err != nil {
		return err
	}
	return printPeak("replaced again")
}

// seenAgain returns answer to with the hits of answer from+1.
func seenAgain(from, to int64) sinks.Batch {
	of := sinktest.Hits(from, from+1).Parts[0]
	columns, ids := slices.Clone(of.Rows.Columns()), array.NewInt64Builder(memory.DefaultAllocator)
	for range of.Rows.NumRows() {
		ids.Append(to)
	}
	columns[of.Rows.Schema().FieldIndices(sinks.ResponseID)[0]] = ids.NewArray()
	of.Rows = array.NewRecordBatch(of.Rows.Schema(), columns, of.Rows.NumRows())
	return sinks.Batch{Lo: to - 1, Hi: to, Parts: []schema.Part{of}}
}

func printPeak(what string) error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			fmt.Printf("%s: %d MB\n", what, kib>>10)
			return nil
		}
	}
	return errors.New("/proc/self/status does not name the peak")
}
