package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		cpu, calls := cpuSeconds(cmd), next.count("ops.requests")
		b.ReportMetric(cpu/rows*10_000, "cpu-s/10k-rows")
		b.ReportMetric(cpu/calls*1e6, "cpu-µs/call")
		b.ReportMetric(calls, "calls")
		b.ReportMetric(rows, "rows")
		b.ReportMetric(float64(usage.Maxrss)/1024, "peak-MB") // Linux counts in KiB
	}
}

// BenchmarkBesideScript is the CPU time of such a run as a share of what testdata/plain.py takes
// for the same calls. The two take turns, and which of them begins a round does too: on a machine
// that does other things as well, the first one looks slower. PLAIN_PYTHON names a Python that has
// requests and, as the program does, DuckDB 1.5.
func BenchmarkBesideScript(b *testing.B) {
	python := os.Getenv("PLAIN_PYTHON")
	if python == "" {
		b.Skip("PLAIN_PYTHON is not set")
	}
	script, err := filepath.Abs("testdata/plain.py")
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(videos)
	w.mustRun("run")
	var ratios []float64
	for b.Loop() {
		next := &testWorld{TB: b, dir: b.TempDir(), service: w.service, url: w.url}
		next.write(videos)
		program, out := next.command(b.Context(), "run")
		plain := exec.CommandContext(b.Context(), python, script, "plain.duckdb")
		plain.Dir, plain.Env, plain.Stdout, plain.Stderr = program.Dir, program.Env, out, out
		turns := []*exec.Cmd{program, plain}
		if len(ratios)%2 == 1 {
			slices.Reverse(turns)
		}
		for _, cmd := range turns {
			if err := cmd.Run(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
		}
		ours, theirs := cpuSeconds(program), cpuSeconds(plain)
		b.Logf("program %.2f s, script %.2f s: %.3f", ours, theirs, ours/theirs)
		ratios = append(ratios, ours/theirs)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-script-cpu")
}

// cpuSeconds is what a process that has ended took, user and system.
func cpuSeconds(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// count is the number of a table's rows.
func (w *testWorld) count(table string) (n float64) {
	w.Helper()
	w.query("select count(*) from "+table, func(values []any) { n = number(values[0]) })
	return n
}
