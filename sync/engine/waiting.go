package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
	"outlierd/sync/state"
)

// Waiting is something that is wanted and not done: a search, a scan or a data call.
type Waiting struct {
	Job    string   // that wants it, of several the one that asked first
	Others []string // jobs that want it, too
	Op     outlier.Operation
	Entity string    // what a data call is about, or a search looks for
	Value  *float64  // of a data call: the higher, the sooner; nil for what comes before all of them
	Since  time.Time // when it joined the queue, or its run began
	Why    string    // it waits
	At     time.Time // when it will be done, if somebody works on it from now on; zero if nobody knows
}

// Queue lists what waits, of all jobs or of one, in the order in which it will be done:
// the open searches and scans of runs that go on, and the data calls. When that is
// follows from the pace that was learned, from what stands before it, whoever's it is,
// and from what the runs that come due first will ask for.
func (e *Engine) Queue(name string) ([]Waiting, error) {
	tasks, err := e.Store.Waiting(state.Filter{})
	if err != nil {
		return nil, err
	}
	going, err := e.going()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	w, err := e.witness(now)
	if err != nil {
		return nil, err
	}
	all, err := e.searches(w, going)
	if err != nil {
		return nil, err
	}
	calls, err := e.foretell(now, tasks, going)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(calls, func(a, b placed) int { return a.before - b.before })
	for _, call := range calls {
		all = append(all, Waiting{
			Job: call.Job, Others: call.Others, Op: call.Op, Entity: call.Entity, Value: new(call.Value + now.Sub(call.Since).Hours()/24),
			Since: call.Since, Why: w.ofCall(&call), At: call.at,
		})
	}
	slices.SortStableFunc(all, func(a, b Waiting) int {
		if a.At.IsZero() != b.At.IsZero() {
			return cmp.Compare(b.At.Unix(), a.At.Unix()) // what nobody knows of comes last
		}
		return a.At.Compare(b.At)
	})
	return slices.DeleteFunc(all, func(w Waiting) bool { return name != "" && w.Job != name && !slices.Contains(w.Others, name) }), nil
}

// searches are the open searches and scans of runs that go on.
func (e *Engine) searches(w *witness, going []unfinished) (all []Waiting, err error) {
	before := 0
	for i := range going {
		u := &going[i]
		for j := range u.open {
			step := &u.open[j]
			one := Waiting{Job: u.spec.Name, Op: step.Op, Entity: NameOf(step), Since: u.run.Started}
			if one.Why, one.At, err = w.ofSearch(u, step, before); err != nil {
				return nil, err
			}
			if u.underWay() {
				before += u.pages(step)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// witness knows why things wait.
type witness struct {
	*Engine
	now      time.Time
	blocked  time.Time // until when the service refuses every call; zero if it does not
	refusals []Refusal
}

func (e *Engine) witness(now time.Time) (*witness, error) {
	refusals, err := e.refusals()
	return &witness{Engine: e, now: now, blocked: e.Pace.Status().BlockedUntil, refusals: refusals}, err
}

// ofCall says what a data call waits for.
func (w *witness) ofCall(call *placed) string {
	if call.NotBefore.After(w.now) {
		if call.Attempts == 1 {
			return "failed once: " + call.Reason
		}
		return fmt.Sprintf("failed %d times, the last time: %s", call.Attempts, call.Reason)
	}
	if why, _ := w.refused(false); why != "" {
		return why
	}
	return w.turn(call.before)
}

// ofSearch says what a search or a scan waits for, and when that will be over.
func (w *witness) ofSearch(u *unfinished, step *state.Step, before int) (why string, at time.Time, err error) {
	if step.Op == outlier.OpStartScan {
		scan, err := w.Store.ScanOf(step.ID)
		if err != nil {
			return "", at, err
		}
		if why := w.ofScan(scan); why != "" {
			return why, at, nil
		}
	}
	next := w.nextOf(u.spec, w.now)
	switch {
	case u.run.Status == state.PausedBudget:
		return w.ofCap(u, step, next)
	case !u.underWay():
		return "its run failed, and the next one goes on with it: " + u.run.Error, next, nil
	}
	if why, until := w.refused(w.priceOf(step) > 0); why != "" {
		return why, until, nil
	}
	if pages := u.pages(step); pages > 0 {
		at = w.now.Add(w.Pace.ETA(before + pages))
	}
	return w.turn(before), at, nil
}

// ofScan says what a scan waits for that was started, or may have been; "" if it is for
// its start.
func (w *witness) ofScan(scan *state.Scan) string {
	switch {
	case scan == nil || scan.State == state.ScanRefused || scan.State == state.ScanNotCreated:
		return ""
	case scan.State == state.ScanUnknown || scan.State == state.ScanIntended:
		return "nobody knows whether it was started: see 'outlierd scan list'"
	}
	return fmt.Sprintf("waits for scan %s, and looks at it again at %s", scan.ScanID, w.clock(scan.NextPoll))
}

// ofCap says which cap a run has met that is paused by one, and when it goes on: at the
// first of its due instants at which there is room. By now there may be.
func (w *witness) ofCap(u *unfinished, step *state.Step, next time.Time) (why string, at time.Time, err error) {
	if why, until := w.refused(true); why != "" {
		return why, w.dueFrom(u, next, until), nil
	}
	for _, c := range w.capsOf(u.run, u.plan, u.spec.Budget)(w.Store.ServiceTime()) {
		held, err := w.Store.Held(c)
		if err != nil {
			return "", at, err
		}
		if held+w.priceOf(step) <= c.Max {
			continue
		}
		why, at := fmt.Sprintf("a cap is reached: %s", c), next
		if c.Scope != credit.Run {
			_, turn, err := credit.Period{Scope: c.Scope, Key: c.Period}.Bounds(w.Config.Timezone, w.Config.Budget.Renews)
			if err != nil {
				return "", at, err
			}
			at = w.dueFrom(u, next, turn)
		}
		return why, at, nil
	}
	return "its run met a cap or a refusal that is over, and the next one goes on with it", next, nil
}

// dueFrom is the first due instant of a run's job that is not before the given time; zero if
// nobody knows when that is over, or the job has none.
func (w *witness) dueFrom(u *unfinished, next, from time.Time) time.Time {
	if from.IsZero() || next.IsZero() {
		return time.Time{}
	}
	if next.Before(from) {
		return w.nextOf(u.spec, from.Add(-1))
	}
	return next
}

// refused says what the service has said to all calls, or to all that are paid for, and
// when that is over; "" if nothing.
func (w *witness) refused(paid bool) (why string, until time.Time) {
	for _, r := range w.refusals {
		switch {
		case r.Latch == state.LatchKey:
			return fmt.Sprintf("the service refuses the key since %s: %s", w.clock(r.Since), r.Reason), r.Until
		case r.Latch == state.LatchClock && paid:
			return "nobody vouches for the clock: see 'outlierd budget'", r.Until
		case r.Latch == state.LatchCredits && paid:
			return fmt.Sprintf("the service has no credits left since %s: %s", w.clock(r.Since), r.Reason), r.Until
		}
	}
	return "", time.Time{}
}

// turn says how far something is from its turn.
func (w *witness) turn(before int) string {
	switch {
	case before > 1:
		return fmt.Sprintf("%d calls before it", before)
	case before == 1:
		return "1 call before it"
	case w.blocked.After(w.now):
		return "the service refuses until " + w.clock(w.blocked)
	}
	return "is next"
}

// clock tells a time as a clock does, with the day unless that is today.
func (w *witness) clock(t time.Time) string {
	t, now := t.In(w.Config.Timezone), w.now.In(w.Config.Timezone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}
