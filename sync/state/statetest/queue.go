package statetest

import (
	"slices"
	"testing"
	"time"

	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Enqueue queues calls, and returns how many were not queued before.
func Enqueue(t testing.TB, s *state.Store, tasks ...queue.Task) (queued int) {
	t.Helper()
	err := s.DB.Update(func(tx *store.Tx) (err error) {
		queued, err = s.Queue.Enqueue(tx, tasks)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return queued
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

// Listed are the tasks that the filter lets through, best first, those in back-off included.
func Listed(t testing.TB, s *state.Store, f queue.Filter) (all []queue.Waiting) {
	t.Helper()
	now := time.Now()
	places, err := s.Queue.Places(f, now, queue.Before, 1000)
	if err != nil {
		t.Fatal(err)
	}
	failed, err := s.Queue.BackedOff(queue.AfterNow(now), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range failed {
		if f.Job == "" || slices.Contains(p.Jobs, f.Job) {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(p, q queue.Place) int { return p.Compare(&q) })
	waiting, err := s.Queue.At(places)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range waiting {
		if w != nil {
			all = append(all, *w)
		}
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
