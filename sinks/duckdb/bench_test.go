//go:build duckdb_arrow

package duckdb

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/schema"
	"outlierd/sinks/sinktest"
)

// BenchmarkOpen opens and closes a sink that is in order, and beside it asks the
// published file alone, which is part of opening.
func BenchmarkOpen(b *testing.B) {
	o := whole(b.TempDir())
	s, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	batch := sinktest.Hits(0, 250)
	defer sinktest.Release(batch)
	if err := s.Write(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	if err := s.Publish(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("asking", func(b *testing.B) {
		s, err := Open(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if err := s.compare(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var many = flag.Int("rows", 1_000_000, "how many rows the larger tables of BenchmarkFlush have")

// BenchmarkFlush writes 40 rows into a history, and 4,000 rows over a current table, beside the
// same with a hundred thousand rows there already. cpu-ms/op counts all threads; of-fewer is the
// CPU time as a multiple of that beside the fewer rows.
func BenchmarkFlush(b *testing.B) {
	for _, c := range []struct {
		name, fill string
		table      *schema.Table
		answers    int64 // of 40 rows, in a batch
	}{
		{"history", `INSERT INTO warehouse.main.outliers_history (video_id, title, view_count, observed_at, _response_id)
			SELECT printf('%%011x', hash(i) %% 17592186044416), 'title ' || i, i, TIMESTAMP '2026-01-01' + to_seconds(i), i // 40 FROM range(%d) AS r(i)`,
			schema.OutliersHistory, 1},
		{"current", `INSERT INTO warehouse.main.outliers (video_id, title, view_count, first_seen_at, last_seen_at, times_seen)
			SELECT printf('%%011x', hash(i) %% 17592186044416), 'title ' || i, i, TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-01', 1 FROM range(%d) AS r(i)`,
			schema.Outliers, 100},
	} {
		var fewer time.Duration
		for _, rows := range []int{100_000, *many} {
			b.Run(fmt.Sprintf("%s/rows=%d", c.name, rows), func(b *testing.B) {
				s, err := Open(b.Context(), whole(b.TempDir()))
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				in, err := s.instance(b.Context())
				if err == nil {
					_, err = in.db.Exec(b.Context(), fmt.Sprintf(c.fill, rows)+"; CHECKPOINT warehouse")
				}
				if err != nil {
					b.Fatal(err)
				}
				lo, spent := int64(0), time.Duration(0)
				flush := func() {
					batch := sinktest.Hits(lo, lo+c.answers)
					batch.Parts = slices.DeleteFunc(batch.Parts, func(p schema.Part) bool { return p.Table != c.table })
					defer sinktest.Release(batch)
					lo = batch.Hi
					began := cpu(b)
					if err := s.Write(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					spent += cpu(b) - began
				}
				flush() // opens what the later ones find open
				spent = 0
				for b.Loop() {
					flush()
				}
				each := spent / time.Duration(b.N)
				if rows == 100_000 {
					fewer = each
				} else if fewer > 0 {
					b.ReportMetric(float64(each)/float64(fewer), "of-fewer")
				}
				b.ReportMetric(each.Seconds()*1000, "cpu-ms/op")
			})
		}
	}
}

var largest = flag.Int64("largest", 500, "MB of the largest file that BenchmarkPublish publishes")

// BenchmarkPublish shows one more answer of 40 hits in files of some sizes. A publication writes
// what has changed, so its cost hardly follows the size of the file. written is what the process
// hands to the file system; cpu is the processor time of all threads.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int64{50, *largest} {
		b.Run(fmt.Sprintf("MB=%d", size), func(b *testing.B) {
			s, err := Open(b.Context(), whole(b.TempDir()))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			fillFile(b, s, size<<20)
			lo := int64(0)
			next := func() {
				batch := sinktest.Hits(lo, lo+1)
				defer sinktest.Release(batch)
				lo = batch.Hi
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			for range 2 { // whole copies, until there is a spare file
				next()
				if err := s.Publish(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
			}
			before, copied, spent := lo, int64(0), time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				next()
				from, began := written(b), cpu(b)
				b.StartTimer()
				if err := s.Publish(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				copied += written(b) - from
				spent += cpu(b) - began
				b.StartTimer()
			}
			info, err := os.Stat(s.options.Published)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size())/(1<<20), "file-MB")
			b.ReportMetric(float64(copied)/(1<<20)/float64(lo-before), "written-MB/op")
			b.ReportMetric(float64(spent.Milliseconds())/float64(lo-before), "cpu-ms/op")
		})
	}
}

// rowBytes is about what a row of fillFile takes, and a hit.
const rowBytes = 300

// fillFile makes the private file at least so many bytes large.
func fillFile(b *testing.B, s *Sink, size int64) {
	b.Helper()
	for {
		info, err := os.Stat(s.options.Private)
		if err != nil {
			b.Fatal(err)
		}
		if info.Size() >= size {
			return
		}
		rows := min((size-info.Size())/rowBytes, 2_000_000) + 10_000
		in, err := s.instance(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		_, err = in.db.Exec(b.Context(), fmt.Sprintf(`SET memory_limit = '2GB'; INSERT INTO warehouse.main.outliers_history (video_id, title)
			SELECT md5(random()::VARCHAR), %s FROM range(%d)`, strings.Repeat("md5(random()::VARCHAR) || ", 8)+"''", rows))
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(in.detach(b.Context()), s.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// written is how many bytes this process has written so far.
func written(b *testing.B) (n int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("only Linux counts what a process writes")
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	b.Fatalf("no wchar in /proc/self/io: %s", text)
	return 0
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
