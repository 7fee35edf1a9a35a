package engine

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sinks/warehouse"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// BenchmarkPublishOperations publishes the operations tables after a run of one page, with a state of a
// million attempts. It also reports the time of a publication without changes of these tables, because
// the copy for DuckDB's readers costs in proportion to the data, and the time of the first publication,
// of all rows.
func BenchmarkPublishOperations(b *testing.B) {
	for _, kind := range []string{"duckdb", "parquet"} {
		b.Run(kind, func(b *testing.B) {
			dir := b.TempDir()
			folder := filepath.Join(dir, "state")
			statetest.LargeOf(b, folder, 1_000_000, 0, func(dir string) error {
				s, err := state.Open(b.Context(), dir, state.Options{Service: "sim://"})
				if err != nil {
					return err
				}
				return s.Close()
			})
			store, err := state.Open(b.Context(), folder, state.Options{Service: "sim://"})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			rows, line := openForBenchmark(b, kind, dir)
			defer rows.Close()
			l, err := load.New(b.Context(), store, line, slog.New(slog.DiscardHandler), func() {})
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			publishOnce(b, l)
			first := time.Since(began)
			e := benchmarkEngine(b, store)
			var bare, cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				if bare += publishWithoutNews(b, line); b.Failed() {
					return
				}
				if row, err := e.Perform(b.Context(), &Order{Spec: &e.Config.Jobs[0], Trigger: Manual, Afresh: true}); err != nil || row.Pages != 1 {
					b.Fatal(row, err)
				}
				before := processorTime(b)
				b.StartTimer()
				publishOnce(b, l)
				b.StopTimer()
				cpu += processorTime(b) - before
				b.StartTimer()
			}
			b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(bare.Seconds()*1000/float64(b.N), "ms-without-news")
			b.ReportMetric(first.Seconds(), "first-s")
			b.ReportMetric(peak(b), "peak-MB")
		})
	}
}

func publishOnce(b *testing.B, l *load.Loader) {
	b.Helper()
	if err := l.Publish(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := l.Problems(); err != nil {
		b.Fatal(err)
	}
}

// publishWithoutNews publishes an answer without rows.
func publishWithoutNews(b *testing.B, line load.Line) time.Duration {
	b.Helper()
	has, err := line.Warehouse.Marks(b.Context())
	if err == nil {
		err = line.Warehouse.Write(b.Context(), sinks.Batch{Lo: has.Answers, Hi: has.Answers + 1})
	}
	began := time.Now()
	if err == nil {
		err = line.Copies[0].Publish(b.Context())
	}
	if err != nil {
		b.Error(err)
	}
	return time.Since(began)
}

// openForBenchmark opens a warehouse with a copy of the given kind.
func openForBenchmark(b *testing.B, kind, dir string) (*warehouse.Warehouse, load.Line) {
	b.Helper()
	rows := warehouse.New(warehouse.Options{
		Path: filepath.Join(dir, "warehouse.duckdb"), Temp: filepath.Join(dir, "tmp"),
		Tables: schema.AllTables(),
	})
	if kind == "duckdb" {
		return rows, load.Line{Warehouse: rows, Copies: []sinks.Copy{duckdb.New(rows, filepath.Join(dir, "outliers.duckdb"), filepath.Join(dir, "tmp"))}}
	}
	files := parquet.New(rows, parquet.Options{Dir: filepath.Join(dir, "parquet")})
	return rows, load.Line{Warehouse: rows, Copies: []sinks.Copy{files}}
}

func benchmarkEngine(b *testing.B, store *state.Store) *Engine {
	b.Helper()
	const file = `
version: 1
service: {url: "sim://", limit: 100000/min}
jobs:
  one: {search: {query: [home espresso]}}
`
	config, err := job.Parse(filepath.Join(b.TempDir(), "jobs.yaml"), []byte(file), func(string) (string, bool) { return "", false })
	if err != nil {
		b.Fatal(err)
	}
	service := simulator.New(simulator.Options{Seed: 1, Key: testKey, Limit: 100_000, Window: time.Minute})
	limiter, err := pace.Open(config.Service.Limit, pace.Options{Path: filepath.Join(b.TempDir(), "pace.json")})
	if err != nil {
		b.Fatal(err)
	}
	key, err := outlier.NewKey(testKey)
	if err != nil {
		b.Fatal(err)
	}
	return &Engine{
		Config: config, Store: store, Pace: limiter,
		IDs:    func(context.Context, string, string) ([]string, error) { return nil, nil },
		Client: &outlier.Client{URL: "http://localhost", Key: key, Pacer: limiter, Transport: service.Transport()},
	}
}

// processorTime returns the CPU time of the process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the maximum memory of the process so far, in megabytes.
func peak(b *testing.B) float64 {
	b.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			for _, c := range strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")) {
				kb = 10*kb + float64(c-'0')
			}
			return kb / 1024
		}
	}
	return 0
}
