package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// The queue lists calls in the order in which they are made.
func TestQueueListsCallsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		began := time.Now().UTC()
		statetest.Enqueue(t, s,
			queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "ideas", Value: 1, MaxAge: time.Hour},
			queue.Task{Op: outlier.OpComments, Entity: "v2", Job: "rivals", Value: 2, MaxAge: time.Hour},
			queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "shelf", Value: 1, MaxAge: time.Hour},
			queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "news", Value: 1, MaxAge: time.Hour})
		retry := began.Add(time.Hour)
		statetest.Update(t, s, func(tx *store.Tx) error {
			return queue.Fail(tx, queue.Task{Op: outlier.OpComments, Entity: "v2"}, began, "time-out", retry)
		})
		got := statetest.Listed(t, s, queue.Filter{})
		want := []queue.Waiting{
			{Task: queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "ideas", Value: 1, MaxAge: time.Hour,
				Others: []string{"news", "shelf"}}, Since: began},
			{Task: queue.Task{Op: outlier.OpComments, Entity: "v2", Job: "rivals", Value: 2, MaxAge: time.Hour,
				Others: []string{}, Attempts: 1, Tries: outlier.Tries{NotBefore: retry}}, Since: began, Failed: began, Reason: "time-out", Before: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		if n, _, err := s.Queue.Cancel("rivals"); n != 1 || err != nil {
			t.Errorf("%d tasks were cleared, error %v", n, err)
		}
		if left := statetest.Listed(t, s, queue.Filter{}); len(left) != 1 || left[0].Entity != "v1" {
			t.Errorf("%v is left", left)
		}
	})
}
