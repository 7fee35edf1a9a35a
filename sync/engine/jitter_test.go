package engine

import (
	"testing"
	"time"
)

const jitterFile = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  spread: {every: 6h, jitter: 1h, catch_up: none, reuse_for: 1m, search: {query: [home espresso]}}
`

// TestJitterKeepsNominalDueTimes: each run has its nominal due time and begins later, by the job's jitter,
// even if the process is restarted several times in between. A delayed run does not count as missed.
func TestJitterKeepsNominalDueTimes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts dozens of processes")
	}
	bare(t, jitterFile, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "spread") })
		end := time.Now().Add(36*time.Hour + time.Hour)
		for time.Now().Before(end) {
			w.serve(70 * time.Minute)
		}
		spec, late := w.config.Job("spread"), 0
		rows := w.serve(time.Minute)
		for _, run := range rows {
			begins := spec.Begins(run.Due, w.config.Timezone)
			if after := run.Started.Sub(begins); after < 0 || after > time.Minute {
				t.Errorf("the run due %s began %s, want %s", run.Due, run.Started, begins)
			}
			if begins.After(run.Due.Add(missedAfter)) {
				late++
			}
		}
		if len(rows) != 6 || late == 0 {
			t.Errorf("%d runs in 36 hours, %d of them delayed for long; want 6 and some", len(rows), late)
		}
	})
}

// TestMissedDueTimeRunsDespiteJitter: jitter delays the last of three due times, and the one before it, which
// was missed, catches up.
func TestMissedDueTimeRunsDespiteJitter(t *testing.T) {
	t.Parallel()
	w := &workshop{T: t, dir: t.TempDir()}
	w.use("version: 1\nservice: {url: \"sim://\"}\njobs: {tea: {every: 1h, jitter: 30m, search: {query: tea}}}\n")
	spec := w.config.Job("tea")
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for spec.Begins(noon, time.UTC).Equal(noon) {
		noon = noon.Add(time.Hour)
	}
	due, next := dueSince(noon.Add(-3*time.Hour), spec, noon, time.UTC)
	if due == nil || !due.Due.Equal(noon.Add(-time.Hour)) || due.Trigger != CatchUp || !next.Due.Equal(noon) {
		t.Errorf("due is %+v, and then %+v", due, next)
	}
}
