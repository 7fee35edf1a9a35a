package engine

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"outlierd/sync/state"
)

// A timeline foretells when what waits will be done, call by call, as a shift that
// works on it does: pages before data calls, those by rank, and what a run to come will
// ask for from the moment on at which it does.
type timeline struct {
	from   time.Time                     // since when there has always been something to do
	eta    func(calls int) time.Duration // how long after from the n-th call leaves
	calls  int                           // made since from
	sent   int                           // made in all
	coming []arrival                     // soonest first
	later  []*turn                       // may not be tried yet; soonest first
	ready  turns                         // best first
	left   map[string]int                // calls that a job waits for
	busy   map[string]bool               // jobs with a run under way, which a next one waits for
}

// turn is a place in the order: that of a task, or of calls to come.
type turn struct {
	rank  float64
	order int // among those of one rank
	task  *state.Waiting
	job   string // of calls to come
	calls int
}

// placed is a task and what comes of it.
type placed struct {
	*state.Waiting
	before int // calls that are made before it
	at     time.Time
}

// afterAll is the order of calls to come among those of their rank.
const afterAll = math.MaxInt

// turns is a heap of those whose turn it may be.
type turns []*turn

func (t turns) Len() int      { return len(t) }
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t turns) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[j].rank, t[i].rank), cmp.Compare(t[i].order, t[j].order)) < 0
}
func (t *turns) Push(x any) { *t = append(*t, x.(*turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// rankOf is what orders calls: their value, and a day of waiting as one more; see the
// queue of package state.
func rankOf(value float64, since time.Time) float64 {
	return value - float64(since.UnixMicro())/86400e6
}

// foretell places the tasks in the order in which they will be done.
func (e *Engine) foretell(now time.Time, tasks []state.Waiting, going []unfinished) ([]placed, error) {
	coming, err := e.outlook(now, going)
	if err != nil {
		return nil, err
	}
	l := &timeline{from: now, eta: e.Pace.ETA, coming: coming, left: map[string]int{}, busy: map[string]bool{}}
	for i := range going {
		l.busy[going[i].spec.Name] = going[i].underWay()
	}
	l.join(now, tasks)
	return l.play(len(tasks)), nil
}

// join gives the tasks their turns.
func (l *timeline) join(now time.Time, tasks []state.Waiting) {
	for i := range tasks {
		task := &tasks[i]
		t := &turn{rank: rankOf(task.Value, task.Since), order: i, task: task}
		if task.NotBefore.After(now) {
			l.later = append(l.later, t)
		} else {
			heap.Push(&l.ready, t)
			l.count(t, 1)
		}
	}
	slices.SortStableFunc(l.later, func(a, b *turn) int { return a.task.NotBefore.Compare(b.task.NotBefore) })
}

// play goes on until so many tasks have their place.
func (l *timeline) play(tasks int) (all []placed) {
	for len(all) < tasks {
		at := l.next()
		if l.admit(at) {
			continue // which pushes what waits back
		}
		if len(l.ready) == 0 {
			l.rest()
			continue
		}
		t := l.ready[0]
		if t.task != nil {
			all = append(all, placed{t.task, l.sent, at})
		} else {
			t.calls--
		}
		if t.task != nil || t.calls == 0 {
			heap.Pop(&l.ready)
		}
		l.count(t, -1)
		l.spend(1)
	}
	return all
}

// next is when the next call may leave.
func (l *timeline) next() time.Time { return l.from.Add(l.eta(l.calls + 1)) }

func (l *timeline) spend(calls int) {
	l.calls += calls
	l.sent += calls
}

// count keeps what each job waits for.
func (l *timeline) count(t *turn, n int) {
	if t.task == nil {
		l.left[t.job] += n
		return
	}
	for _, job := range append([]string{t.task.Job}, t.task.Others...) {
		l.left[job] += n
	}
}

// admit lets in what there is by then. It reports whether that was anything.
func (l *timeline) admit(at time.Time) (any bool) {
	for len(l.later) > 0 && !l.later[0].task.NotBefore.After(at) {
		heap.Push(&l.ready, l.later[0])
		l.count(l.later[0], 1)
		l.later, any = l.later[1:], true
	}
	for i := 0; i < len(l.coming) && !l.coming[i].at.After(at); i++ {
		a := l.coming[i]
		if !a.begun && l.busy[a.job] && l.left[a.job] > 0 {
			continue // it is begun when the run before has ended
		}
		l.begin(a, at)
		return true
	}
	return any
}

// begin lets a run in, together with the instants of its job that have passed meanwhile.
func (l *timeline) begin(a arrival, at time.Time) {
	l.coming = slices.DeleteFunc(l.coming, func(b arrival) bool { return b.job == a.job && !b.at.After(at) })
	l.busy[a.job] = true
	l.spend(a.pages)
	for _, call := range a.calls {
		if call.calls == 0 {
			continue
		}
		t := &turn{rank: rankOf(call.value, at), order: afterAll, job: a.job, calls: call.calls}
		heap.Push(&l.ready, t)
		l.count(t, call.calls)
	}
}

// rest passes the time until there is something to do: a task that may be tried, or a
// run. The window is free by then.
func (l *timeline) rest() {
	var until time.Time
	if len(l.later) > 0 {
		until = l.later[0].task.NotBefore
	}
	if len(l.coming) > 0 && (until.IsZero() || l.coming[0].at.Before(until)) {
		until = l.coming[0].at
	}
	first := l.eta(1)
	whole := l.eta
	l.from, l.calls = until, 0
	l.eta = func(calls int) time.Duration { return whole(calls) - first }
}
