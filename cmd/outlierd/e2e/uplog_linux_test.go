package e2e

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
)

// TestUnreadLogStopsNothing: the process that reads the log of a daemon ends, or stops reading. The schedule
// continues, and the daemon stops in time with exit code 0.
func TestUnreadLogStopsNothing(t *testing.T) {
	t.Parallel() // it runs processes of its own
	for name, c := range map[string]struct {
		lost func(*os.File) error
		runs int
	}{
		"reader ended":   {(*os.File).Close, 2},
		"reader stalled": {func(*os.File) error { return nil }, 4}, // enough for the lines of a debug log to fill the pipe
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, simulator.Options{Seed: 5, Limit: 1_000_000})
			w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
` + programtest.DuckDBAlone + `budget: {per_month: 1000}
defaults: {reuse_for: 1m}
jobs:
  tea: {every: 1m, search: {query: [tea]}}
  mate: {every: 1m, search: {query: [mate]}}
  cocoa: {every: 1m, search: {query: [cocoa]}}
  coffee: {every: 1m, search: {query: [coffee]}}
`)
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			const room = 4096 // bytes, the minimum capacity of a pipe
			if _, err := unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, room); err != nil {
				t.Fatal(err)
			}
			d := w.upWithOutput(write, []string{"up", "--log-level", "debug"})
			if err := write.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReaderSize(read, 16).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := c.lost(read); err != nil {
				t.Fatal(err)
			}
			ended := func() int { return strings.Count(w.mustRun("runs", "-o", "ndjson"), `"status":"ok`) }
			// Each run makes a call, which costs less to see than the runs.
			called := func() bool { return w.service.Books().Operations[outlier.OpSearch].Calls > c.runs }
			for until := time.Now().Add(time.Minute); !called() || ended() < c.runs; time.Sleep(200 * time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%d runs ended within a minute, want %d", ended(), c.runs)
				}
			}
			if took := d.stop(); took > maxStop || d.cmd.ProcessState.ExitCode() != 0 {
				t.Errorf("the stop took %s and ended with %s, want exit code 0 in time", took, d.cmd.ProcessState)
			}
		})
	}
}
