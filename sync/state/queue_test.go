package state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
)

func enqueue(t testing.TB, s *Store, tasks ...Task) (queued int) {
	t.Helper()
	err := s.Update(func(tx *Tx) (err error) {
		queued, err = tx.Enqueue(tasks)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return queued
}

func next(t testing.TB, s *Store, f Filter) *Task {
	t.Helper()
	task, err := s.NextTask(time.Now(), f)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func update(t testing.TB, s *Store, f func(*Tx) error) {
	t.Helper()
	if err := s.Update(f); err != nil {
		t.Fatal(err)
	}
}

func TestOneRowServesAllWhoWantTheSame(t *testing.T) {
	s := open(t, t.TempDir())
	first := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas", Value: 1, MaxAge: time.Hour}
	second := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-2", Job: "rivals", Value: 5, MaxAge: 2 * time.Hour}
	third := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-3", Job: "news", Value: 2, MaxAge: time.Minute}
	if got := enqueue(t, s, first, second, third); got != 1 {
		t.Errorf("%d tasks joined the queue, want 1", got)
	}
	want := first
	want.Value, want.MaxAge = 5, time.Minute
	if diff := cmp.Diff(&want, next(t, s, Filter{})); diff != "" {
		t.Errorf("queued (-want +got):\n%s", diff)
	}
}

func TestTasksComeByValueAndAsTheFilterAllows(t *testing.T) {
	s := open(t, t.TempDir())
	enqueue(t, s,
		Task{Op: outlier.OpDetails, Entity: "low", Run: "run-1", Job: "ideas", Value: 1},
		Task{Op: outlier.OpDetails, Entity: "high", Run: "run-2", Job: "rivals", Value: 9},
		Task{Op: outlier.OpComments, Entity: "b", Run: "run-1", Job: "ideas", Value: 5},
		Task{Op: outlier.OpComments, Entity: "a", Run: "run-1", Job: "ideas", Value: 5},
		Task{Op: outlier.OpDetails, Entity: "later", Run: "run-1", Job: "ideas", Value: 99, NotBefore: time.Now().Add(time.Hour)},
	)
	for _, c := range []struct {
		filter Filter
		want   string
		queued int
	}{
		{Filter{}, "high", 5},
		{Filter{Job: "ideas"}, "a", 4},
		{Filter{Run: "run-2"}, "high", 1},
		{Filter{Run: "run-2", Job: "ideas"}, "", 0},
		{Filter{Job: "unheard of"}, "", 0},
	} {
		got := ""
		if task := next(t, s, c.filter); task != nil {
			got = task.Entity
		}
		n, err := s.Queued(c.filter)
		if got != c.want || n != c.queued || err != nil {
			t.Errorf("%+v: next is %q of %d (%v), want %q of %d", c.filter, got, n, err, c.want, c.queued)
		}
	}
}

func TestFailedTaskWaitsAndExpiresAWeekAfterItWasLastWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		task := Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas"}
		enqueue(t, s, task)
		update(t, s, func(tx *Tx) error { return tx.Fail(task, time.Now(), "time-out", time.Now().Add(time.Hour)) })
		if got := next(t, s, Filter{}); got != nil {
			t.Errorf("a failed task comes at once: %v", got)
		}
		time.Sleep(time.Hour)
		if got := next(t, s, Filter{}); got == nil || got.Attempts != 1 {
			t.Errorf("an hour later: %v, want the task after one attempt", got)
		}
		time.Sleep(6 * 24 * time.Hour)
		enqueue(t, s, task)
		time.Sleep(6 * 24 * time.Hour)
		if got := next(t, s, Filter{}); got == nil {
			t.Error("a task that was wanted 6 days ago is gone")
		}
		time.Sleep(24 * time.Hour)
		if got := next(t, s, Filter{}); got != nil {
			t.Errorf("a task that was last wanted a week ago is still there: %v", got)
		}
		update(t, s, func(tx *Tx) error { return tx.expire() })
		left := 0
		if err := s.view(func() error { return s.row(`SELECT count(*) FROM queue`).Scan(&left) }); err != nil || left > 0 {
			t.Errorf("%d expired tasks are left (%v)", left, err)
		}
	})
}

// TestQueueFollowsTheModel performs random wishes, answers and failures beside a
// model of the rules: freshness is judged per wish, one row serves all, the first
// requester stays, the higher value and the shorter age win.
func TestQueueFollowsTheModel(t *testing.T) {
	type answer struct {
		at, retry time.Time
		missing   bool
	}
	synctest.Test(t, func(t *testing.T) {
		s := hasty(t, open(t, t.TempDir()))
		checks := 0
		rapid.Check(t, func(r *rapid.T) {
			checks++ // every check has entities and a run of its own
			run := fmt.Sprint("run-", checks)
			queue, known := map[string]*Task{}, map[string]answer{}
			best := func() *Task {
				var best *Task
				for _, task := range queue {
					if task.NotBefore.After(time.Now()) {
						continue
					}
					if best == nil || task.Value > best.Value || task.Value == best.Value && task.Entity < best.Entity {
						best = task
					}
				}
				return best
			}
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				entity := fmt.Sprintf("%d-%d", checks, rapid.IntRange(0, 4).Draw(r, "entity"))
				task := Task{
					Op: outlier.OpDetails, Entity: entity, Run: run, Job: rapid.SampledFrom([]string{"ideas", "rivals"}).Draw(r, "job"),
					Value: float64(rapid.IntRange(0, 3).Draw(r, "value")), MaxAge: time.Duration(rapid.IntRange(0, 5).Draw(r, "age")) * time.Hour,
				}
				switch rapid.SampledFrom([]string{"want", "want", "answer", "miss", "fail", "wait"}).Draw(r, "what") {
				case "want":
					a, ok := known[entity]
					fresh := ok && (a.missing && time.Now().Before(a.retry) || !a.missing && time.Since(a.at) < task.MaxAge)
					joins := 0
					if old := queue[entity]; !fresh && old != nil {
						old.Value, old.MaxAge = max(old.Value, task.Value), min(old.MaxAge, task.MaxAge)
					} else if !fresh {
						queue[entity], joins = &task, 1
					}
					if got := enqueue(t, s, task); got != joins {
						r.Fatalf("%d tasks joined for %+v, want %d", got, task, joins)
					}
				case "answer", "miss":
					missing := rapid.Bool().Draw(r, "missing")
					a := answer{at: time.Now(), missing: missing, retry: time.Now().Add(90 * time.Minute)}
					update(t, s, func(tx *Tx) error { return tx.Done(task, 0, missing, a.retry) })
					known[entity] = a
					delete(queue, entity)
				case "fail":
					retry := time.Now().Add(30 * time.Minute).UTC()
					update(t, s, func(tx *Tx) error { return tx.Fail(task, time.Now(), "time-out", retry) })
					if old := queue[entity]; old != nil {
						old.Attempts++
						old.NotBefore = retry
					}
				case "wait":
					time.Sleep(time.Duration(rapid.IntRange(0, 120).Draw(r, "minutes")) * time.Minute)
				}
				if diff := cmp.Diff(best(), next(t, s, Filter{Run: run})); diff != "" {
					r.Fatalf("next task (-want +got):\n%s", diff)
				}
				if n, err := s.Queued(Filter{Run: run}); err != nil || n != len(queue) {
					r.Fatalf("%d tasks are queued (%v), want %d", n, err, len(queue))
				}
			}
		})
	})
}
