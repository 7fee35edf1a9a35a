package forecast

import (
	"container/heap"
	"context"
	"slices"
	"sort"
	"time"

	"outlierd/outlier"
	"outlierd/sync/queue"
	"outlierd/sync/state"
)

// A timeline estimates when queued calls will be made, in the order in which a worker makes them: pages
// before data calls, data calls by rank, and the calls of later runs from their due time on. It reads
// only calls whose time is requested. Calls between two of them are only counted, and skipped together
// if nothing happens in between. So the time of the last of a million calls is found without reading
// them.
type timeline struct {
	from      time.Time                     // start of the current period without idle time
	eta       func(calls int) time.Duration // time from `from` until the n-th call leaves
	calls     int                           // calls made since from
	sent      int                           // calls made in total
	coming    []arrival                     // later runs, soonest first
	ready     lane                          // tasks that may be tried now, best first
	failed    lane                          // tasks in back-off, soonest first
	admitted  turns                         // tasks whose back-off has ended, and calls of later runs; best first
	remaining int                           // tasks whose time is requested and not yet yielded
	left      map[string]int                // calls that a job waits for before its next run starts
	busy      map[string]bool               // jobs with a run in progress, which their next run waits for
}

// lane is a part of the queue, read in order.
type lane interface {
	head() (*turn, error) // nil at the end
	pop()
	split(at queue.Place) error // splits off the calls of the head that come before a place
}

// turn is a place in the order: of a task, of calls of a later run, or of a number of calls before the next
// task whose time is not requested.
type turn struct {
	queue.Place
	calls int
	task  bool     // it is the task at Place
	asked bool     // the task's time is requested
	jobs  []string // jobs that wait for these calls

	after queue.Place // for calls that are only counted: they are between after and Place
	made  int         // number of calls behind after that are already made
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
	counts, err := r.Facts.Store.Queue.Counts()
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		switch of.Job {
		case "":
			l.remaining += c.Asked
		case c.Job:
			l.remaining += c.Asked + c.Shared
		}
	}
	last, err := r.lastTurns(now, coming, of.Job)
	if err != nil {
		return nil, err
	}
	for _, t := range last {
		l.count(t, 1)
	}
	l.ready = &readyCalls{store: r.Facts.Store, now: now, of: of, after: queue.Before, last: last}
	l.failed = &failedCalls{store: r.Facts.Store, of: of, after: queue.AfterNow(now)}
	return l, nil
}

// lastTurns returns the last tasks of the given job and of jobs with later runs, in order. A job's next run
// waits for them if a run is unfinished.
func (r *Reader) lastTurns(now time.Time, coming []arrival, of string) (all []*turn, err error) {
	names := []string{of}
	for i := range coming {
		names = append(names, coming[i].job)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		place, err := r.Facts.Store.Queue.LastPlace(name, now)
		if err != nil {
			return nil, err
		}
		if place != nil {
			all = append(all, &turn{Place: *place, calls: 1, task: true, jobs: []string{name}})
		}
	}
	slices.SortFunc(all, func(a, b *turn) int { return a.Compare(&b.Place) })
	return all, nil
}

// play yields the tasks whose time is requested, in the order in which they will be done, until yield
// returns false or there are none left.
func (l *timeline) play(yield func(placed) bool) error {
	for {
		ready, failed, err := l.heads()
		if err != nil {
			return err
		}
		isTask := func(t *turn) bool { return t.task }
		if l.remaining == 0 || ready == nil && failed == nil && !slices.ContainsFunc(l.admitted, isTask) {
			return nil
		}
		at := l.next()
		if l.admit(at, failed) {
			continue // the admitted calls delay the others
		}
		if ready == nil && len(l.admitted) == 0 {
			l.skip(failed)
			continue
		}
		t, pop := ready, l.ready.pop
		if len(l.admitted) > 0 && (ready == nil || l.admitted[0].Compare(&ready.Place) < 0) {
			if t, pop = l.admitted[0], func() { heap.Pop(&l.admitted) }; t.asked && ready != nil && !ready.task {
				if err := l.ready.split(t.Place); err != nil {
					return err
				}
				if before, err := l.ready.head(); err != nil || before.Compare(&t.Place) == 0 {
					t, pop = before, l.ready.pop
				}
			}
		}
		if t.asked {
			if l.remaining--; !yield(placed{t.Place, l.sent, at}) {
				return nil
			}
		}
		n := l.callsUntilChange(t.calls, failed)
		t.made += n
		if t.calls -= n; t.calls == 0 {
			pop()
		}
		l.count(t, -n)
		l.spend(n)
	}
}

func (l *timeline) heads() (ready, failed *turn, err error) {
	if ready, err = l.ready.head(); err == nil {
		failed, err = l.failed.head()
	}
	return ready, failed, err
}

// next returns when the next call may be sent.
func (l *timeline) next() time.Time { return l.from.Add(l.eta(l.calls + 1)) }

