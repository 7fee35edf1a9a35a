package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"outlierd/outlier/simulator"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// BenchmarkGlance measures commands that read a large state, each in a process of its own: time and peak
// memory, of which 40 to 60 MB are the program itself. On Linux a process starts with the peak of its
// parent, so the memory is right only if the state was generated before.
func BenchmarkGlance(b *testing.B) {
	w := largeWorld(b)
	for _, args := range [][]string{{"version"}, {"budget"}, {"plan"}, {"why", "v0000000123"}, {"queue"}, {"queue", "job-07"}, {"queue", "-o", "ndjson"}} {
		b.Run(strings.Join(args, "_"), func(b *testing.B) {
			var cpu time.Duration
			peak := 0.0
			for b.Loop() {
				cmd, _ := w.command(b.Context(), args...)
				cmd.Stdout, cmd.Stderr = nil, nil // output in memory here would count as memory of the program
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				peak = max(peak, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(peak, "peak-MB")
		})
	}
}

// largeWorld returns a world with the job file of a state that has 100,800 queued calls.
func largeWorld(b *testing.B) *testWorld {
	w := newWorld(b, simulator.Options{Seed: 1})
	statetest.Large(b, filepath.Join(w.dir, "data", "state"), func(dir string) error {
		s, err := state.Open(b.Context(), dir, state.Options{Service: "https://service.test"})
		if err != nil {
			return err
		}
		return s.Close()
	})
	w.write(statetest.LargeJobs)
	return w
}
