package queue_test

import (
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

// keepQueued is how long a call stays queued.
const keepQueued = 7 * 24 * time.Hour

// Jobs that want the same call share one row with the lineage of the first, the highest value and the
// shortest age.
func TestJobsShareOneQueueRow(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	first := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas", Value: 1, MaxAge: time.Hour}
	second := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-2", Job: "rivals", Value: 5, MaxAge: 2 * time.Hour}
	third := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-3", Job: "news", Value: 2, MaxAge: time.Minute}
	if got := statetest.Enqueue(t, s, first, second, third); got != 1 {
		t.Errorf("%d tasks joined the queue, want 1", got)
	}
	want := first
	want.Value, want.MaxAge, want.Others = 5, time.Minute, []string{"news", "rivals"}
	if diff := cmp.Diff(&want, statetest.Next(t, s, queue.Filter{})); diff != "" {
		t.Errorf("queued (-want +got):\n%s", diff)
	}
}

// Tasks come in the order of their value, and only those that the filter allows.
func TestHighestValueTaskComesFirst(t *testing.T) {
	t.Parallel()
	s := statetest.Open(t, t.TempDir())
	statetest.Enqueue(t, s,
		queue.Task{Op: outlier.OpDetails, Entity: "low", Run: "run-1", Job: "ideas", Value: 1},
		queue.Task{Op: outlier.OpDetails, Entity: "high", Run: "run-2", Job: "rivals", Value: 9},
		queue.Task{Op: outlier.OpComments, Entity: "b", Run: "run-1", Job: "ideas", Value: 5},
		queue.Task{Op: outlier.OpComments, Entity: "a", Run: "run-1", Job: "ideas", Value: 5},
		queue.Task{Op: outlier.OpDetails, Entity: "later", Run: "run-1", Job: "ideas", Value: 99, Tries: outlier.Tries{NotBefore: time.Now().Add(time.Hour)}},
	)
	for _, c := range []struct {
		filter queue.Filter
		want   string
		queued int
	}{
		{queue.Filter{}, "high", 5},
		{queue.Filter{Job: "ideas"}, "a", 4},
		{queue.Filter{Job: "rivals"}, "high", 1},
		{queue.Filter{Job: "unheard of"}, "", 0},
	} {
		got := ""
		if task := statetest.Next(t, s, c.filter); task != nil {
			got = task.Entity
		}
		n, err := s.Queue.Queued(c.filter)
		if got != c.want || n != c.queued || err != nil {
			t.Errorf("%+v: next is %q of %d (%v), want %q of %d", c.filter, got, n, err, c.want, c.queued)
		}
	}
}

// TestWaitingAddsWorth: what is worth little is done one day, too.
func TestWaitingAddsWorth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		old := queue.Task{Op: outlier.OpDetails, Entity: "waits", Value: 1}
		statetest.Enqueue(t, s, old)
		for _, test := range []struct {
			after time.Duration
			want  string
		}{{time.Hour, "fresh-1h0m0s"}, {47 * time.Hour, "fresh-48h0m0s"}, {2 * time.Hour, "waits"}} {
			time.Sleep(test.after)
			fresh := queue.Task{Op: outlier.OpDetails, Entity: "fresh-" + time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).String(), Value: 3}
			statetest.Enqueue(t, s, fresh)
			if got := statetest.Next(t, s, queue.Filter{}); got.Entity != test.want {
				t.Errorf("next is %s, want %s", got.Entity, test.want)
			}
			statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, fresh, 0, false, time.Time{}) })
		}
	})
}

// TestUnmovedNumberNeedsNoOtherAnswer: as many comments as there were when they were
// fetched are the same comments, however long ago that was.
func TestUnmovedNumberNeedsNoOtherAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		with := func(n int64) queue.Task {
			return queue.Task{Op: outlier.OpComments, Entity: "v1", MaxAge: time.Hour, Mark: &n}
		}
		statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, with(12), 0, false, time.Time{}) })
		time.Sleep(30 * 24 * time.Hour)
		unknown := with(0)
		unknown.Mark = nil
		for _, test := range []struct {
			task queue.Task
			want int
		}{{with(12), 0}, {with(13), 1}} {
			if got := statetest.Enqueue(t, s, test.task); got != test.want {
				t.Errorf("with %d comments %d calls are wanted, want %d", *test.task.Mark, got, test.want)
			}
		}
		statetest.Update(t, s, func(tx *store.Tx) error { return queue.Done(tx, unknown, 0, false, time.Time{}) })
		time.Sleep(2 * time.Hour)
		if got := statetest.Enqueue(t, s, with(13)); got != 1 {
			t.Error("an answer of which the number is not known is as good as any other")
		}
	})
}

