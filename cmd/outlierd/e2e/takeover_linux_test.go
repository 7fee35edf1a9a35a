package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// docs/design/scale.md says how another machine takes over, and how long that takes. In these tests a machine is a
// folder and a process.

// standby returns another machine for the same service, with the job file and without data.
func (w *testWorld) standby() *testWorld {
	w.Helper()
	other := &testWorld{TB: w.TB, dir: w.TempDir(), service: w.service, url: w.url}
	jobs, err := os.ReadFile(filepath.Join(w.dir, "jobs.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	other.write(string(jobs))
	return other
}

// moveVolume gives the data to another machine after the process has ended. The lock file then has the boot id of the
// first machine.
func (w *testWorld) moveVolume(to *testWorld) {
	w.Helper()
	w.close()
	if err := os.Rename(filepath.Join(w.dir, "data"), filepath.Join(to.dir, "data")); err != nil {
		w.Fatal(err)
	}
	to.changeBootID()
}

// changeBootID writes the boot id of another machine to the lock file.
func (w *testWorld) changeBootID() {
	w.Helper()
	path := filepath.Join(w.dir, "data", "state", "lock")
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	boot := regexp.MustCompile(`"boot":"[^"]+"`)
	if !boot.Match(text) {
		w.Fatalf("the lock file has no boot id: %q", text)
	}
	text = boot.ReplaceAll(text, []byte(`"boot":"00000000-0000-4000-8000-000000000000"`))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		w.Fatal(err)
	}
}

// waitFor waits until the log of a daemon contains a text.
func (d *upProcess) waitFor(text string) {
	d.Helper()
	for end := time.Now().Add(programtest.MaxWait); !strings.Contains(d.log.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("after %s the log of up does not contain %q: %s", programtest.MaxWait, text, d.log)
		}
	}
}

// runUntil runs a daemon until each job has a run with a due time after the given time, and stops it. On a busy
// machine, the daemon may reach it late.
func (w *testWorld) runUntil(after time.Time) (log string) {
	w.Helper()
	d := w.up()
	for end := time.Now().Add(programtest.MaxWait); !w.reached(after); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("after %s no run with a due time after %s is published: %s", programtest.MaxWait, after, d.log.last())
		}
	}
	d.stop()
	return d.log.String()
}

// reached reports whether each scheduled job has a published run with a due time after the given time.
func (w *testWorld) reached(after time.Time) bool {
	w.Helper()
	if !w.has("data/outliers.duckdb") {
		return false
	}
	done := 0
	w.query("select job, max(due_at) from ops.runs group by job", func(values []any) {
		if due, ok := values[1].(time.Time); ok && stoppedEvery[values[0].(string)] > 0 && due.After(after) {
			done++
		}
	})
	return done == len(stoppedEvery)
}

// TestStandbyTakesOverTheVolume: a second machine with the same volume refuses to start while the first one runs, and
// continues after that was killed. Each due time has a run, and nothing is bought twice.
func TestStandbyTakesOverTheVolume(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("lasts ten seconds")
	}
	active := newWorldApart(t)
	active.write(fmt.Sprintf(stoppedJobs, strings.Join(someChannels(), ", ")))
	d := active.up()
	d.waitFor("job scheduled")
	known := time.Now()
	d.waitFor("run finished")

	early, out := active.command(t.Context(), "up")
	if err := early.Run(); early.ProcessState.ExitCode() != exitHeld {
		t.Fatalf("a second daemon on the volume ended with %v, want exit code %d: %s", err, exitHeld, out)
	}
	programtest.Contains(t, out.String(), "is held by process", "(outlierd up)")

	time.Sleep(time.Duration(testenv.Random(t).Int64N(int64(2 * time.Second))))
	d.kill()
	killed := time.Now()
	standby := active.standby()
	active.moveVolume(standby)
	programtest.Contains(t, standby.mustRun("check"), "state: no damage")
	programtest.Contains(t, standby.runUntil(killed), "state check started", "state check finished")

	standby.oneRunEach(known, killed)
	standby.boughtOnce()
	standby.sound()
}

