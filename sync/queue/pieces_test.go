package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// manyTasks are tasks of a job, more than one piece takes.
func manyTasks(job string) (all []queue.Task) {
	for n := range 1200 {
		all = append(all, queue.Task{Op: outlier.OpDetails, Entity: fmt.Sprintf("video-%05d", n), Run: "run-of-" + job, Job: job, MaxAge: time.Hour})
	}
	return all
}

// interrupted is a context that has ended: of a long change it leaves the first piece done.
func interrupted() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestLongChangesGoInPieces: each is interrupted after its first piece. What it leaves is
// a queue as good as any, and when it is made again it does the rest.
func TestLongChangesGoInPieces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(context.Context, *state.Store) error
		left   map[string]int // calls of the jobs when it is through
	}{
		"queue many": {func(ctx context.Context, s *state.Store) error {
			return s.Queue.Add(ctx, slices.Values(manyTasks("c")), nil)
		}, map[string]int{"a": 1200, "b": 600, "c": 1200}},
		"clear the queue of a job": {func(ctx context.Context, s *state.Store) error {
			_, _, err := s.Queue.Cancel(ctx, "a")
			return err
		}, map[string]int{"a": 0, "b": 600}},
		"clear what a job shares": {func(ctx context.Context, s *state.Store) error {
			_, _, err := s.Queue.Cancel(ctx, "b")
			return err
		}, map[string]int{"a": 1200, "b": 0}},
		"drop what is not wanted": {func(ctx context.Context, s *state.Store) error {
			_, err := s.Queue.DropUnwanted(ctx, func(job string, _ outlier.Operation) bool { return job == "b" })
			return err
		}, map[string]int{"a": 0, "b": 600}},
		"rename": {func(ctx context.Context, s *state.Store) error {
			return s.Rename(ctx, "a", "z")
		}, map[string]int{"a": 0, "b": 600, "z": 1200}},
		"rename to who shares": {func(ctx context.Context, s *state.Store) error {
			return s.Rename(ctx, "b", "a")
		}, map[string]int{"a": 1200, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			statetest.Enqueue(t, s, manyTasks("a")...)
			statetest.Enqueue(t, s, manyTasks("b")[:600]...)
			before := queuedBy(t, s)
			if err := c.change(interrupted(), s); !errors.Is(err, context.Canceled) {
				t.Fatalf("it ended with %v, and not after a piece", err)
			}
			after := queuedBy(t, s)
			if cmp.Equal(before, after) || cmp.Equal(after, c.left) {
				t.Errorf("a piece has led from %v to %v", before, after)
			}
			if done, err := s.Runs.Renamed("a", "z"); done || err != nil {
				t.Errorf("half a rename counts as one (%v)", err)
			}
			checkCounts(t, s)
			if err := c.change(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			for job, want := range c.left {
				if got := queuedBy(t, s)[job]; got != want {
					t.Errorf("%d calls of %s are left, want %d", got, job, want)
				}
			}
			checkCounts(t, s)
		})
	}
}

// TestTasksExpireInPieces: one piece at a time, and none of what has expired is done.
func TestTasksExpireInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
		statetest.Enqueue(t, s, manyTasks("a")...)
		time.Sleep(keepQueued)
		statetest.Enqueue(t, s, queue.Task{Op: outlier.OpComments, Entity: "fresh", Job: "a", Value: -1})
		s.Ledger.ConfirmClock()
		left := []int{}
		for more := true; more; {
			var err error
			if more, err = s.Queue.Expire(); err != nil {
				t.Fatal(err)
			}
			rows := 0
			if err := s.DB.View(func(tx *store.Tx) error { return tx.Row(`SELECT count(*) FROM queue`).Scan(&rows) }); err != nil {
				t.Fatal(err)
			}
			left = append(left, rows)
			if n, err := s.Queue.Queued(queue.Filter{Job: "a"}); n != 1 || err != nil {
				t.Errorf("%d calls are queued while others expire (%v)", n, err)
			}
			if task := statetest.Next(t, s, queue.Filter{}); task == nil || task.Entity != "fresh" {
				t.Errorf("the next call is %v", task)
			}
		}
		if want := []int{201, 1, 1}; !slices.Equal(left, want) {
			t.Errorf("%v rows were left, want %v", left, want)
		}
		checkCounts(t, s)
	})
}

