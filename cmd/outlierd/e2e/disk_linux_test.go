package e2e

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/outlier/simulator"
)

// TestDaemonEndsWhenItsDiskFails: after an error of the disk no process may go on using the state, so the daemon ends
// and says why, once. A service manager starts it again, and the new process does what was due meanwhile.
func TestDaemonEndsWhenItsDiskFails(t *testing.T) {
	t.Parallel() // it runs a process of its own
	w := newWorld(t, simulator.Options{Seed: 5, Limit: 1_000_000})
	w.write(`
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 1000}
defaults: {reuse_for: 1m}
jobs:
  tea: {every: 1m, search: {query: [tea]}}
`)
	d := w.up()
	d.finishesARun()
	tiny := &unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY} // bytes, as with a quota that is used up
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_FSIZE, tiny, nil); err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
	defer overdue.Stop()
	_ = d.cmd.Wait() // its exit code is checked below
	said := d.log.String()[strings.LastIndex(d.log.String(), "\noutlierd: ")+1:]
	if d.cmd.ProcessState.ExitCode() != 1 || strings.Count(said, "does not work") != 1 || !strings.Contains(said, "restart outlierd") {
		t.Errorf("the daemon ended with %s and said %q, want exit code 1 and the cause once", d.cmd.ProcessState, said)
	}
	again := w.up()
	again.finishesARun()
	again.stop()
	w.mustRun("check", "--read-data")
}

// finishesARun waits until the daemon has finished a run.
func (d *upProcess) finishesARun() {
	d.Helper()
	for until := time.Now().Add(time.Minute); !strings.Contains(d.log.String(), `"run finished"`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			d.Fatalf("no run finished within a minute: %s", d.log)
		}
	}
}
