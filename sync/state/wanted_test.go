package state

import (
	"testing"

	"outlierd/outlier"
)

func TestWhatNoJobWantsAnyMoreLeavesTheQueue(t *testing.T) {
	s := open(t, t.TempDir())
	enqueue(t, s,
		Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas"},
		Task{Op: outlier.OpComments, Entity: "v1", Run: "run-1", Job: "ideas"},
		Task{Op: outlier.OpComments, Entity: "v2", Run: "run-1", Job: "ideas"},
		Task{Op: outlier.OpDetails, Entity: "v3", Run: "run-2", Job: "gone"},
	)
	wanted := func(job string, op outlier.Operation) bool { return job == "ideas" && op == outlier.OpDetails }
	for _, want := range []int{3, 0} {
		if dropped, err := s.DropUnwanted(wanted); err != nil || dropped != want {
			t.Errorf("%d tasks were dropped (%v), want %d", dropped, err, want)
		}
	}
	left, err := s.Queued(Filter{})
	if task := next(t, s, Filter{}); err != nil || left != 1 || task.Entity != "v1" || task.Op != outlier.OpDetails {
		t.Errorf("%d tasks are left (%v), the first %v", left, err, task)
	}
}