// queuedBy counts the calls that each job wants.
func queuedBy(t testing.TB, s *state.Store) map[string]int {
	t.Helper()
	counts, err := s.Queue.Counts()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, c := range counts {
		by[c.Job] += c.Asked + c.Shared
	}
	return by
}

// checkCounts holds what is counted and copied as the queue changes against the queue itself.
func checkCounts(t testing.TB, s *state.Store) {
	t.Helper()
	for what, query := range map[string]string{
		"counts": `SELECT count(*) FROM (SELECT job, op, asked, shared FROM queue_counts WHERE asked > 0 OR shared > 0
			EXCEPT SELECT job, op, sum(first), sum(NOT first) FROM queue_wants GROUP BY job, op)`,
		"counted": `SELECT count(*) FROM (SELECT job, op, sum(first), sum(NOT first) FROM queue_wants GROUP BY job, op
			EXCEPT SELECT job, op, asked, shared FROM queue_counts)`,
		"shared calls":     `SELECT count(*) FROM queue_others o JOIN queue q USING (op, entity) WHERE (o.rank, o.not_before) <> (q.rank, q.not_before)`,
		"jobs named twice": `SELECT count(*) FROM queue_others o JOIN queue q USING (op, entity) WHERE o.job = q.job`,
	} {
		wrong := 0
		if err := s.DB.View(func(tx *store.Tx) error { return tx.Row(query).Scan(&wrong) }); err != nil || wrong > 0 {
			t.Errorf("%s: %d rows are wrong (%v)", what, wrong, err)
		}
	}
}

// TestCountsFollowTheQueue through everything that changes it.
func TestCountsFollowTheQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := statetest.Hasty(t, statetest.Open(t, t.TempDir()))
			jobs := []string{"a", "b", "c"}
			for n := range rapid.IntRange(1, 30).Draw(r, "steps") {
				job := rapid.SampledFrom(jobs).Draw(r, "job")
				task := queue.Task{
					Op:     rapid.SampledFrom([]outlier.Operation{outlier.OpDetails, outlier.OpComments}).Draw(r, "op"),
					Entity: rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(r, "entity"),
					Job:    job, Run: fmt.Sprint("run-", n), Value: float64(rapid.IntRange(0, 3).Draw(r, "value")),
				}
				var err error
				switch rapid.SampledFrom([]string{"want", "want", "want", "done", "fail", "clear", "drop", "rename", "expire"}).Draw(r, "what") {
				case "want":
					statetest.Enqueue(t, s, task)
				case "done":
					statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, task, 0, false, time.Time{}) })
				case "fail":
					statetest.Update(t, s, func(tx *store.Tx) error {
						return queue.Fail(tx, task, time.Now(), "time-out", time.Now().Add(time.Hour))
					})
				case "clear":
					_, _, err = s.Queue.Cancel(t.Context(), job)
				case "drop":
					_, err = s.Queue.DropUnwanted(t.Context(), func(j string, op outlier.Operation) bool { return j != job || op != task.Op })
				case "rename":
					if to := rapid.SampledFrom(jobs).Draw(r, "to"); to != job {
						err = s.Rename(t.Context(), job, to)
					}
				case "expire":
					time.Sleep(rapid.SampledFrom([]time.Duration{time.Hour, keepQueued}).Draw(r, "while"))
					_, err = s.Queue.Expire()
				}
				if err != nil {
					r.Fatal(err)
				}
				checkCounts(t, s)
			}
			if t.Failed() {
				r.Fatal("the counts are wrong")
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
