package command

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
	weeksInto = flag.String("weeks-into", "", "folder in which TestWeeks stores the data folder")
	weeksOver = flag.Bool("weeks-over", false, "let the weeks of TestWeeks end now, and keep the state for a daemon")
)

// TestWeeks runs a daemon for weeks of virtual time, with the job file of the notebooks and the simulator, and stores
// its data folder. .ci/notebooks reads that, and .ci/browser runs a daemon with it.
func TestWeeks(t *testing.T) {
	t.Parallel()
	if *weeks == 0 {
		t.Skip("without -weeks")
	}
	jobs, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "notebooks", "jobs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(*weeks) * 7 * 24 * time.Hour
	begin := time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC)
	if *weeksOver {
		begin = time.Now().Add(-length) // by the machine's clock, which is not visible in the bubble
	}
	bubble(t, string(jobs), func(p *person) {
		time.Sleep(time.Until(begin))
		ctx, stop := context.WithTimeout(p.Context(), length)
		defer stop()
		if _, stderr, code := p.do(ctx, "up"); code != exitDone {
			t.Errorf("exit code %d, want %d\n%s", code, exitDone, stderr)
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
