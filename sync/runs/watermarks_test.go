package runs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

func checkWatermark(t *testing.T, s *state.Store, job, key string, want time.Time) {
	t.Helper()
	if got, err := s.Watermarks.At(job, key); err != nil || !got.Equal(want) {
		t.Errorf("watermark %s of %s is %s (%v), want %s", key, job, got, err, want)
	}
}

func move(t *testing.T, s *state.Store, w runs.Watermark) {
	t.Helper()
	statetest.Update(t, s, func(tx *store.Tx) error { return runs.MoveWatermark(tx, w) })
}

func TestRunsMoveWatermarksForwardOnly(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	checkWatermark(t, s, "ideas", "a", time.Time{})
	for _, c := range []struct{ to, want time.Time }{
		{statetest.Noon, statetest.Noon}, {statetest.Noon.Add(-time.Hour), statetest.Noon}, {statetest.Noon.Add(time.Hour), statetest.Noon.Add(time.Hour)},
	} {
		move(t, s, runs.Watermark{Job: "ideas", Key: "a", At: c.to, Run: "run-1"})
		checkWatermark(t, s, "ideas", "a", c.want)
	}
	checkWatermark(t, s, "ideas", "b", time.Time{})
	checkWatermark(t, s, "rivals", "a", time.Time{})
	statetest.WantText(t, statetest.Shell(t, s, `UPDATE watermarks SET at = at - 1`), "no run moves a watermark back")
	statetest.WantText(t, s.DB.Update(func(tx *store.Tx) error {
		return runs.MoveWatermark(tx, runs.Watermark{Job: "ideas", Key: "a", At: statetest.Noon})
	}), "by hand")
}

// A user can set and reset watermarks.
func TestWatermarksCanBeSetAndReset(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, key := range []string{"a", "b"} {
		move(t, s, runs.Watermark{Job: "ideas", Key: key, At: statetest.Noon, Run: "run-1"})
	}
	move(t, s, runs.Watermark{Job: "rivals", Key: "a", At: statetest.Noon, Run: "run-2"})

	earlier, later := statetest.Noon.Add(-time.Hour), statetest.Noon.Add(time.Hour)
	for _, err := range []error{s.Watermarks.Set("ideas", "", earlier), s.Watermarks.Set("ideas", "b", later), s.Watermarks.Set("ideas", "c", statetest.Noon)} {
		if err != nil {
			t.Error(err)
		}
	}
	all, err := s.Watermarks.List("")
	if err != nil {
		t.Fatal(err)
	}
	want := []runs.Watermark{
		{Job: "ideas", Key: "a", At: earlier}, {Job: "ideas", Key: "b", At: later}, {Job: "ideas", Key: "c", At: statetest.Noon},
		{Job: "rivals", Key: "a", At: statetest.Noon, Run: "run-2"},
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(runs.Watermark{}, "Set")); diff != "" {
		t.Errorf("watermarks (-want +got):\n%s", diff)
	}
	for _, w := range all {
		if time.Since(w.Set) > time.Minute {
			t.Errorf("%s of %s was set at %s", w.Key, w.Job, w.Set)
		}
	}
	statetest.WantText(t, s.Watermarks.Set("nobody", "", statetest.Noon), "nobody", "no such record")
	statetest.WantText(t, s.Watermarks.Set("ideas", "a", time.Time{}), "ideas", "needs a time")

	if n, err := s.Watermarks.Reset("ideas"); n != 3 || err != nil {
		t.Errorf("%d watermarks were reset (%v), want 3", n, err)
	}
	if n, err := s.Watermarks.Reset("ideas"); n != 0 || err != nil {
		t.Errorf("%d watermarks were reset again (%v), want none", n, err)
	}
	checkWatermark(t, s, "rivals", "a", statetest.Noon)
}
