package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// videos is a search of 19 pages with details, comments and transcript of every hit. Most rows are lines of
// transcripts.
const videos = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000, confirm_over: 1000}
jobs:
  videos:
    search:
      query: [home espresso, moka pot, minecraft, sourdough, mechanical keyboards]
      sort: z_score desc
      where: {type: video}
      pages: 19
    enrich: {sort: z_score desc, details: {}, comments: {}, transcript: {}}
`

// everything searches each topic, including shorts, and requests all data of every hit.
const everything = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000, confirm_over: 1000}
jobs:
  everything:
    for_each:
      topic: [home espresso, minecraft, sourdough, home lab, yoga, woodworking]
    search: {query: "${topic}", sort: z_score desc, pages: 19}
    enrich: {sort: z_score desc, details: {}, comments: {}, transcript: {}, channel_videos: {}, channel_shorts: {}}
`

// BenchmarkRun measures the whole program, in a process of its own, with a service that answers at once: search,
// details, journal, both sinks and the published copy. The service runs in this process, so that the figures are those
// of the program: its CPU time per 10,000 rows of the tables, without histories, its peak memory, and that of a
// rebuild.
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
		peak, err := peakOf(cmd)
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		rows := 0.0
		for _, table := range schema.Tables() {
			if !strings.HasSuffix(table.Name, "_history") {
				rows += next.count(table.Name)
			}
		}
		cpu, calls := cpuSeconds(cmd), next.count("ops.requests")
		b.ReportMetric(cpu/rows*10_000, "cpu-s/10k-rows")
		b.ReportMetric(cpu/calls*1e6, "cpu-µs/call")
		b.ReportMetric(calls, "calls")
		b.ReportMetric(rows, "rows")
		b.ReportMetric(peak, "peak-MB")
		cmd, out = next.command(b.Context(), "rebuild")
		if peak, err = peakOf(cmd); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		b.ReportMetric(peak, "rebuild-peak-MB")
	}
}

// peakOf runs a process and returns its peak memory in MB. It reads the value while the process runs: the
// one that Linux returns after the end includes the memory of the parent, which is the service here.
func peakOf(cmd *exec.Cmd) (peak float64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return peak, err
		case <-tick.C:
			peak = max(peak, memory(cmd.Process.Pid, "VmHWM"))
		}
	}
}

// memory returns a value of /proc/PID/status in MB; 0 if the process has ended.
func memory(pid int, figure string) (mb float64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == figure {
			if _, err := fmt.Sscanf(value, "%f kB", &mb); err == nil {
				return mb / 1024
			}
		}
	}
	return 0
}

// BenchmarkBesideScript measures the CPU time of such a run relative to testdata/plain.py, which makes the same calls.
// The two alternate, and so does the one that starts a round: on a busy machine the first one seems slower.
// PLAIN_PYTHON is a Python with the packages requests and, as in the program, DuckDB 1.5.
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

// cpuSeconds returns the user and system time of an ended process.
func cpuSeconds(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// count returns the number of rows of a table.
func (w *testWorld) count(table string) (n float64) {
	w.Helper()
	w.query("select count(*) from "+table, func(values []any) { n = number(values[0]) })
	return n
}

// onePage buys a page and stores it in both sinks.
const onePage = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
jobs: {page: {search: {query: home espresso}}}
`

var history = flag.Int("history", 1_000_000, "how many rows the larger history of BenchmarkOnePage has")

// BenchmarkOnePage measures a run of one page, in a process of its own, with a large history in the DuckDB file and in
// the Parquet files, relative to a run with a history of 100,000 rows.
func BenchmarkOnePage(b *testing.B) {
	var cpuOfFewer, wallOfFewer float64
	for _, rows := range []int{100_000, *history} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
			w.write(onePage)
			w.mustRun("run")
			w.fillHistory(rows)
			w.mustRun("run", "--again") // publishes the added history
			var cpu, wall []float64
			for b.Loop() {
				cmd, out := w.command(b.Context(), "run", "--again")
				began := time.Now()
				if err := cmd.Run(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				wall, cpu = append(wall, time.Since(began).Seconds()), append(cpu, cpuSeconds(cmd))
			}
			slices.Sort(cpu)
			slices.Sort(wall)
			c, t := cpu[len(cpu)/2], wall[len(wall)/2]
			b.ReportMetric(c, "cpu-s/op")
			if rows == 100_000 {
				cpuOfFewer, wallOfFewer = c, t
				return
			}
			b.ReportMetric(c/cpuOfFewer, "of-fewer-cpu")
			b.ReportMetric(t/wallOfFewer, "of-fewer-wall")
		})
	}
}

// fillHistory adds sightings to the private file of the DuckDB sink, which no process may have open.
func (w *testWorld) fillHistory(rows int) {
	w.Helper()
	db, err := database.Open(w.Context(), database.Options{Memory: 2 << 30, Threads: 2, Temp: w.TempDir()})
	if err != nil {
		w.Fatal(err)
	}
	_, err = db.Exec(w.Context(), fmt.Sprintf(`ATTACH %s AS warehouse;
		INSERT INTO warehouse.main.outliers_history (video_id, title, view_count, observed_at, _response_id)
		SELECT printf('%%011x', hash(i) %% 17592186044416), 'title ' || i, i, TIMESTAMP '2026-01-01' + to_seconds(i), -i FROM range(%d) AS r(i);
		CHECKPOINT warehouse; DETACH warehouse`, database.Text(filepath.Join(w.dir, "data", "state", "warehouse.duckdb")), rows))
	if err := errors.Join(err, db.Close()); err != nil {
		w.Fatal(err)
	}
}

// newAnswers finds videos, and then has one job for each run that requests the data of 430 of them.
const newAnswers = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000, confirm_over: 1000}
jobs:
  search:
    for_each:
      topic: [home espresso, minecraft, sourdough, home lab, yoga, woodworking]
    search: {query: "${topic}", pages: 12}
`

// BenchmarkNewAnswers measures six runs that bring 1,290 new answers each: the CPU time of the last two relative to the
// first two.
func BenchmarkNewAnswers(b *testing.B) {
	const runs, perRun = 6, 430
	jobs := newAnswers
	for i := range runs {
		jobs += fmt.Sprintf("  run%d: {videos: {id: {sql: select video_id from outliers order by video_id limit %d offset %d}, "+
			"fetch: [details, comments, transcript]}}\n", i, perRun, i*perRun)
	}
	var ratios []float64
	for b.Loop() {
		w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
		w.write(jobs)
		w.mustRun("run", "search")
		var each []float64
		for i := range runs {
			cmd, out := w.command(b.Context(), "run", fmt.Sprintf("run%d", i))
			if err := cmd.Run(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			each = append(each, cpuSeconds(cmd))
		}
		if n := w.count("ops.requests"); n < runs*perRun*3 {
			b.Fatalf("%v requests", n)
		}
		b.Logf("CPU of each run: %.2f s", each)
		ratios = append(ratios, (each[4]+each[5])/(each[0]+each[1]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "last/first")
}

// BenchmarkIdle measures the memory of an idle daemon, without the pages of its program file, which the
// system may drop.
func BenchmarkIdle(b *testing.B) {
	const settled = 10 * time.Second // until it has started completely
	w := newWorld(b, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	w.write(strings.ReplaceAll(onePage, "{search:", "{schedule: 0 0 1 1 *, search:"))
	w.mustRun("run")
	for b.Loop() {
		cmd, out := w.command(b.Context(), "up")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		w.answers()
		time.Sleep(settled)
		b.ReportMetric(memory(cmd.Process.Pid, "RssAnon"), "MB")
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}