// callsUntilChange returns how many of the next calls, at least one, are sent before the order can change.
func (l *timeline) callsUntilChange(calls int, failed *turn) int {
	if calls == 1 {
		return 1
	}
	var change time.Time
	if failed != nil {
		change = failed.NotBefore
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
	for _, job := range t.jobs {
		l.left[job] += n
	}
}

// held reports whether a run waits for the end of the one before it.
func (l *timeline) held(a *arrival) bool { return !a.begun && l.busy[a.job] && l.left[a.job] > 0 }

// admit adds one task or run whose time has come, and reports whether there was one.
func (l *timeline) admit(at time.Time, failed *turn) bool {
	if failed != nil && !failed.NotBefore.After(at) {
		heap.Push(&l.admitted, failed)
		l.count(failed, 1)
		l.failed.pop()
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
		place := queue.Place{Rank: rankOf(call.value, at), Op: laterCalls}
		t := &turn{Place: place, calls: call.calls, jobs: []string{a.job}}
		heap.Push(&l.admitted, t)
		l.count(t, call.calls)
	}
}

// skip advances to the next task that may be tried or the next run. By then the rate limit's window is
// empty.
func (l *timeline) skip(failed *turn) {
	var until time.Time
	if failed != nil {
		until = failed.NotBefore
	}
	if len(l.coming) > 0 && (until.IsZero() || l.coming[0].at.Before(until)) {
		until = l.coming[0].at
	}
	first := l.eta(1)
	whole := l.eta
	l.from, l.calls = until, 0
	l.eta = func(calls int) time.Duration { return whole(calls) - first }
}

// pageOfQueue is how many places are read at a time.
const pageOfQueue = 500

// readyCalls are the tasks that may be tried now and whose time is requested, with the number of other tasks
// between them.
type readyCalls struct {
	store *state.Store
	now   time.Time
	of    queue.Filter
	last  []*turn     // last tasks of the jobs with later runs, in order
	after queue.Place // the place of the last turn that was read
	page  []queue.Place
	ended bool // there is no further page
	turns []*turn
}

func (c *readyCalls) pop() { c.turns = c.turns[1:] }

func (c *readyCalls) head() (*turn, error) {
	if len(c.turns) == 0 {
		if err := c.read(); err != nil {
			return nil, err
		}
	}
	if len(c.turns) == 0 {
		return nil, nil
	}
	return c.turns[0], nil
}

func (c *readyCalls) split(at queue.Place) error {
	all := c.turns[0]
	if at.Compare(&all.after) <= 0 {
		return nil // all of the calls come after it
	}
	n, err := c.store.Queue.Between(c.now, all.after, at)
	if err != nil {
		return err
	}
	rest := *all
	rest.after, rest.made = at, max(0, all.made-n)
	c.turns[0] = &rest
	if before := n - all.made; before > 0 {
		rest.calls -= before
		first := &turn{Place: at, calls: before, after: all.after, made: all.made}
		if c.turns = slices.Insert(c.turns, 0, first); rest.calls == 0 {
			c.turns = slices.Delete(c.turns, 1, 2)
		}
	}
	return nil
}

// read reads the next task, and the number of calls before it, each as a turn.
func (c *readyCalls) read() (err error) {
	if len(c.page) == 0 && !c.ended {
		if c.page, err = c.store.Queue.Places(c.of, c.now, c.after, pageOfQueue); err != nil {
			return err
		}
		c.ended = len(c.page) < pageOfQueue
	}
	var next *turn
	if len(c.page) > 0 {
		next = &turn{Place: c.page[0], calls: 1, task: true, asked: true}
	}
	if len(c.last) > 0 && (next == nil || c.last[0].Compare(&next.Place) < 0) {
		next = c.last[0]
	}
	if next == nil {
		return nil
	}
	if len(c.page) > 0 && c.page[0].Compare(&next.Place) == 0 {
		next.asked, c.page = true, c.page[1:]
	}
	var jobs []string
	for len(c.last) > 0 && c.last[0].Compare(&next.Place) == 0 {
		jobs, c.last = append(jobs, c.last[0].jobs...), c.last[1:]
	}
	next.jobs = jobs
	if c.of.Job != "" {
		n, err := c.store.Queue.Between(c.now, c.after, next.Place)
		if err != nil {
			return err
		}
		if n > 0 {
			c.turns = append(c.turns, &turn{Place: next.Place, calls: n, after: c.after})
		}
	}
	c.after, c.turns = next.Place, append(c.turns, next)
	return nil
}

// failedCalls are the tasks in back-off, whether or not their time is requested: any of them may precede one
// whose time is.
type failedCalls struct {
	store *state.Store
	of    queue.Filter
	page  []queue.Place
	ended bool // there is no further page
	after queue.Place
	turn  *turn
}

func (c *failedCalls) pop() { c.turn = nil }

func (c *failedCalls) split(queue.Place) error { return nil } // each task is a turn of its own

func (c *failedCalls) head() (_ *turn, err error) {
	if c.turn != nil {
		return c.turn, nil
	}
	if len(c.page) == 0 && !c.ended {
		if c.page, err = c.store.Queue.BackedOff(c.after, pageOfQueue); err != nil {
			return nil, err
		}
		c.ended = len(c.page) < pageOfQueue
	}
	if len(c.page) > 0 {
		c.after, c.page = c.page[0], c.page[1:]
		c.turn = &turn{Place: c.after, calls: 1, task: true, jobs: c.after.Jobs,
			asked: c.of.Job == "" || slices.Contains(c.after.Jobs, c.of.Job)}
	}
	return c.turn, nil
}
