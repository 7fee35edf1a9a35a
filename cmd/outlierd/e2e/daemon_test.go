package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/serve"
)

const besideJobs = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 300, confirm_over: 90}
daemon: {reload: signal}
` + programtest.DuckDBAlone + `jobs:
  later: {schedule: "0 0 1 1 *", search: {query: [espresso]}}
  coffee:
    search: {query: [moka pot], pages: 2}
    enrich: {details: {top: 3}, comments: {top: 2}}
  child: {after: coffee, channels: {id: {sql: "select distinct channel_id from outliers order by 1 limit 2"}}}
  topics: {for_each: {topic: [tea, milk]}, search: {query: "${topic}", where: {published_at: since last success}}}
  capped: {search: {query: [cats], pages: 3}, budget: {max_requests: 2}}
  old: {search: {query: [dogs], where: {published_at: "2026-01-01..2026-03-31"}}}
`

// besideCommands are run in this order, once without and once with a daemon. {rest} is the id of a run that has cut
// off hits.
var besideCommands = []string{
	"run coffee --with-after",
	"run coffee --pages 1 --no-enrich -o json",
	"run --rest {rest}",
	"run --rest {rest}",
	"run topics --set topic=tea",
	"run capped topics",
	"run nosuch",
	"run topics --set other=x",
	"backfill old --from 2025-12-01 --to 2026-01-31 --max-credits 3",
	"backfill old --from 2025-12-01 --to 2026-01-31 --max-credits 3",
	"search tea --pages 60",
	"search cats --pages 1 -o csv",
	"search dogs --pages 1 --enrich details",
	"channel UC1234567890abcdefghijkl -o json",
	"transcript dQw4w9WgXcQ",
	"scan read 7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f",
	"scan adopt 7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f",
	"scan resolve --not-created 7",
	"cursor set topics 2026-11-01",
	"cursor show topics -o ndjson",
	"cursor reset topics",
	"budget adjust --bought 20 --why top-up",
	"budget resume",
	"queue clear capped",
	"queue",
	"pause later --why holidays",
	"mark dQw4w9WgXcQ --star --tag hook",
	"mark nonsense --star",
	"mark dQw4w9WgXcQ --tag ,",
	"resume later later coffee",
}

// TestCommandsBesideADaemon runs the same commands without and with `up`: output, exit codes and rows
// must be the same.
func TestCommandsBesideADaemon(t *testing.T) {
	t.Parallel()
	fast := simulator.Options{Seed: 5, Key: "demo", Limit: 1_000_000, Window: time.Minute}
	alone, beside := newWorld(t, fast), newWorld(t, fast)
	for _, w := range []*testWorld{alone, beside} {
		w.write(besideJobs)
	}
	stop := beside.daemon()
	commands := besideCommands
	if !*long {
		commands = sampled(t, commands, 4)
	}
	var want, got []string
	var both sync.WaitGroup
	both.Go(func() { want = alone.all(commands) })
	both.Go(func() { got = beside.all(commands) })
	both.Wait()
	stop()
	for i, command := range commands {
		if want[i] != got[i] {
			t.Errorf("outlierd %s\nalone:\n%s\nbeside a daemon:\n%s", command, want[i], got[i])
		}
	}
	for _, table := range []string{"outliers", "videos", "comments", "channels", "ops.runs"} {
		if a, b := len(alone.rows(table)), len(beside.rows(table)); a != b || a == 0 {
			t.Errorf("table %s has %d rows alone and %d beside a daemon", table, a, b)
		}
	}
	if a, b := alone.service.Books().Total.Spent(), beside.service.Books().Total.Spent(); a != b || a == 0 {
		t.Errorf("the service charged %d credits alone and %d beside a daemon, want the same", a, b)
	}
}

// TestScanIsAdoptedBesideDaemon and read: the answer to its start was lost, and the scan has ended when it is
// read.
func TestScanIsAdoptedBesideDaemon(t *testing.T) {
	t.Parallel()
	done := func(string) []simulator.Phase { return []simulator.Phase{{Status: "Completed"}} }
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000, Scans: done})
	started := programtest.LoseStarts(service)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	w := &testWorld{TB: t, dir: t.TempDir(), url: server.URL}
	w.write(besideJobs)
	stop := w.daemon()
	start, output := w.command(t.Context(), "scan", "start", "moka pot", "--yes")
	if err := start.Run(); err == nil || start.ProcessState.ExitCode() != exitFailed || len(started()) != 1 {
		t.Fatalf("a start without an answer ended with %v, and %d scans were started: %s",
			err, len(started()), output)
	}
	id := started()[0]
	programtest.Contains(t, w.mustRun("scan", "list"), "unknown", "moka pot")
	programtest.Contains(t, w.mustRun("scan", "adopt", id), "intent 1, ", "outlierd scan read "+id)
	programtest.Contains(t, w.mustRun("scan", "read", id), "40 hits on 1 page", "2 credits spent")
	programtest.Contains(t, w.mustRun("scan", "list"), id[:8], "Completed")
	stop()
	if got := w.rows("(from ops.credits where operation = 'start_scan')"); len(got) != 1 || got[0]["outcome"] != "spent" {
		t.Errorf("the outcomes of the starts of scans are %v", got)
	}
}

// TestSocketOfADaemon: what no command sends is refused as the client's mistake.
func TestSocketOfADaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, simulator.Options{Seed: 5, Key: "demo", Limit: 1_000_000, Window: time.Minute})
	w.write(besideJobs)
	stop := w.daemon()
	socket := serve.Socket(filepath.Join(w.dir, "data", "state"))
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for _, c := range []struct{ path, body, want string }{
		{"Adjust", `{"credits": 9223372036854775807, "why": "x"}`, "the amount"},
		{"PauseJobs", `{"pauses": [{"job": "nosuch", "since": "2026-11-01T00:00:00Z"}]}`, `has no job \"nosuch\"`},
		{"PollScan", `{"scan_id": "../x"}`, "id must match"},
		{"AdoptScan", `{}`, "id must match"},
		{"ResolveScan", `{"intent": 7}`, "no scan has this intent"},
		{"runs", `{}`, "there is no run"},
		{"runs/..%2f%00/cancel", `{}`, "there is no run"},
	} {
		answer, err := client.Post("http://outlierd/v1/"+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode/100 != 4 || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: HTTP %d %s, want a refusal with %q", c.path, c.body, answer.StatusCode, text, c.want)
		}
	}
	stop()
}

