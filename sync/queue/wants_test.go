package queue_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// manyTasks are tasks of a job.
func manyTasks(job string) (all []queue.Task) {
	for n := range 1200 {
		all = append(all, queue.Task{Op: outlier.OpDetails, Entity: fmt.Sprintf("video-%05d", n), Run: "run-of-" + job, Job: job, MaxAge: time.Hour})
	}
	return all
}

// TestExpiredTasksAreDropped: what no job has requested for a week, once the service has confirmed the time.
func TestExpiredTasksAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
		statetest.Enqueue(t, s, manyTasks("a")...)
		time.Sleep(keepQueued)
		statetest.Enqueue(t, s, queue.Task{Op: outlier.OpComments, Entity: "fresh", Job: "a", Value: -1})
		for _, left := range []int{1201, 1, 1} {
			statetest.Update(t, s, func(tx *store.Tx) error {
				return s.Queue.Expire(tx)
			})
			if n, err := s.Queue.Queued(queue.Filter{Job: "a"}); n != left || err != nil {
				t.Errorf("%d calls are queued (%v), want %d", n, err, left)
			}
			s.Clock.Confirm()
		}
		if task := statetest.Next(t, s, queue.Filter{}); task == nil || task.Entity != "fresh" {
			t.Errorf("the next call is %v", task)
		}
	})
}

// want is a call of the model.
type want struct{ op, entity string }

// TestQueueIsWhatJobsWant, through everything that changes it: it has the calls of a model, each with the jobs that
// want it in the order in which they asked.
func TestQueueIsWhatJobsWant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			s.Clock.Confirm()
			jobs := []string{"a", "b", "c"}
			model, asked := map[want][]string{}, map[want]time.Time{}
			withdraw := func(job string, from func(want) bool) {
				for w, all := range model {
					if !from(w) {
						continue
					}
					if model[w] = slices.DeleteFunc(all, func(j string) bool { return j == job }); len(model[w]) == 0 {
						delete(model, w)
					}
				}
			}
			for n := range rapid.IntRange(1, 30).Draw(r, "steps") {
				job := rapid.SampledFrom(jobs).Draw(r, "job")
				task := queue.Task{
					Op:     rapid.SampledFrom([]outlier.Operation{outlier.OpDetails, outlier.OpComments}).Draw(r, "op"),
					Entity: rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(r, "entity"),
					Job:    job, Run: fmt.Sprint("run-", n), Value: float64(rapid.IntRange(0, 3).Draw(r, "value")),
				}
				w := want{string(task.Op), task.Entity}
				var err error
				switch rapid.SampledFrom([]string{"want", "want", "want", "done", "fail", "clear", "drop", "rename", "expire"}).Draw(r, "what") {
				case "want":
					statetest.Enqueue(t, s, task)
					if asked[w] = time.Now(); !slices.Contains(model[w], job) {
						model[w] = append(model[w], job)
					}
				case "done":
					statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, task, 0, false, time.Time{}) })
					delete(model, w)
				case "fail":
					statetest.Update(t, s, func(tx *store.Tx) error {
						return queue.Fail(tx, task, time.Now(), "time-out", time.Now().Add(time.Hour))
					})
				case "clear":
					_, _, err = s.Queue.Cancel(job)
					withdraw(job, func(want) bool { return true })
				case "drop":
					_, err = s.Queue.DropUnwanted(func(j string, op outlier.Operation) bool { return j != job || op != task.Op })
					withdraw(job, func(of want) bool { return of.op == w.op })
				case "rename":
					to := rapid.SampledFrom(jobs).Draw(r, "to")
					done := to == job
					if !done {
						err = s.DB.Update(func(tx *store.Tx) (err error) {
							if done, err = runs.Rename(tx, job, to); !done && err == nil {
								err = queue.Rename(tx, job, to)
							}
							return err
						})
					}
					if done {
						continue
					}
					for of, all := range model {
						if slices.Contains(all, to) {
							withdraw(job, func(other want) bool { return other == of })
						} else if i := slices.Index(all, job); i >= 0 {
							all[i] = to
						}
					}
				case "expire":
					time.Sleep(rapid.SampledFrom([]time.Duration{time.Hour, keepQueued}).Draw(r, "while"))
					s.Clock.Confirm()
					statetest.Update(t, s, func(tx *store.Tx) error {
						return s.Queue.Expire(tx)
					})
					maps.DeleteFunc(model, func(w want, _ []string) bool { return time.Since(asked[w]) >= keepQueued })
				}
				if err != nil {
					r.Fatal(err)
				}
				got, expected := map[want][]string{}, map[want][]string{} // the first job, then the others by name
				for _, w := range statetest.Listed(t, s, queue.Filter{}) {
					of := want{string(w.Op), w.Entity}
					got[of] = w.Wanting()
					slices.Sort(got[of][1:])
				}
				for of, jobs := range model {
					listed := slices.Clone(jobs)
					slices.Sort(listed[1:])
					expected[of] = listed
				}
				if diff := cmp.Diff(expected, got); diff != "" {
					r.Fatalf("queue (-want +got):\n%s", diff)
				}
			}
		})
	})
}

// TestFreshnessIsRenewedByEveryAnswer: what was asked for again is as fresh as its latest
// answer, and not as its first.
func TestFreshnessIsRenewedByEveryAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		task := queue.Task{Op: outlier.OpDetails, Entity: "v1", Job: "a", MaxAge: 24 * time.Hour}
		retry := func() time.Time { return time.Now().Add(24 * time.Hour) }
		for _, missing := range []bool{false, false, true, true, false} {
			if n := statetest.Enqueue(t, s, task); n != 1 {
				t.Fatalf("%d calls are wanted before an answer", n)
			}
			statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, task, 0, missing, retry()) })
			time.Sleep(23 * time.Hour)
			if n := statetest.Enqueue(t, s, task); n != 0 {
				t.Errorf("an answer of 23 hours ago (missing: %t) is asked for again", missing)
			}
			if n, err := s.Queue.Fresh(task.Op, []string{"v1", "v2"}, time.Now().Add(-task.MaxAge), time.Now()); n != 1 || err != nil {
				t.Errorf("%d of two are said to be known, want 1 (%v)", n, err)
			}
			time.Sleep(time.Hour)
			if n, err := s.Queue.Fresh(task.Op, []string{"v1", "v2"}, time.Now().Add(-task.MaxAge), time.Now()); n != 0 || err != nil {
				t.Errorf("%d of two are said to be known after a day (%v)", n, err)
			}
		}
	})
}
