package state

import (
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// TestNextRetryIsTheFirstInstantAtWhichSomethingNewMayBeTried: what may be tried now,
// what another job wants and what has expired are no reason to wake up.
func TestNextRetryIsTheFirstInstantAtWhichSomethingNewMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		now := time.Now()
		when := func(f Filter) time.Duration {
			at, err := s.NextRetry(time.Now(), f)
			if err != nil {
				t.Fatal(err)
			}
			if at.IsZero() {
				return 0
			}
			return at.Sub(now)
		}
		if got := when(Filter{}); got != 0 {
			t.Errorf("an empty queue wakes somebody after %s", got)
		}
		enqueue(t, s,
			Task{Op: outlier.OpDetails, Entity: "ready", Run: "run-1", Job: "ideas"},
			Task{Op: outlier.OpDetails, Entity: "late", Run: "run-1", Job: "ideas", NotBefore: now.Add(2 * time.Hour)},
			Task{Op: outlier.OpDetails, Entity: "soon", Run: "run-2", Job: "rivals", NotBefore: now.Add(time.Hour)})
		for f, want := range map[Filter]time.Duration{{}: time.Hour, {Job: "ideas"}: 2 * time.Hour, {Run: "run-2"}: time.Hour, {Job: "news"}: 0} {
			if got := when(f); got != want {
				t.Errorf("for %+v after %s, want %s", f, got, want)
			}
		}
		time.Sleep(keepQueued)
		if got := when(Filter{}); got != 0 {
			t.Errorf("what has expired wakes somebody after %s", got)
		}
	})
}
