package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
)

// TestStarsSurviveKills: two browsers star 200 videos each while the daemon is killed at random. Every star that
// was acknowledged is in the state and in both sinks.
func TestStarsSurviveKills(t *testing.T) {
	t.Parallel()
	const kills = 1
	w := newWorld(t, simulator.Options{Seed: 5, Limit: 1_000_000})
	w.write(withParquet(besideJobs))
	w.mustRun("run", "coffee")
	state := filepath.Join(w.dir, "data", "state")
	browse := func(browser byte) {
		for i := range 200 {
			edit := serve.EditMarks{Edit: marks.Edit{Videos: []string{fmt.Sprintf("%c-video-%03d", browser, i)}, Star: new(true)}}
			for t.Context().Err() == nil && !t.Failed() { // until it is acknowledged
				c, err := serve.Dial(t.Context(), state)
				if err == nil {
					_, err = serve.Send(t.Context(), c, edit)
				}
				if err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond) // the daemon was killed, or has had too many requests
			}
		}
	}
	stop := w.killable()
	var browsers sync.WaitGroup
	for _, browser := range []byte("ab") {
		browsers.Go(func() { browse(browser) })
	}
	random := testenv.Random(t)
	for range kills {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		stop()
		stop = w.killable()
	}
	browsers.Wait()
	stop()
	w.mustRun("run", "old") // which publishes

	var want []string
	for _, browser := range "ab" {
		for i := range 200 {
			want = append(want, fmt.Sprintf("%c-video-%03d", browser, i))
		}
	}
	listed := strings.Count(w.mustRun("mark", "-o", "ndjson"), `"starred":true,"hidden":false`)
	if listed != len(want) {
		t.Errorf("%d stars in the state, want %d", listed, len(want))
	}
	for _, from := range []string{"marks", w.parquet("ops.marks")} {
		var got []string
		for _, row := range w.rows(from) {
			if row["starred"] == true {
				got = append(got, row["video_id"].(string))
			}
		}
		slices.Sort(got)
		if diff := difference(want, got); diff != "" {
			t.Errorf("stars in %s:\n%s", from, diff)
		}
	}
}

// killable starts a daemon and returns a function that kills it.
func (w *testWorld) killable() (kill func()) {
	w.Helper()
	cmd, _ := w.command(w.Context(), "up")
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.answers()
	return func() {
		w.Helper()
		if err := cmd.Process.Kill(); err != nil {
			w.Error(err)
		}
		_ = cmd.Wait() // killed
	}
}
