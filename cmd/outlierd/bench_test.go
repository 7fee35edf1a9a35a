package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"outlierd/outlier/simulator"
	"outlierd/schema"
)

// videosOf is a job for each list of topics, which asks for details, comments and
// transcript of every hit of 19 pages: about 2,300 calls and 260,000 rows a job, most of
// them lines of transcripts.
func videosOf(jobs [][]string) string {
	var b strings.Builder
	b.WriteString(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs:`)
	for i, topics := range jobs {
		fmt.Fprintf(&b, `
  videos-%d:
    search:
      query: [%s]
      sort: z_score desc
      where: {type: video}
      pages: 19
    enrich: {sort: z_score desc, details: {}, comments: {}, transcript: {}}
`, i, strings.Join(topics, ", "))
	}
	return b.String()
}

// topics are searches that find different videos.
var topics = [][]string{
	{"home espresso", "moka pot", "minecraft", "sourdough", "mechanical keyboards"},
	{"chess", "home lab", "ramen", "yoga", "woodworking"},
	{"index funds", "black holes", "speedrun", "3D printing", "street food"},
	{"bouldering", "crochet", "minimalism", "Roman history", "pottery"},
}

// BenchmarkRun is the whole program, as a process of its own, against a service that
// answers at once: search, details, journal, both sinks and the published copy. The
// service is warm and runs in this process, so the figures are the program's alone:
// its CPU time per 10,000 rows of the tables, histories not counted, and its peak
// memory.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, len(topics)} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) { benchmarkRun(b, videosOf(topics[:n])) })
	}
}

func benchmarkRun(b *testing.B, jobs string) {
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(jobs)
	w.mustRun("run", "--all")
	for b.Loop() {
		next := &testWorld{TB: b, dir: b.TempDir(), service: w.service, url: w.url}
		next.write(jobs)
		cmd, out := next.command(b.Context(), "run", "--all")
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
