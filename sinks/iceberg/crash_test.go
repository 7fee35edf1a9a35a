//go:build iceberg

package iceberg

import (
	"errors"
	"sync"
	"testing"

	"outlierd/sinks/sinktest"
)

var errStopped = errors.New("stopped here")

// TestBatchIsAppliedOnceAfterAStop stops a writer before each commit of a batch in turn. The same
// answers are then written again, in a larger batch.
func TestBatchIsAppliedOnceAfterAStop(t *testing.T) {
	j := sinktest.Sample(6)
	write := func(s *Sink, lo, hi int64) error {
		b := j.Batch(lo, hi)
		defer sinktest.Release(b)
		return s.Write(t.Context(), b)
	}
	for stop := 1; ; stop++ {
		dir := t.TempDir()
		s := openSink(t, dir, "a")
		if err := write(s, 0, 3); err != nil {
			t.Fatal(err)
		}
		commits := 0
		s.step = func(string) error {
			if commits++; commits == stop {
				return errStopped
			}
			return nil
		}
		stopped := write(s, 3, 5)
		if stopped != nil && !errors.Is(stopped, errStopped) {
			t.Fatal(stopped)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openSink(t, dir, "a")
		mark, err := s.Watermark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(3); stopped != nil && mark != want {
			t.Errorf("watermark %d after a stop before commit %d, want %d", mark, stop, want)
		}
		if err := write(s, mark, 6); err != nil {
			t.Fatalf("after a stop before commit %d: %v", stop, err)
		}
		suite.Check(t, dir, j, 6)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if stopped == nil {
			if stop < 3 {
				t.Errorf("the batch had %d commits", stop-1)
			}
			return
		}
	}
}

// TestWritersRace lets two writers write to the same tables concurrently: each must find its own rows.
// Two processes with the same instance must not duplicate rows.
func TestWritersRace(t *testing.T) {
	j := sinktest.Sample(6)
	for name, instances := range map[string][]string{"two writers": {"a", "b"}, "one writer twice": {"a", "a"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var racing []*Sink
			for _, instance := range instances {
				racing = append(racing, openSink(t, dir, instance))
			}
			var running sync.WaitGroup
			for _, s := range racing {
				running.Go(func() {
					for lo := int64(0); lo < 6; lo += 2 {
						b := j.Batch(lo, lo+2)
						err := s.Write(t.Context(), b)
						sinktest.Release(b)
						if err != nil && instances[0] != instances[1] {
							t.Error(err)
						}
					}
				})
			}
			running.Wait()
			for _, s := range racing {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, instance := range instances {
				s := openSink(t, dir, instance)
				mark, err := s.Watermark(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if mark < 6 {
					b := j.Batch(mark, 6)
					err := s.Write(t.Context(), b)
					sinktest.Release(b)
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				found := suite
				found.Read = readAs(instance)
				found.Check(t, dir, j, 6)
			}
		})
	}
}
