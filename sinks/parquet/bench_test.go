package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks/sinktest"
)

// BenchmarkPublish writes one answer into one table that only grows, and publishes it, beside
// parts of so many days in the folders of all tables.
func BenchmarkPublish(b *testing.B) {
	for _, days := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("days=%d", days), func(b *testing.B) {
			dir := b.TempDir()
			fillFolders(b, dir, days)
			s := openSink(b, dir)
			defer s.Close()
			s.sync = func(*os.File) error { return nil } // what the disk takes says nothing of the sink
			lo := int64(0)
			for b.Loop() {
				batch := sinktest.Hits(lo, lo+1)
				batch.Parts = slices.DeleteFunc(batch.Parts, func(p schema.Part) bool { return p.Table != schema.OutliersHistory })
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				if err := publishRuns(b, s, 1); err != nil {
					b.Fatal(err)
				}
				lo++
			}
		})
	}
}

// BenchmarkPublishCurrent publishes 40 hits into a current table of so many rows, which is written anew.
func BenchmarkPublishCurrent(b *testing.B) {
	for _, rows := range []int64{20_000, 200_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			s := openSink(b, b.TempDir())
			defer s.Close()
			s.sync = func(*os.File) error { return nil } // what the disk takes says nothing of the sink
			publish := func(lo, hi int64) {
				batch := sinktest.Hits(lo, hi)
				defer sinktest.Release(batch)
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				if err := publishRuns(b, s, 1); err != nil {
					b.Fatal(err)
				}
			}
			lo := rows / 40
			publish(0, lo)
			before := cpu(b)
			for b.Loop() {
				publish(lo, lo+1)
				lo++
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/float64(rows), "cpu-µs/row")
		})
	}
}

// cpu is what the process has taken so far, of all processors.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// fillFolders puts ten parts of each day into every table's folder.
func fillFolders(b *testing.B, dir string, days int) {
	b.Helper()
	openSink(b, dir).Close() // the manifest comes first: parts without it are refused
	for _, t := range sinktest.Tables() {
		for day := range days {
			folder := filepath.Join(dir, t.FileName(), "date="+fmt.Sprintf("%04d-01-01", 1000+day))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				b.Fatal(err)
			}
			for part := range int64(10) {
				id := int64(day)*10 + part
				if err := os.WriteFile(filepath.Join(folder, partOf(id, id+1)), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