// TestStandbyTakesOverFromABackup: the volume is lost, and the standby starts with a backup from some seconds ago and
// the credits that the service has charged since. Ledger and journal continue from there, and what was bought before
// the backup is not bought again.
func TestStandbyTakesOverFromABackup(t *testing.T) {
	t.Parallel() // it runs processes of its own
	if testing.Short() {
		t.Skip("lasts ten seconds")
	}
	active := newWorldApart(t)
	// Restoring takes longer than the periods of the jobs: a run for the latest of the missed due times is enough.
	jobs := fmt.Sprintf(stoppedJobs, strings.Join(someChannels(), ", "))
	active.write(strings.Replace(jobs, "catch_up: all", "catch_up: latest", 1))
	copies := filepath.Join(t.TempDir(), "copies")
	d := active.up()
	d.waitFor("run finished")
	active.mustRun("backup", copies)
	atBackup, now := active.books(), active.books()
	// The backup must lack calls, and credits.
	for len(now.Calls) < len(atBackup.Calls)+10 || now.Total.Spent() == atBackup.Total.Spent() {
		time.Sleep(100 * time.Millisecond)
		now = active.books()
	}
	d.kill()
	killed := time.Now()

	standby := active.standby()
	cmd, out := standby.command(t.Context(), "restore", copies)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitUsage {
		t.Fatalf("restore without --spent ended with %v, want exit code %d: %s", err, exitUsage, out)
	}
	programtest.Contains(t, out.String(), "has no record of what was spent since")

	trial := active.standby()
	trial.mustRun("restore", copies, "--spent", "0")
	lost := float64(active.books().Total.Spent()) - trial.spent()
	standby.mustRun("restore", copies, "--spent", fmt.Sprint(lost))
	standby.mustRun("rebuild")
	standby.runUntil(killed)

	if spent, charged := standby.spent(), float64(standby.books().Total.Spent()); spent < charged {
		t.Errorf("the ledger has %v credits, want at least the %v that the service charged", spent, charged)
	}
	standby.query(`select run_id, operation, parameters::varchar, count(*) from ops.requests
		where outcome = 'charged' and response_id is not null and operation in ('search', 'related', 'find_channels', 'trending_formats')
		group by all having count(*) > 1`, func(values []any) {
		t.Errorf("run %s has bought %s %s %d times, want once", values...)
	})
	standby.query(`select job, due_at, count(*) from ops.runs where due_at is not null
		group by all having count(*) > 1`, func(values []any) {
		t.Errorf("job %s, due time %s: %d runs, want 1", values...)
	})
	standby.sound()
	if lost == 0 {
		t.Error("nothing was bought after the backup: the test needs such calls")
	}
	t.Logf("%v credits were spent after the backup", lost)
}

var takeoverIn = flag.String("takeover-in", "",
	"folder in which BenchmarkTakeover keeps its data from one run to the next; empty for none")

// BenchmarkTakeover measures how long a standby needs for a state with a million answers and queued calls, from the
// start of its `up` until it answers commands, and until its first call reaches the service: on the volume of a daemon
// that was killed, on the same machine and on another one, and with a backup.
func BenchmarkTakeover(b *testing.B) {
	w := newWorld(b, simulator.Options{Seed: 1, Limit: 1_000_000})
	if *takeoverIn != "" {
		w.dir = *takeoverIn
	}
	folder := filepath.Join(w.dir, "data", "state")
	file := filepath.Join(folder, "state.db")
	exists := w.has("data")
	if !exists {
		statetest.Large(b, folder, func(dir string) error {
			s, err := state.Open(b.Context(), dir, state.Options{Service: "https://service.test"})
			if err != nil {
				return err
			}
			return s.Close()
		})
	}
	if err := programtest.ExecSQLite(file, "update meta set value = '"+w.url+"' where key = 'service'"); err != nil {
		b.Fatal(err)
	}
	w.write(strings.NewReplacer("https://service.test", "${OUTLIERD_URL}", "10/min", "1000000/min").Replace(statetest.LargeJobs))
	if !exists {
		began := time.Now()
		w.mustRun("rebuild")
		b.Logf("rebuilt both sinks in %s", time.Since(began))
	}
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("state.db has %d MB", info.Size()>>20)
	for _, place := range []string{"the same machine", "another machine"} {
		b.Run("killed on "+place, func(b *testing.B) {
			for b.Loop() {
				d := w.up()
				w.answers()
				d.kill()
				if place == "another machine" {
					w.changeBootID()
				}
				w.takesOver(b)
			}
		})
	}
	b.Run("backup", func(b *testing.B) {
		for b.Loop() {
			copies, standby := filepath.Join(b.TempDir(), "copies"), w.standby()
			timed(b, "s-to-back-up", func() { w.mustRun("backup", copies) })
			timed(b, "s-to-restore", func() { standby.mustRun("restore", copies, "--spent", "0") })
			standby.takesOver(b)
		}
	})
}

func timed(b *testing.B, unit string, work func()) {
	began := time.Now()
	work()
	b.ReportMetric(time.Since(began).Seconds(), unit)
}

// takesOver starts a daemon, and kills it once its first call has reached the service.
func (w *testWorld) takesOver(b *testing.B) {
	before := w.service.Books().Total.Calls
	began := time.Now()
	d := w.up()
	w.answers()
	b.ReportMetric(time.Since(began).Seconds(), "s-to-commands")
	for w.service.Books().Total.Calls == before {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-to-first-call")
	d.kill()
}