// A failed task waits for its retry, and expires a week after a job last wanted it.
func TestFailedTaskWaitsAndExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		task := queue.Task{Op: outlier.OpDetails, Entity: "v1", Run: "run-1", Job: "ideas"}
		statetest.Enqueue(t, s, task)
		statetest.Update(t, s, func(tx *store.Tx) error {
			return queue.Fail(tx, task, time.Now(), "time-out", time.Now().Add(time.Hour))
		})
		if got := statetest.Next(t, s, queue.Filter{}); got != nil {
			t.Errorf("a failed task comes at once: %v", got)
		}
		time.Sleep(time.Hour)
		if got := statetest.Next(t, s, queue.Filter{}); got == nil || got.Attempts != 1 {
			t.Errorf("an hour later: %v, want the task after one attempt", got)
		}
		time.Sleep(6 * 24 * time.Hour)
		statetest.Enqueue(t, s, task)
		time.Sleep(6 * 24 * time.Hour)
		if got := statetest.Next(t, s, queue.Filter{}); got == nil {
			t.Error("a task that was wanted 6 days ago is gone")
		}
		time.Sleep(24 * time.Hour)
		s.Clock.Confirm()
		statetest.Update(t, s, func(tx *store.Tx) error {
			return s.Queue.Expire(tx)
		})
		if got := statetest.Next(t, s, queue.Filter{}); got != nil {
			t.Errorf("a task that was last wanted a week ago is still there: %v", got)
		}
	})
}

// TestQueueFollowsTheModel performs random wishes, answers and failures beside a
// model of the rules: freshness is judged per wish, one row serves all, the first
// requester stays, the higher value and the shorter age win, and waiting adds worth.
func TestQueueFollowsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &wishes{t: t, s: statetest.Hasty(t, statetest.Open(t, t.TempDir())), queue: map[string]*queue.Task{}, since: map[string]time.Time{}, known: map[string]news{}}
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				w.step(r)
				w.check(r)
			}
		})
	})
}

// wishes are a store and what is known of its queue.
type wishes struct {
	t     *testing.T
	s     *state.Store
	queue map[string]*queue.Task
	since map[string]time.Time // when each joined the queue
	known map[string]news
}

// news is what is known of an entity.
type news struct {
	at, retry time.Time
	missing   bool
	mark      *int64
}

func (w *wishes) step(r *rapid.T) {
	task := queue.Task{
		Op: outlier.OpDetails, Entity: rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(r, "entity"),
		Job:    rapid.SampledFrom([]string{"ideas", "rivals"}).Draw(r, "job"),
		Value:  float64(rapid.IntRange(0, 3).Draw(r, "value")),
		MaxAge: time.Duration(rapid.IntRange(0, 5).Draw(r, "age")) * time.Hour,
		Mark:   rapid.SampledFrom([]*int64{nil, new(int64(7)), new(int64(8))}).Draw(r, "mark"),
	}
	switch rapid.SampledFrom([]string{"want", "want", "done", "fail", "wait"}).Draw(r, "what") {
	case "want":
		if got, joins := statetest.Enqueue(w.t, w.s, task), w.want(task); got != joins {
			r.Fatalf("%d tasks joined for %+v, want %d", got, task, joins)
		}
	case "done":
		n := news{at: time.Now(), retry: time.Now().Add(90 * time.Minute), missing: rapid.Bool().Draw(r, "missing"), mark: task.Mark}
		statetest.Update(w.t, w.s, func(tx *store.Tx) error { return queue.Done(tx, task, 0, n.missing, n.retry) })
		w.known[task.Entity] = n
		delete(w.queue, task.Entity)
	case "fail":
		retry := time.Now().Add(30 * time.Minute).UTC()
		statetest.Update(w.t, w.s, func(tx *store.Tx) error { return queue.Fail(tx, task, time.Now(), "time-out", retry) })
		if queued := w.queue[task.Entity]; queued != nil {
			queued.Attempts++
			queued.NotBefore = retry
		}
	case "wait":
		time.Sleep(time.Duration(rapid.IntRange(0, 120).Draw(r, "minutes")) * time.Minute)
	}
}

// want is the number of tasks that join the queue by this wish.
func (w *wishes) want(task queue.Task) int {
	n, ok := w.known[task.Entity]
	unmoved := n.mark != nil && task.Mark != nil && *n.mark == *task.Mark
	if ok && (n.missing && time.Now().Before(n.retry) || !n.missing && (unmoved || time.Since(n.at) < task.MaxAge)) {
		return 0
	}
	if queued := w.queue[task.Entity]; queued != nil {
		queued.Value, queued.MaxAge = max(queued.Value, task.Value), min(queued.MaxAge, task.MaxAge)
		if task.Mark != nil {
			queued.Mark = task.Mark
		}
		if task.Job != queued.Job && !slices.Contains(queued.Others, task.Job) {
			queued.Others = slices.Sorted(slices.Values(append(queued.Others, task.Job)))
		}
		return 0
	}
	task.Others = []string{}
	w.queue[task.Entity], w.since[task.Entity] = &task, time.Now()
	return 1
}

