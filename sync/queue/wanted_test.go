package queue_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// TestWantedCallStaysQueued: several jobs request the same call, in this order, and then some want it no
// more.
func TestWantedCallStaysQueued(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked  []string
		wanted []string
		next   string // "" if the call is dropped
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
				s := statetest.Open(t, t.TempDir())
				for _, job := range c.asked {
					statetest.Enqueue(t, s, queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-of-" + job, Job: job})
					time.Sleep(time.Minute)
				}
				dropped, err := s.Queue.DropUnwanted(func(job string, _ outlier.Operation) bool { return slices.Contains(c.wanted, job) })
				if err != nil || (dropped == 1) != (c.next == "") {
					t.Errorf("%d tasks were dropped (%v)", dropped, err)
				}
				task, err := s.Queue.NextTask(time.Now(), queue.Filter{})
				switch {
				case err != nil:
					t.Fatal(err)
				case c.next == "" && task != nil:
					t.Errorf("%v is left", task)
				case c.next != "" && (task == nil || task.Job != c.next || task.Run != "run-of-"+c.next):
					t.Errorf("%+v is left, want that of %s", task, c.next)
				}
			})
		})
	}
}

// TestMadeCallForgetsNextJobs: a job that wanted a call that was made meanwhile does not inherit the next
// one.
func TestMadeCallForgetsNextJobs(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	task := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "a"}
	other := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-2", Job: "b"}
	statetest.Enqueue(t, s, task, other)
	statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, task, 0, false, time.Time{}) })
	statetest.Enqueue(t, s, task)
	dropped, err := s.Queue.DropUnwanted(func(job string, _ outlier.Operation) bool { return job == "b" })
	if left, failed := s.Queue.Queued(queue.Filter{}); dropped != 1 || left != 0 || err != nil || failed != nil {
		t.Errorf("%d dropped, %d left (%v, %v)", dropped, left, err, failed)
	}
}

// Cancelling the queue of a job keeps the calls that another job wants.
func TestCancelKeepsOtherJobsCalls(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, job := range []string{"a", "b"} {
		statetest.Enqueue(t, s, queue.Task{Op: outlier.OpDetails, Entity: "both", Run: "run-1", Job: job}, queue.Task{Op: outlier.OpDetails, Entity: job, Run: "run-1", Job: job})
	}
	statetest.Rename(t, s, "b", "c")
	for _, want := range []struct {
		job                 string
		dropped, kept, left int
	}{{"b", 0, 0, 3}, {"a", 1, 1, 2}, {"c", 2, 0, 0}} {
		n, kept, err := s.Queue.Cancel(want.job)
		left, failed := s.Queue.Queued(queue.Filter{})
		if n != want.dropped || kept != want.kept || left != want.left || err != nil || failed != nil {
			t.Errorf("job %s: %d dropped, %d kept, %d left (%v, %v), want %+v", want.job, n, kept, left, err, failed, want)
		}
	}
}

// TestEachJobSeesWhatItWants, whichever job asked first: what is next, whether anything is,
// how much waits, and who waits for it.
func TestEachJobSeesWhatItWants(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	task := func(job, entity string, value float64) queue.Task {
		return queue.Task{Op: outlier.OpDetails, Entity: entity, Run: "run-of-" + job, Job: job, Value: value}
	}
	statetest.Enqueue(t, s, task("a", "both", 1), task("a", "a", 2), task("b", "both", 1), task("b", "later", 1))
	statetest.Update(t, s, func(tx *store.Tx) error {
		return queue.Fail(tx, task("b", "later", 1), time.Now(), "time-out", time.Now().Add(time.Hour))
	})
	see := func(job, next string, queued int) {
		t.Helper()
		f := queue.Filter{Job: job}
		found, err := s.Queue.NextTask(time.Now(), f)
		pending, err2 := s.Queue.Pending(time.Now(), f)
		n, err3 := s.Queue.Queued(f)
		list := statetest.Listed(t, s, f)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if pending != (next != "") || (found != nil) != pending || pending && found.Entity != next || n != queued || len(list) != queued {
			t.Errorf("%s: pending %t, next %v, %d queued, listed %v; want %q of %d", job, pending, found, n, list, next, queued)
		}
	}
	see("a", "a", 2)
	see("b", "both", 2)
	see("c", "", 0)
	see("", "a", 3)
	if jobs := statetest.Next(t, s, queue.Filter{Job: "b"}).Wanting(); !slices.Equal(jobs, []string{"a", "b"}) {
		t.Errorf("%q want it", jobs)
	}
	statetest.Rename(t, s, "a", "z")
	if jobs := statetest.Next(t, s, queue.Filter{Job: "b"}).Wanting(); !slices.Equal(jobs, []string{"z", "b"}) {
		t.Errorf("%q want it after a rename, the first first", jobs)
	}
	statetest.Rename(t, s, "b", "z")
	see("z", "a", 3)
	statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, task("z", "both", 1), 0, false, time.Time{}) })
	see("z", "a", 2)
}

