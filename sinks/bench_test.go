//go:build duckdb_arrow

package sinks_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

// BenchmarkWrite measures Write of batches of 20,000 rows, without Publish. cpu-s/10krows is the CPU
// time of all threads of the process.
func BenchmarkWrite(b *testing.B) {
	for _, sink := range []struct {
		name string
		open func(b *testing.B) (sinks.Sink, error)
	}{
		{"duckdb", openDuckDB},
		{"parquet", openParquet},
	} {
		for _, rows := range []struct {
			name  string
			batch func(lo, hi int64) sinks.Batch
			per   int64 // answers that make 20,000 rows
		}{
			{"hits", sinktest.Hits, 250},
			{"narrow", sinktest.Events, 100},
		} {
			b.Run(sink.name+"/"+rows.name, func(b *testing.B) {
				s, err := sink.open(b)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				flush(b, s, rows.batch, rows.per)
			})
		}
	}
}

func flush(b *testing.B, s sinks.Sink, batch func(lo, hi int64) sinks.Batch, per int64) {
	var spent time.Duration
	var lo, count int64
	for b.Loop() {
		b.StopTimer()
		next := batch(lo, lo+per)
		b.StartTimer()
		before := cpu(b)
		if err := s.Write(b.Context(), next); err != nil {
			b.Fatal(err)
		}
		spent += cpu(b) - before
		lo = next.Hi
		for _, part := range next.Parts {
			count += part.Rows.NumRows()
		}
		sinktest.Release(next)
	}
	b.ReportMetric(spent.Seconds()/float64(count)*10_000, "cpu-s/10krows")
}

func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func openDuckDB(b *testing.B) (sinks.Sink, error) {
	dir := b.TempDir()
	return duckdb.Open(b.Context(), duckdb.Options{
		Private: filepath.Join(dir, "warehouse.duckdb"), Published: filepath.Join(dir, "outliers.duckdb"), Temp: filepath.Join(dir, "tmp"),
		Tables: schema.Tables(), Ops: schema.OpsTables(),
	})
}

func openParquet(b *testing.B) (sinks.Sink, error) {
	return parquet.Open(parquet.Options{Dir: b.TempDir(), Tables: schema.Tables(), Ops: schema.OpsTables()})
}
