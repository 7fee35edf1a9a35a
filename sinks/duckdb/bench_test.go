package duckdb_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"outlierd/sinks/sinktest"
)

// BenchmarkRuns writes six runs of 1,300 answers, each about another video, and publishes each of them three times. The
// last two should cost little more than the first two: then cost follows the change and not the size.
func BenchmarkRuns(b *testing.B) {
	const answers, batch, runs = 1300, 130, 6
	for b.Loop() {
		dir := b.TempDir()
		l := openWhole(b, dir)
		l.Publish(b)
		var spent [runs]time.Duration
		for lo := int64(0); lo < answers*runs; lo += batch {
			rows := sinktest.Warehouse(lo, lo+batch)
			began := cpu(b)
			if err := l.Warehouse.Write(b.Context(), rows); err != nil {
				b.Fatal(err)
			}
			if rows.Hi%answers%(4*batch) == 0 {
				if err := l.Copy.Publish(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			spent[lo/answers] += cpu(b) - began
			sinktest.Release(rows)
		}
		for i, each := range spent {
			b.ReportMetric(each.Seconds(), fmt.Sprintf("cpu-s/run%d", i+1))
		}
		b.ReportMetric(float64(spent[4]+spent[5])/float64(spent[0]+spent[1]), "last/first")
		info, err := os.Stat(published(dir))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size()>>20), "file-MB")
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
