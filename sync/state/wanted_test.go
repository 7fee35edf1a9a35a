package state

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
)

// TestCallStaysWhileAnyJobWantsIt: several jobs ask for the same, in this order; then
// some want it no more.
func TestCallStaysWhileAnyJobWantsIt(t *testing.T) {
	for name, c := range map[string]struct {
		asked  []string
		wanted []string
		heir   string // "" if the call is dropped
	}{
		"all want it":                       {[]string{"a", "b"}, []string{"a", "b"}, "a"},
		"the first does not":                {[]string{"a", "b"}, []string{"b"}, "b"},
		"the second does not":               {[]string{"a", "b"}, []string{"a"}, "a"},
		"the first two of three do not":     {[]string{"a", "b", "c"}, []string{"c"}, "c"},
		"the first of three does not":       {[]string{"a", "c", "b"}, []string{"b", "c"}, "c"},
		"nobody does":                       {[]string{"a", "b"}, nil, ""},
		"the first asked again and goes":    {[]string{"a", "b", "a"}, []string{"b"}, "b"},
		"the only one asked twice and goes": {[]string{"a", "a"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, t.TempDir())
				for _, job := range c.asked {
					enqueue(t, s, Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-of-" + job, Job: job})
					time.Sleep(time.Minute)
				}
				dropped, err := s.DropUnwanted(func(job string, _ outlier.Operation) bool { return slices.Contains(c.wanted, job) })
				if err != nil || (dropped == 1) != (c.heir == "") {
					t.Errorf("%d tasks were dropped (%v)", dropped, err)
				}
				task, err := s.NextTask(time.Now(), Filter{})
				switch {
				case err != nil:
					t.Fatal(err)
				case c.heir == "" && task != nil:
					t.Errorf("%v is left", task)
				case c.heir != "" && (task == nil || task.Job != c.heir || task.Run != "run-of-"+c.heir):
					t.Errorf("%+v is left, want that of %s", task, c.heir)
				}
			})
		})
	}
}

// TestHeirsAreForgottenWithTheCall: whoever wanted a call that was made meanwhile does
// not inherit the next one.
func TestHeirsAreForgottenWithTheCall(t *testing.T) {
	s := open(t, t.TempDir())
	task := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "a"}
	other := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-2", Job: "b"}
	enqueue(t, s, task, other)
	update(t, s, func(tx *Tx) error { return tx.Done(task, 0, false, time.Time{}) })
	enqueue(t, s, task)
	dropped, err := s.DropUnwanted(func(job string, _ outlier.Operation) bool { return job == "b" })
	if left, failed := s.Queued(Filter{}); dropped != 1 || left != 0 || err != nil || failed != nil {
		t.Errorf("%d dropped, %d left (%v, %v)", dropped, left, err, failed)
	}
}

func TestClearedQueueKeepsWhatAnotherJobWants(t *testing.T) {
	s := open(t, t.TempDir())
	for _, job := range []string{"a", "b"} {
		enqueue(t, s, Task{Op: outlier.OpDetails, Entity: "both", Run: "run-1", Job: job}, Task{Op: outlier.OpDetails, Entity: job, Run: "run-1", Job: job})
	}
	rename(t, s, "b", "c")
	for _, want := range []struct {
		job           string
		dropped, left int
	}{{"b", 0, 3}, {"a", 1, 2}, {"c", 2, 0}} {
		n, err := s.ClearQueue(want.job)
		left, failed := s.Queued(Filter{})
		if n != int64(want.dropped) || left != want.left || err != nil || failed != nil {
			t.Errorf("job %s: %d dropped, %d left (%v, %v), want %d and %d", want.job, n, left, err, failed, want.dropped, want.left)
		}
	}
}

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
