//go:build iceberg

package iceberg

import (
	"flag"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

var snapshots = flag.Int("snapshots", 500, "how many snapshots the tables have before the last measurement of BenchmarkCommit")

// BenchmarkCommit measures Write and Publish of a batch of 40 hits, after few and after many such
// batches. The lake is in a folder and has a SQLite catalog. Maintenance is included. Snapshots beyond 500
// are those of another writer, which are made quickly.
func BenchmarkCommit(b *testing.B) {
	dir := b.TempDir()
	o := options(dir, "a")
	o.Tables, o.Ops = schema.Tables(), schema.OpsTables()
	s, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	at := int64(0)
	next := func(b *testing.B) {
		hits := sinktest.Hits(at, at+1)
		if err := s.Write(b.Context(), hits); err != nil {
			b.Fatal(err)
		}
		sinktest.Release(hits)
		if err := s.Publish(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		at++
	}
	for _, n := range []int{10, *snapshots} {
		for at < min(int64(n), 500) {
			next(b)
		}
		if missing := n - int(at); missing > 0 {
			addSnapshots(b, s.tables[schema.Outliers], missing)
			addSnapshots(b, s.tables[schema.Outliers.History], missing)
			next(b) // reads the other writer's manifests
		}
		b.Run(fmt.Sprintf("snapshots=%d", n), func(b *testing.B) {
			before := cpu(b)
			for b.Loop() {
				next(b)
			}
			b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N)*1e3, "cpu-ms/op")
		})
	}
}

// addSnapshots adds n snapshots to a table, each with a file of another writer that nothing reads. A hundred
// share one commit.
func addSnapshots(b *testing.B, l *lakeTable, n int) {
	for n > 0 {
		batch := min(n, 100)
		err := l.commit(b.Context(), func(tx *table.Transaction) (iceberg.Properties, error) {
			for i := range batch {
				values, logical := map[int]any{}, map[int]string{}
				for _, f := range l.spec.Fields() {
					if f.Name == instancePartition {
						values[f.FieldID] = "another"
						continue
					}
					values[f.FieldID], logical[f.FieldID] = dayOfTime(time.Now()), "date"
				}
				file, err := iceberg.NewDataFileBuilder(l.spec, iceberg.EntryContentData,
					fmt.Sprintf("%s/data/another-%d-%d.parquet", l.table.Location(), n, i), iceberg.ParquetFile, values, logical, nil, 40, 10_000)
				if err != nil {
					return nil, err
				}
				if err := tx.AddDataFiles(b.Context(), []iceberg.DataFile{file.Build()}, nil,
					table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping()); err != nil {
					return nil, err
				}
			}
			return iceberg.Properties{}, nil
		})
		if err != nil {
			b.Fatal(err)
		}
		n -= batch
	}
}

// BenchmarkWrite measures Write of batches of 250 pages of 40 hits. cpu-s/10khits is the CPU time of
// all threads of the process, and of-parquet its ratio to the CPU time of the Parquet sink.
func BenchmarkWrite(b *testing.B) {
	const pages = 250
	dir := b.TempDir()
	o := options(dir, "a")
	o.Tables, o.Ops = schema.Tables(), schema.OpsTables()
	lake, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer lake.Close()
	files, err := parquet.Open(parquet.Options{Dir: filepath.Join(dir, "parquet"), Tables: o.Tables, Ops: o.Ops})
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	var ours, theirs time.Duration
	for at := int64(0); b.Loop(); at += pages {
		b.StopTimer()
		hits := sinktest.Hits(at, at+pages)
		b.StartTimer()
		before := cpu(b)
		if err := lake.Write(b.Context(), hits); err != nil {
			b.Fatal(err)
		}
		ours += cpu(b) - before
		before = cpu(b)
		if err := files.Write(b.Context(), hits); err != nil {
			b.Fatal(err)
		}
		theirs += cpu(b) - before
		sinktest.Release(hits)
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "cpu-s/10khits")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "of-parquet")
}

func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
