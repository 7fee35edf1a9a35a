package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/outlier/simulator/library"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

var stops = flag.Int("stops", 0, "how often a daemon is stopped, by SIGTERM and as often by SIGKILL; 0 means a sample")

// stoppedJobs are six jobs, five of them with a schedule. The minutes of the file last a second. The service's clock
// is frozen, so that each run of a job has the same answers.
const stoppedJobs = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000000}
defaults: {catch_up: all, reuse_for: 1m}
jobs:
  news:
    every: 2m
    search: {query: [home espresso], sort: z_score desc, pages: 2}
    enrich: {details: {top: 2}, comments: {top: 2}, transcript: {top: 1}}
  kin: {after: news, related: {title: the best moka pot, refresh_after: 1m}}
  topics:
    every: 3m
    for_each: {topic: [moka pot, latte art]}
    search: {query: "${topic}"}
    enrich: {channel_videos: {top: 1}}
  people: {every: 3m, find_channels: {query: espresso, pages: 2}}
  formats: {every: 3m, trending_formats: {niche: coffee}}
  rivals: {every: 3m, channels: {id: [%s]}}
`

// stoppedEvery has the periods of the jobs with a schedule.
var stoppedEvery = map[string]time.Duration{
	"news": 2 * time.Second, "topics": 3 * time.Second, "people": 3 * time.Second, "formats": 3 * time.Second, "rivals": 3 * time.Second,
}

// maxStop is how long a daemon may take to stop.
const maxStop = 25 * time.Second

// TestStoppedDaemonLosesNothing and buys nothing twice: after stops at random moments, with SIGTERM and with
// SIGKILL, its tables have the rows of runs that were not stopped, each due time has one run, and the ledger
// has a second charge as an answer that was lost.
func TestStoppedDaemonLosesNothing(t *testing.T) {
	t.Parallel() // it runs processes of its own
	each := *stops
	if each == 0 {
		if testing.Short() {
			t.Skip("lasts ten seconds")
		}
		each = 1
	}
	random := testenv.Random(t)
	calm, stopped := newWorldApart(t), newWorldApart(t)
	jobs := fmt.Sprintf(stoppedJobs, strings.Join(someChannels(), ", "))
	calm.write(jobs + programtest.DuckDBAlone)
	stopped.write(jobs)
	began := time.Now()
	var known time.Time // when a daemon had logged the schedule of the jobs, or the last one starts
	var longest time.Duration
	for _, i := range random.Perm(2 * each) {
		d := stopped.up()
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		if i < each {
			d.kill()
		} else {
			longest = max(longest, d.stop())
		}
		if known.IsZero() && strings.Contains(d.log.String(), "job scheduled") {
			known = time.Now()
		}
	}
	if known.IsZero() {
		known = time.Now()
	}
	last := stopped.up() // until each job has come due
	time.Sleep(time.Until(known.Add(stoppedEvery["rivals"] + time.Second)))
	for until := time.Now().Add(3 * time.Minute); !stopped.caughtUp() && time.Now().Before(until); {
		time.Sleep(500 * time.Millisecond)
	}
	longest = max(longest, last.stop())
	ended := time.Now()
	stopped.runDue() // on a slow machine, due times were missed
	stopped.drain()
	calm.mustRun("run", "--all") // each run of a job has the same answers, so that one is enough
	if t.Failed() {
		return
	}
	t.Logf("stopped %d times by each signal within %s; the longest stop took %s",
		each, ended.Sub(began).Round(time.Second), longest.Round(time.Millisecond))

	stopped.sameInBothSinks()
	stopped.sameContent(calm)
	stopped.sameCounts(calm)
	stopped.oneRunEach(known, ended)
	stopped.boughtOnce()
}

// newWorldApart returns a world whose service is a process of its own. Its clock is frozen, and it has no cache, so
// that its books show every repeated purchase.
func newWorldApart(t *testing.T) *testWorld {
	w := &testWorld{TB: t, dir: t.TempDir()}
	cmd, _ := w.command(t.Context(), "simulate", "--listen", "127.0.0.1:0", "--limit", "1000000/min", "--freeze", "--cached-for", "0s")
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the context of the test has ended it
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanf(stdout, "simulating the service at %s\n", &w.url); err != nil {
		t.Fatalf("read the address of the simulator: %v", err)
	}
	return w
}

// books returns the books of the service, also if it is another process.
func (w *testWorld) books() (b simulator.Books) {
	w.Helper()
	if w.service != nil {
		return w.service.Books()
	}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.url+"/_simulator/books", nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Api-Key demo")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&b); err != nil || answer.StatusCode != http.StatusOK {
		w.Fatalf("the service's books: HTTP %d, %v", answer.StatusCode, err)
	}
	return b
}

// someChannels returns ids of channels in the simulator.
func someChannels() (ids []string) {
	for _, c := range library.Open(1).Channels {
		if !c.Gone && len(ids) < 4 {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// upProcess is `up` as a process of its own.
type upProcess struct {
	*testWorld
	cmd *exec.Cmd
	log *playLog
}

// up starts `up`, with additional variables, and does not wait for it to be ready.
func (w *testWorld) up(variables ...string) *upProcess {
	w.Helper()
	log := &playLog{began: time.Now()}
	d := w.upWithOutput(log, []string{"up"}, variables...)
	d.log = log
	return d
}

// upWithOutput is up with its output written to out, so that the log of the result is empty.
func (w *testWorld) upWithOutput(out io.Writer, args []string, variables ...string) *upProcess {
	w.Helper()
	d := &upProcess{testWorld: w, log: &playLog{began: time.Now()}}
	d.cmd, _ = w.command(w.Context(), args...)
	d.cmd.Env = append(append(d.cmd.Env, programtest.ShortMinutes+"=1"), variables...)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	if err := d.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return d
}

func (d *upProcess) kill() {
	d.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.Fatalf("up has ended before it was killed (%v): %s", err, d.log)
	}
	_ = d.cmd.Wait() // the error says that it was killed
}

// stop stops the daemon with SIGTERM, and returns how long that took.
func (d *upProcess) stop() time.Duration {
	d.Helper()
	asked := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.Fatalf("up has ended before it was stopped (%v): %s", err, d.log)
	}
	overdue := time.AfterFunc(maxStop, func() { _ = d.cmd.Process.Kill() })
	defer overdue.Stop()
	err := d.cmd.Wait()
	took := time.Since(asked)
	// Before the program handles signals, SIGTERM ends it with an error.
	if err != nil && (took > maxStop || d.log.String() != "") {
		d.Errorf("up ended with %v, %s after SIGTERM: %s", err, took, d.log.last())
	}
	return took
}

// runDue runs what is due after the daemon was stopped.
func (w *testWorld) runDue() {
	w.Helper()
	cmd, out := w.command(w.Context(), "run", "--due")
	cmd.Env = append(cmd.Env, programtest.ShortMinutes+"=1")
	// A run is partial if the next one of its job is due before its data calls are made.
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != exitPartial {
		w.Errorf("outlierd run --due: %v\n%s", err, out)
	}
}

// drain makes the calls that are still queued: with minutes that last a second, on a busy machine, the next due time of
// a job may prevent each of its runs from making them.
func (w *testWorld) drain() {
	w.Helper()
	for range 3 {
		if !strings.Contains(w.mustRun("queue", "-o", "ndjson"), "{") {
			return
		}
		w.mustRun("run", "--all")
	}
	w.Errorf("calls stay queued after three runs of all jobs:\n%s", w.mustRun("queue"))
}

// sameContent compares the distinct rows of the tables with those of another world, without the columns of lineage and
// observation. How often a video is seen depends on when the daemon was stopped, and which of two runs with the same
// due time buys a page, and which uses it from the journal, depends on timing. [testWorld.oneRunEach] checks that each
// due time has its run, and [testWorld.sameCounts] the number of rows of a run.
func (w *testWorld) sameContent(calm *testWorld) {
	w.Helper()
	w.query("attach if not exists "+database.Text(calm.published())+" as calm (read_only)", func([]any) {})
	but := append([]string{"_job", "times_seen", "previous_seen_at", "previous_view_count", "previous_subscriber_count"}, lineage...)
	for _, table := range schema.Tables() {
		if w.fingerprint("distinct", table.Name, but) == w.fingerprint("distinct", "calm."+table.Name, but) {
			continue
		}
		plain := func(from string) []string {
			rows := w.rows(from)
			for _, row := range rows {
				for _, name := range but {
					delete(row, name)
				}
			}
			return slices.Compact(texts(rows))
		}
		if diff := difference(plain("calm."+table.Name), plain(table.Name)); diff != "" {
			w.Errorf("table %s differs from that of runs that were not stopped:\n%s", table.Name, diff)
		}
	}
}

// sameCounts compares numbers that do not depend on timing with another world: the rows of an answer to a request in
// each table that keeps all rows, and the pages and hits of a run of a job. Lost rows, or rows that are loaded twice,
// change them.
func (w *testWorld) sameCounts(calm *testWorld) {
	w.Helper()
	compare := func(what, query string) { // with %[1]s where the other world's tables have its name
		w.Helper()
		counts := func(world string) (all []string) {
			w.query(fmt.Sprintf(query, world), func(values []any) { all = append(all, fmt.Sprint(values...)) })
			slices.Sort(all)
			return all
		}
		want, got := counts("calm."), counts("")
		if len(want) == 0 {
			w.Errorf("there are no %s: the test needs some", what)
		}
		if diff := difference(want, got); diff != "" {
			w.Errorf("%s differ from those of runs that were not stopped:\n%s", what, diff)
		}
	}
	for _, table := range schema.Tables() {
		if table.Kind == schema.History || table.Name == schema.TrendingFormats.Name {
			compare("rows of an answer in "+table.Name, `select distinct operation, entity, parameters::varchar, coalesce(n, 0)
				from %[1]sops.requests left join (select _response_id, count(*) as n from %[1]s`+table.Name+` group by all)
				on _response_id = response_id where response_id is not null`)
		}
	}
	compare("pages and hits of a run", "select distinct job, pages, hits from %[1]sops.runs where status in ('ok', 'partial')")
}

// slow is how long a daemon may take on a busy machine for what takes no time on an idle one.
const slow = 5 * time.Second

// caughtUp reports whether the latest due times have published runs.
func (w *testWorld) caughtUp() bool {
	w.Helper()
	if _, err := os.Stat(w.published()); err != nil {
		return false
	}
	reached := map[string]time.Time{}
	w.query("select job, max(due_at) from ops.runs group by job", func(values []any) {
		reached[values[0].(string)] = values[1].(time.Time)
	})
	for name, every := range stoppedEvery {
		if reached[name].Before(time.Now().Add(-every - slow)) {
			return false
		}
	}
	return true
}

// endedForAReason reports whether a run succeeded, or did not because of a stop: the next due time came before its data
// calls, or before it was continued, or the daemon was stopped during the request for the service's time, which is
// weeks from that of the machine.
func endedForAReason(status, why string) bool {
	switch status {
	case "ok", "ok_empty", "interrupted":
		return true
	case "partial":
		return strings.HasPrefix(why, "calls stay queued")
	}
	return status == "failed" && strings.Contains(why, "could not be asked for its time")
}

// oneRunEach checks that each job has one run for each of its due times between known and ended, and that each run
// succeeded or has a reason.
func (w *testWorld) oneRunEach(known, ended time.Time) {
	w.Helper()
	dues := map[string][]time.Time{}
	w.query("select job, due_at, status, coalesce(error, '') from ops.runs where due_at is not null order by job, due_at", func(values []any) {
		name, status := values[0].(string), values[2].(string)
		dues[name] = append(dues[name], values[1].(time.Time))
		if why := values[3].(string); !endedForAReason(status, why) {
			w.Errorf("the run of %s, due %s, has status %s: %s", name, values[1], status, why)
		}
	})
	for name, every := range stoppedEvery {
		all := dues[name]
		if len(all) == 0 || all[0].After(known.Add(every+slow)) || all[len(all)-1].Before(ended.Add(-every-2*slow)) {
			w.Errorf("%s has runs with the due times %v, want some from %s to %s", name, all, known, ended)
		}
		for i := 1; i < len(all); i++ {
			if step := all[i].Sub(all[i-1]); step != every {
				w.Errorf("%s is due every %s, but has consecutive runs for %s and %s", name, every, all[i-1], all[i])
			}
		}
	}
	for _, due := range dues["kin"] {
		if !slices.ContainsFunc(dues["news"], due.Equal) {
			w.Errorf("kin, which runs after news, has a run for %s, but news has none", due)
		}
	}
}

// boughtOnce compares the ledger with the service's books: no run has bought a page twice, and what was charged without
// an answer has the outcome unknown.
func (w *testWorld) boughtOnce() {
	w.Helper()
	w.query(`select run_id, operation, parameters::varchar, count(*) from ops.requests
		where outcome = 'charged' and response_id is not null and operation in
			('search', 'related', 'find_channels', 'trending_formats')
		group by all having count(*) > 1`, func(values []any) {
		w.Errorf("run %s has bought %s %s %d times, want once", values...)
	})
	charged, spent, unknown := 0, 0, 0
	var held float64
	books := w.books()
	for _, call := range books.Calls {
		if call.Charged > call.Refunded {
			charged++
		}
	}
	for _, row := range w.rows("ops.credits") {
		switch row["outcome"] {
		case "spent":
			spent++
			held += row["price"].(float64)
		case "unknown":
			unknown++
			held += row["price"].(float64)
		}
	}
	w.Logf("%d calls were charged; the ledger has %d as spent and %d as unknown", charged, spent, unknown)
	if total := books.Total.Spent(); charged < spent || charged > spent+unknown || float64(total) > held {
		w.Errorf("the service charged %d calls and %d credits, the ledger has %d as spent and %d as unknown and holds %.0f credits",
			charged, total, spent, unknown, held)
	}
}
