package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/queue"
	"outlierd/sync/state"
)

// TestLongClearDoesNotGrowTheDatabaseLog: cancelled calls are written to the WAL of the database, which is checkpointed
// meanwhile. A read transaction that stays open would prevent that: the WAL would grow with the queue, and the next
// call would wait for a long checkpoint.
func TestLongClearDoesNotGrowTheDatabaseLog(t *testing.T) {
	testenv.RacesLittle(t)
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1})
	w.write("version: 1\nservice: {url: \"${OUTLIERD_URL}\", key: \"${OUTLIERD_KEY}\"}\nbudget: {per_month: 1000}\n" +
		"jobs:\n  long: {search: {query: [tea]}}\n")
	folder := filepath.Join(w.dir, "data", "state")
	holder, err := state.Open(t.Context(), folder, state.Options{Service: w.url})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	const calls = 20_000
	err = holder.Queue.Add(t.Context(), func(yield func(queue.Task) bool) {
		for n := range calls {
			if !yield(queue.Task{Op: outlier.OpDetails, Entity: fmt.Sprintf("v%010d", n), Run: "run-1", Job: "long"}) {
				return
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(folder, "state.db-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if out := w.mustRun("queue", "clear", "long"); !strings.Contains(out, fmt.Sprint(calls)) {
		t.Errorf("queue clear printed: %s", out)
	}
	if after := size(); after > 2*before {
		t.Errorf("the WAL had %d bytes after queueing and has %d now: it was not checkpointed", before, after)
	}
}
