package statetest

import (
	"errors"
	"testing"
	"time"

	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Enqueue queues calls, and returns how many were not queued before.
func Enqueue(t testing.TB, s *state.Store, tasks ...queue.Task) (queued int) {
	t.Helper()
	count := func() int {
		n, err := s.Queue.Queued(queue.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	Update(t, s, func(tx *store.Tx) (err error) {
		for _, task := range tasks {
			_, _, failed := s.Queue.Add(tx, task)
			err = errors.Join(err, failed)
		}
		return err
	})
	return count() - before
}

// Next returns the call that comes next for a filter, or nil.
func Next(t testing.TB, s *state.Store, f queue.Filter) *queue.Task {
	t.Helper()
	task, err := s.Queue.NextTask(time.Now(), f)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// Listed are the tasks that the filter lets through, in the order in which they are done from now on.
func Listed(t testing.TB, s *state.Store, f queue.Filter) []queue.Waiting {
	t.Helper()
	all, err := s.Queue.List(time.Now(), f, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Update performs f as one unit of work, which must succeed.
func Update(t testing.TB, s *state.Store, f func(*store.Tx) error) {
	t.Helper()
	if err := s.DB.Update(f); err != nil {
		t.Fatal(err)
	}
}