// rank is what a task is worth beside others: its value, and a day of waiting as one more.
func (w *wishes) rank(task *queue.Task) float64 {
	return task.Value - float64(w.since[task.Entity].UnixMicro())/86400e6
}

func (w *wishes) best() (best *queue.Task) {
	for _, task := range w.queue {
		switch {
		case task.NotBefore.After(time.Now()):
		case best == nil, w.rank(task) > w.rank(best), w.rank(task) == w.rank(best) && task.Entity < best.Entity:
			best = task
		}
	}
	return best
}

func (w *wishes) check(r *rapid.T) {
	if diff := cmp.Diff(w.best(), statetest.Next(w.t, w.s, queue.Filter{})); diff != "" {
		r.Fatalf("next task (-want +got):\n%s", diff)
	}
	if n, err := w.s.Queue.Queued(queue.Filter{}); err != nil || n != len(w.queue) {
		r.Fatalf("%d tasks are queued (%v), want %d", n, err, len(w.queue))
	}
}

// TestNextRetryIgnoresReadyTasks, tasks of other jobs and expired ones, which are no reason to wake up.
func TestNextRetryIgnoresReadyTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		now := time.Now()
		when := func(f queue.Filter) time.Duration {
			at, err := s.Queue.NextRetry(time.Now(), f)
			if err != nil {
				t.Fatal(err)
			}
			if at.IsZero() {
				return 0
			}
			return at.Sub(now)
		}
		if got := when(queue.Filter{}); got != 0 {
			t.Errorf("an empty queue wakes somebody after %s", got)
		}
		statetest.Enqueue(t, s,
			queue.Task{Op: outlier.OpDetails, Entity: "ready", Run: "run-1", Job: "ideas"},
			queue.Task{Op: outlier.OpDetails, Entity: "late", Run: "run-1", Job: "ideas", Tries: outlier.Tries{NotBefore: now.Add(2 * time.Hour)}},
			queue.Task{Op: outlier.OpDetails, Entity: "soon", Run: "run-2", Job: "rivals", Tries: outlier.Tries{NotBefore: now.Add(time.Hour)}})
		for f, want := range map[queue.Filter]time.Duration{{}: time.Hour, {Job: "ideas"}: 2 * time.Hour, {Job: "rivals"}: time.Hour, {Job: "news"}: 0} {
			if got := when(f); got != want {
				t.Errorf("for %+v after %s, want %s", f, got, want)
			}
		}
		time.Sleep(keepQueued)
		if got := when(queue.Filter{}); got != 0 {
			t.Errorf("what has expired wakes somebody after %s", got)
		}
	})
}

// TestARepeatedCallLetsOthersLeave: it waits for its own next attempt. Two that wait say that the service may be away.
func TestARepeatedCallLetsOthersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := statetest.Open(t, t.TempDir())
		for i, entity := range []string{"first", "second", "third"} {
			statetest.Enqueue(t, s, queue.Task{Op: outlier.OpDetails, Entity: entity, Job: "ideas", Value: float64(9 - i)})
		}
		fail := func(entity string, tries outlier.Tries) {
			statetest.Update(t, s, func(tx *store.Tx) error { return queue.SaveTries(tx, outlier.OpDetails, entity, tries) })
		}
		next := func(want string) {
			t.Helper()
			got := ""
			if task := statetest.Next(t, s, queue.Filter{}); task != nil {
				got = task.Entity
			}
			pending, err := s.Queue.Pending(time.Now(), queue.Filter{Job: "ideas"})
			if got != want || !pending || err != nil {
				t.Errorf("next is %q, and a call is pending: %t (%v); want %q", got, pending, err, want)
			}
		}
		next("first")
		fail("first", outlier.Tries{Failures: 1, NotBefore: time.Now().Add(time.Second)})
		next("second")
		fail("second", outlier.Tries{Failures: 1, NotBefore: time.Now().Add(4 * time.Second)})
		next("")
		time.Sleep(time.Second)
		next("first")
		fail("second", outlier.Tries{Failures: 1, NotBefore: time.Now().Add(48 * time.Hour)}) // by a clock that was ahead
		fail("first", outlier.Tries{Failures: 2, NotBefore: time.Now().Add(4 * time.Second)})
		next("third")
	})
}
