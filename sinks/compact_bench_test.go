//go:build duckdb_arrow

package sinks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

// BenchmarkCompact compacts 400 parts to one file per day, and compares this with DuckDB's COPY of the
// same rows. bytes is the ratio of the size of the compacted files to that of the parts. of-copy is the
// ratio of the CPU time to that of COPY.
func BenchmarkCompact(b *testing.B) {
	const batches = 400
	for _, rows := range []struct {
		name  string
		table *schema.Table
		batch func(lo, hi int64) sinks.Batch
	}{
		{"hits", schema.OutliersHistory, sinktest.Hits},
		{"narrow", schema.TranscriptEvents, sinktest.Events},
	} {
		b.Run(rows.name, func(b *testing.B) {
			var ours, theirs float64
			var before, after int64
			for b.Loop() {
				dir := b.TempDir()
				s, err := parquet.Open(parquet.Options{Dir: dir, Tables: schema.Tables()})
				if err != nil {
					b.Fatal(err)
				}
				for lo := range int64(batches) {
					next := rows.batch(lo, lo+1)
					next.Parts = slices.DeleteFunc(next.Parts, func(p schema.Part) bool { return p.Table != rows.table })
					if err := s.Write(b.Context(), next); err != nil {
						b.Fatal(err)
					}
				}
				before += size(b, dir, rows.table)
				start := cpu(b)
				copyAll(b, filepath.Join(dir, rows.table.FileName(), "*", "*.parquet"))
				copied := cpu(b)
				if err := s.Publish(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				ours, theirs = ours+(cpu(b)-copied).Seconds(), theirs+(copied-start).Seconds()
				after += size(b, dir, rows.table)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(after)/float64(before), "bytes")
			b.ReportMetric(ours/theirs, "of-copy")
		})
	}
}

// size returns the size of the published files of a table, in bytes.
func size(b *testing.B, dir string, t *schema.Table) (bytes int64) {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(dir, t.FileName(), "date=*", "*.parquet"))
	if err != nil || len(names) == 0 {
		b.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

func copyAll(b *testing.B, glob string) {
	b.Helper()
	db, err := database.Open(b.Context(), database.Options{Memory: 1 << 30, Temp: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(b.Context(), fmt.Sprintf(`COPY (FROM read_parquet(%s, union_by_name = true, hive_partitioning = false)) TO %s
		(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 122880)`,
		database.Text(glob), database.Text(filepath.Join(b.TempDir(), "all.parquet"))))
	if err != nil {
		b.Fatal(err)
	}
}