// sampled returns the first of all, and some of the others, in order.
func sampled(t *testing.T, all []string, most int) []string {
	at := append([]int{0}, testenv.Random(t).Perm(len(all) - 1)[:most-1]...)
	for i := range at[1:] {
		at[i+1]++
	}
	slices.Sort(at)
	var some []string
	for _, i := range at {
		some = append(some, all[i])
	}
	return some
}

// daemon starts `up` and waits until it answers. The function that it returns stops it.
func (w *testWorld) daemon() (stop func()) {
	w.Helper()
	cmd, out := w.command(w.Context(), "up")
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.answers()
	return func() {
		w.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			w.Errorf("up: %v\n%s", err, out)
		}
	}
}

// answers waits until a daemon answers.
func (w *testWorld) answers() {
	w.Helper()
	for ; ; time.Sleep(10 * time.Millisecond) {
		_, err := serve.Dial(w.Context(), filepath.Join(w.dir, "data", "state"))
		if err == nil {
			return
		}
		if !errors.Is(err, serve.ErrNoDaemon) {
			w.Fatal(err)
		}
	}
}

// all returns the output of commands, without what differs between runs.
func (w *testWorld) all(commands []string) (printed []string) {
	rest := ""
	for _, line := range commands {
		cmd, both := w.command(w.Context(), strings.Fields(strings.ReplaceAll(line, "{rest}", rest))...)
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			w.Error(err)
		}
		text := out.String() + "--- stderr\n" + both.String()
		if found := restOfRun.FindStringSubmatch(text); found != nil && rest == "" {
			rest = found[1]
		}
		for _, v := range varying {
			text = v.pattern.ReplaceAllString(text, v.by)
		}
		printed = append(printed, text+"--- "+cmd.ProcessState.String())
	}
	return printed
}

var restOfRun = regexp.MustCompile(`--rest ([0-9a-f-]{36})`)

// varying matches what differs between two equal runs.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`(?m)^\{"time":.*\n`), ""}, // the log
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f-]{17}`), "RUN"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?`), "TIME"},
	{regexp.MustCompile(`in \d+ s `), "in N s "},
	{regexp.MustCompile(`(http://)?127\.0\.0\.1:\d+`), "SERVICE"},
	{regexp.MustCompile(`/tmp/[^ ,"]*/\d{3}`), "DIR"},
}

// TestDaemonIsKilled: a command that follows a run reports how to continue it, and the next daemon and
// the next command find a socket without a listener.
func TestDaemonIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, simulator.Options{Seed: 5, Key: "demo"})
	w.write(strings.ReplaceAll(besideJobs, "1000000/min", "5/min")) // so that the run waits
	up, _ := w.command(t.Context(), "up")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	w.answers()
	watching, _ := w.command(t.Context(), "run", "coffee", "--log-level", "debug")
	var stderr bytes.Buffer
	begun := &untilWritten{text: "run started", seen: make(chan struct{})}
	watching.Stderr = io.MultiWriter(&stderr, begun)
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun.seen
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = up.Wait(), watching.Wait() // both end with an error
	programtest.Contains(t, stderr.String(), "lost the connection to 'outlierd up' (process ",
		"everything that was paid for is stored, and the same command continues the run")
	if code := watching.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if _, err := os.Lstat(serve.Socket(filepath.Join(w.dir, "data", "state"))); err != nil {
		t.Errorf("the killed process has left no socket: %v", err)
	}
	w.mustRun("cursor", "set", "topics", "2026-11-01")
	stop := w.daemon()
	w.mustRun("cursor", "reset", "topics")
	stop()
}

// untilWritten closes seen when a text is written, which must be in one call of Write.
type untilWritten struct {
	text string
	seen chan struct{}
	once sync.Once
}

func (u *untilWritten) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(u.text)) {
		u.once.Do(func() { close(u.seen) })
	}
	return len(p), nil
}
