package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var (
	weeks     = flag.Int("weeks", 0, "how many weeks the daemon of TestWeeks runs")
	weeksInto = flag.String("weeks-into", "", "where TestWeeks leaves the tables")
	weeksOver = flag.Bool("weeks-over", false, "the weeks of TestWeeks end now, and a daemon can go on with what it leaves")
)

// TestWeeks lets a daemon run for weeks of virtual time, with the job file of the notebooks and
// the simulator, and leaves its data folder. .ci/notebooks reads that, and .ci/browser goes on with it.
func TestWeeks(t *testing.T) {
	if *weeks == 0 {
		t.Skip("without -weeks")
	}
	jobs, err := os.ReadFile(filepath.Join("..", "..", "examples", "notebooks", "jobs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(*weeks) * 7 * 24 * time.Hour
	begin := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
	if *weeksOver {
		begin = time.Now().Add(-length) // of the machine's clock, which the bubble does not see
	}
	bubble(t, string(jobs), func(p *person) {
		time.Sleep(time.Until(begin))
		ctx, stop := context.WithTimeout(p.Context(), length)
		defer stop()
		if _, complaints, code := p.do(ctx, "up"); code != exitDone {
			t.Errorf("exit code %d, want %d\n%s", code, exitDone, complaints)
		}
		data := filepath.Join(p.dir, "data")
		if !*weeksOver {
			if err := os.RemoveAll(filepath.Join(data, "state")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(filepath.Join(*weeksInto, "data"), os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
	})
}
