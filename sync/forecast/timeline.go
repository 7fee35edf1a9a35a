package forecast

import (
	"container/heap"
	"context"
	"slices"
	"sort"
	"time"

	"outlierd/outlier"
	"outlierd/sync/queue"
)

// A timeline estimates when queued calls will be made, in the order in which a worker makes them: pages
// before data calls, data calls by rank, and the calls of later runs from their due time on.
type timeline struct {
	from      time.Time                     // start of the current period without idle time
	eta       func(calls int) time.Duration // time from `from` until the n-th call leaves
	calls     int                           // calls made since from
	sent      int                           // calls made in total
	coming    []arrival                     // later runs, soonest first
	ready     []*turn                       // tasks that may be tried now, best first
	failed    []*turn                       // tasks in back-off, soonest first
	admitted  turns                         // tasks whose back-off has ended, and calls of later runs; best first
	remaining int                           // tasks whose time is requested and not yet yielded
	left      map[string]int                // calls that a job waits for before its next run starts
	busy      map[string]bool               // jobs with a run in progress, which their next run waits for
}

// turn is a place in the order: of a task, or of calls of a later run.
type turn struct {
	queue.Place
	calls int
	task  bool // it is the task at Place
	asked bool // the task's time is requested
}

// placed is a task with its estimated time.
type placed struct {
	queue.Place
	before int // number of calls before it
	at     time.Time
}

// laterCalls is the operation of the calls of later runs in the order. It sorts after all tasks of the
// same rank.
const laterCalls outlier.Operation = "~"

// turns is a heap of turns.
type turns []*turn

func (t turns) Len() int           { return len(t) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t turns) Less(i, j int) bool { return t[i].Compare(&t[j].Place) < 0 }
func (t *turns) Push(x any)        { *t = append(*t, x.(*turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// rankOf returns the rank of calls: their value, plus one for each day of waiting; see the order of package
// queue.
func rankOf(value float64, since time.Time) float64 {
	return value - float64(since.UnixMicro())/86400e6
}

// timeline returns a timeline for the tasks that pass the filter.
func (r *Reader) timeline(ctx context.Context, now time.Time, of queue.Filter, going []unfinished) (
	*timeline, error) {
	coming, err := r.outlook(ctx, now, going)
	if err != nil {
		return nil, err
	}
	l := &timeline{from: now, eta: r.Pace.ETA, coming: coming, left: map[string]int{}, busy: map[string]bool{}}
	for i := range going {
		l.busy[going[i].spec.Name] = going[i].continuesByItself()
	}
	places, err := r.Facts.Store.Queue.Order()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		t := &turn{Place: p, calls: 1, task: true, asked: of.Job == "" || slices.Contains(p.Jobs, of.Job)}
		if t.asked {
			l.remaining++
		}
		if p.NotBefore.After(now) {
			l.failed = append(l.failed, t)
		} else {
			l.ready = append(l.ready, t)
			l.count(t, 1)
		}
	}
	slices.SortStableFunc(l.failed, func(a, b *turn) int { return a.NotBefore.Compare(b.NotBefore) })
	return l, nil
}

// play yields the tasks whose time is requested, in the order in which they will be done, until yield
// returns false or there are none left.
func (l *timeline) play(yield func(placed) bool) {
	for l.remaining > 0 {
		at := l.next()
		if l.admit(at) {
			continue // the admitted calls delay the others
		}
		if len(l.ready)+len(l.admitted) == 0 {
			l.skip()
			continue
		}
		var t *turn
		if len(l.admitted) > 0 && (len(l.ready) == 0 || l.admitted[0].Compare(&l.ready[0].Place) < 0) {
			t = l.admitted[0]
		} else {
			t = l.ready[0]
		}
		if t.asked {
			if l.remaining--; !yield(placed{t.Place, l.sent, at}) {
				return
			}
		}
		n := l.callsUntilChange(t.calls)
		if t.calls -= n; t.calls == 0 {
			if len(l.admitted) > 0 && t == l.admitted[0] {
				heap.Pop(&l.admitted)
			} else {
				l.ready = l.ready[1:]
			}
		}
		l.count(t, -n)
		l.spend(n)
	}
}

// next returns when the next call may be sent.
func (l *timeline) next() time.Time { return l.from.Add(l.eta(l.calls + 1)) }

// callsUntilChange returns how many of the next calls, at least one, are sent before the order can change.
func (l *timeline) callsUntilChange(calls int) int {
	if calls == 1 {
		return 1
	}
	var change time.Time
	if len(l.failed) > 0 {
		change = l.failed[0].NotBefore
	}
	for i := range l.coming {
		if a := &l.coming[i]; !l.held(a) && (change.IsZero() || a.at.Before(change)) {
			change = a.at
		}
	}
	if change.IsZero() {
		return calls
	}
	return max(1, sort.Search(calls, func(n int) bool {
		return !l.from.Add(l.eta(l.calls + n + 1)).Before(change)
	}))
}

func (l *timeline) spend(calls int) {
	l.calls += calls
	l.sent += calls
}

// count updates how many calls each job waits for.
func (l *timeline) count(t *turn, n int) {
	for _, job := range t.Jobs {
		l.left[job] += n
	}
}

// held reports whether a run waits for the end of the one before it.
func (l *timeline) held(a *arrival) bool { return !a.begun && l.busy[a.job] && l.left[a.job] > 0 }

// admit adds one task or run whose time has come, and reports whether there was one.
func (l *timeline) admit(at time.Time) bool {
	if len(l.failed) > 0 && !l.failed[0].NotBefore.After(at) {
		heap.Push(&l.admitted, l.failed[0])
		l.count(l.failed[0], 1)
		l.failed = l.failed[1:]
		return true
	}
	for i := 0; i < len(l.coming) && !l.coming[i].at.After(at); i++ {
		if a := l.coming[i]; !l.held(&a) {
			l.begin(a, at)
			return true
		}
	}
	return false
}

// begin adds the calls of a run. It drops the other due times of its job that have passed.
func (l *timeline) begin(a arrival, at time.Time) {
	l.coming = slices.DeleteFunc(l.coming, func(b arrival) bool { return b.job == a.job && !b.at.After(at) })
	l.busy[a.job] = true
	l.spend(a.pages)
	for _, call := range a.calls {
		if call.calls == 0 {
			continue
		}
		t := &turn{Place: queue.Place{Rank: rankOf(call.value, at), Op: laterCalls, Jobs: []string{a.job}}, calls: call.calls}
		heap.Push(&l.admitted, t)
		l.count(t, call.calls)
	}
}

// skip advances to the next task that may be tried or the next run. By then the rate limit's window is
// empty.
func (l *timeline) skip() {
	var until time.Time
	if len(l.failed) > 0 {
		until = l.failed[0].NotBefore
	}
	if len(l.coming) > 0 && (until.IsZero() || l.coming[0].at.Before(until)) {
		until = l.coming[0].at
	}
	first := l.eta(1)
	whole := l.eta
	l.from, l.calls = until, 0
	l.eta = func(calls int) time.Duration { return whole(calls) - first }
}

// pageOfQueue is how many tasks are read at a time.
const pageOfQueue = 500