// TestNextJobIsCountedOnce: who inherits a call is the first who asked, and no other any more.
func TestNextJobIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	for _, job := range []string{"a", "b", "c"} {
		statetest.Enqueue(t, s, queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-of-" + job, Job: job})
	}
	if n, kept, err := s.Queue.Cancel("a"); n != 0 || kept != 1 || err != nil {
		t.Errorf("%d dropped (%v)", n, err)
	}
	for job, want := range map[string]int{"a": 0, "b": 1, "c": 1, "": 1} {
		if n, err := s.Queue.Queued(queue.Filter{Job: job}); n != want || err != nil {
			t.Errorf("%d calls wait for %q, want %d (%v)", n, job, want, err)
		}
	}
}

// TestCallTakesHighestRank of all jobs that want it: a call that one job values more comes sooner for the
// others.
func TestCallTakesHighestRank(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	call := func(job, entity string, value float64) queue.Task {
		return queue.Task{Op: outlier.OpDetails, Entity: entity, Run: "run-of-" + job, Job: job, Value: value}
	}
	statetest.Enqueue(t, s, call("a", "v1", 1), call("b", "v1", 1), call("b", "v2", 2), call("c", "v1", 5))
	for job, want := range map[string]string{"a": "v1", "b": "v1", "c": "v1", "": "v1"} {
		if task, err := s.Queue.NextTask(time.Now(), queue.Filter{Job: job}); err != nil || task == nil || task.Entity != want {
			t.Errorf("the next call for %q is %v, want that about %s (%v)", job, task, want, err)
		}
	}
}

// TestQueueIsClearedDuringCall: also while a call of the job is under way, whose
// answer is kept and known, and one that fails is no trouble either.
func TestQueueIsClearedDuringCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := statetest.Open(t, dir)
	task := func(job, entity string) queue.Task {
		return queue.Task{Op: outlier.OpDetails, Entity: entity, Run: "run-1", Job: job, MaxAge: time.Hour}
	}
	statetest.Enqueue(t, holder, task("a", "answered-01"), task("a", "failed"), task("a", "both"), task("b", "both"))
	request := statetest.DetailsRequest("answered-01")
	underWay := statetest.Reserve(t, holder, ledger.Purchase{Run: "run-1", Job: "a", Attempt: 1, Commit: func(tx *store.Tx, k ledger.Kept) error {
		return queue.Done(tx, task("a", "answered-01"), k.Response, false, time.Time{})
	}}, request)
	if err := underWay.Sending(); err != nil {
		t.Fatal(err)
	}
	dropped, kept, err := holder.Queue.Cancel("a")
	if dropped != 2 || kept != 1 || err != nil {
		t.Errorf("%d dropped, %d kept (%v), want 2 and 1", dropped, kept, err)
	}
	if err := underWay.Settle(statetest.AnswerTo(request, `{}`), outlier.Charged); err != nil {
		t.Errorf("the answer to a call that was cancelled is not kept: %v", err)
	}
	statetest.Update(t, holder, func(tx *store.Tx) error {
		return queue.Fail(tx, task("a", "failed"), time.Now(), "time-out", time.Now())
	})
	if n := statetest.Enqueue(t, holder, task("a", "answered-01")); n != 0 {
		t.Error("what was answered is asked for again")
	}
	if left := statetest.Next(t, holder, queue.Filter{}); left == nil || left.Entity != "both" || left.Job != "b" {
		t.Errorf("%+v is left, want what b wants", left)
	}
	if n, _, err := holder.Queue.Cancel("a"); n != 0 || err != nil {
		t.Errorf("%d dropped where there is nothing (%v)", n, err)
	}
}

func TestUnwantedCallsLeaveQueue(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Enqueue(t, s,
		queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas"},
		queue.Task{Op: outlier.OpComments, Entity: "v1", Run: "run-1", Job: "ideas"},
		queue.Task{Op: outlier.OpComments, Entity: "v2", Run: "run-1", Job: "ideas"},
		queue.Task{Op: outlier.OpDetails, Entity: "v3", Run: "run-2", Job: "gone"},
	)
	wanted := func(job string, op outlier.Operation) bool { return job == "ideas" && op == outlier.OpDetails }
	for _, want := range []int{3, 0} {
		if dropped, err := s.Queue.DropUnwanted(wanted); err != nil || dropped != want {
			t.Errorf("%d tasks were dropped (%v), want %d", dropped, err, want)
		}
	}
	left, err := s.Queue.Queued(queue.Filter{})
	if task := statetest.Next(t, s, queue.Filter{}); err != nil || left != 1 || task.Entity != "v1" || task.Op != outlier.OpDetails {
		t.Errorf("%d tasks are left (%v), the first %v", left, err, task)
	}
}
