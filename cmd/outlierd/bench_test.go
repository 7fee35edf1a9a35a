package main

import (
	"strings"
	"syscall"
	"testing"

	"outlierd/outlier/simulator"
	"outlierd/schema"
)

// videos asks for details, comments and transcript of every hit of a search of 19 pages.
// Most rows are lines of transcripts.
const videos = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs:
  videos:
    search:
      query: [home espresso, moka pot, minecraft, sourdough, mechanical keyboards]
      sort: z_score desc
      where: {type: video}
      pages: 19
    enrich: {sort: z_score desc, details: {}, comments: {}, transcript: {}}
`

// everything makes a search of each topic, shorts included, and asks for all there is of
// every hit.
const everything = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs:
  everything:
    for_each:
      topic: [home espresso, minecraft, sourdough, home lab, yoga, woodworking]
    search: {query: "${topic}", sort: z_score desc, pages: 19}
    enrich: {sort: z_score desc, details: {}, comments: {}, transcript: {}, channel_videos: {}, channel_shorts: {}}
`

// BenchmarkRun is the whole program, as a process of its own, against a service that
// answers at once: search, details, journal, both sinks and the published copy. The
// service is warm and runs in this process, so the figures are the program's alone:
// its CPU time per 10,000 rows of the tables, histories not counted, and its peak
// memory.
func BenchmarkRun(b *testing.B) {
	b.Run("calls=2300", func(b *testing.B) { benchmarkRun(b, videos) })
	b.Run("calls=8000", func(b *testing.B) { benchmarkRun(b, everything) })
}

func benchmarkRun(b *testing.B, jobs string) {
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(jobs)
	w.mustRun("run")
	for b.Loop() {
		next := &testWorld{TB: b, dir: b.TempDir(), service: w.service, url: w.url}
		next.write(jobs)
		cmd, out := next.command(b.Context(), "run")
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		rows := 0.0
		for _, table := range schema.Tables() {
			if !strings.HasSuffix(table.Name, "_history") {
				rows += next.count(table.Name)
			}
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu, calls := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), next.count("ops.requests")
		b.ReportMetric(cpu/rows*10_000, "cpu-s/10k-rows")
		b.ReportMetric(cpu/calls*1e6, "cpu-µs/call")
		b.ReportMetric(calls, "calls")
		b.ReportMetric(rows, "rows")
		b.ReportMetric(float64(usage.Maxrss)/1024, "peak-MB") // Linux counts in KiB
	}
}

// count is the number of a table's rows.
func (w *testWorld) count(table string) (n float64) {
	w.Helper()
	w.query("select count(*) from "+table, func(values []any) { n = number(values[0]) })
	return n
}
