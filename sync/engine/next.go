package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// # What comes next
//
// A turn of a run's searches reads the rows, decides by [searchFacts.next], and performs an action. Whatever follows is
// decided in the next turn, by what the rows say then.

// searchFacts are what the next action of a run's searches depends on.
type searchFacts struct {
	now   time.Time
	plan  *plan.Stored
	steps []runs.Step

	scans    map[int64]*runs.Scan // by step: the one that it has started or joined, or would start again
	stopped  map[int64]error      // see [run]
	timeUp   bool
	requests error     // why the run may make no more requests; nil if it may
	mayPoll  time.Time // when the rate limit lets a poll leave
	priceOf  func(*runs.Step) outlier.Credits
}

// An action is what the searches of a run do next.
type action struct {
	kind  actionKind
	step  *runs.Step
	scan  *runs.Scan
	stop  string    // with closeStep: as what it ends
	err   error     // with skipStep: why
	until time.Time // with wait: nothing else can be done before
}

// An actionKind is a kind of action.
type actionKind string

const (
	takePage  actionKind = "take page" // buy it, or reuse it
	closeStep actionKind = "close"     // the run's time is up, or its share has no room for another page
	skipStep  actionKind = "skip"      // it cannot go on in this process
	startScan actionKind = "start scan"
	joinScan  actionKind = "join scan" // wait for one that another step has started
	pollScan  actionKind = "poll scan"
	endScan   actionKind = "end scan" // it has ended: read its results, if it has any
	enrich    actionKind = "enrich"   // all pages are bought: queue the data calls about the hits
	wait      actionKind = "wait"     // for a scan; other runs go on
)

// next returns the next action of a run's searches. Pages are taken breadth first, so that a cap cuts depth rather
// than topics.
func (f *searchFacts) next() action {
	var poll time.Time // of the first scan that is due
	open := openSteps(f.plan, f.steps)
	unpaid := slices.IndexFunc(open, func(step *runs.Step) bool { return !step.Paid })
	if f.timeUp && unpaid >= 0 { // a scan that is paid for is waited for and read
		return action{kind: closeStep, step: open[unpaid], stop: runs.StopTime}
	}
	for _, step := range open {
		if f.stopped[step.ID] != nil {
			continue
		}
		a := action{kind: takePage, step: step, scan: f.scans[step.ID]}
		if step.Query.Op() == outlier.OpStartScan {
			a = f.nextOfScan(a)
		}
		switch begins := a.kind == takePage || a.kind == startScan; {
		case a.kind == takePage && f.plan.Auto != nil && !f.plan.Auto.Affords(f.steps, step):
			a.kind, a.stop = closeStep, plan.StopShare
		case begins && f.exceedsCap(step):
			continue
		case begins && step.Scan == "" && f.requests != nil: // else the answer is paid for
			a.kind, a.err = skipStep, f.requests
		case a.kind == wait:
			poll = soonest(poll, a.until)
			continue
		}
		return a
	}
	if !poll.IsZero() {
		return action{kind: wait, until: poll}
	}
	return action{kind: enrich}
}

// nextOfScan returns the next action of a step that starts a scan, if caps allow it.
func (f *searchFacts) nextOfScan(a action) action {
	scan, step := a.scan, a.step
	switch {
	case scan.Unstarted():
		a.kind = startScan
	case scan.State == runs.ScanUnknown: // a person must settle it first, whichever run wants it
		a.kind, a.err = skipStep, &UnsettledScanError{Scan: *scan}
	case scan.Step != step.ID && scan.Intent != step.Joined:
		a.kind = joinScan
	case scan.State != runs.ScanRunning: // ended by a person, or by the answer to its start
		a.kind = endScan
	default:
		a.kind, a.until = pollScan, earlier(scan.NextPoll, f.now.Add(f.plan.Scan.PollMax)) // in case the clock was ahead
		if f.mayPoll.After(a.until) {
			a.until = f.mayPoll // else other calls would wait behind the poll
		}
		if a.until.After(f.now) {
			a.kind = wait
		}
	}
	return a
}

// exceedsCap reports whether a step costs at least as much as one that has exceeded a cap. Cheaper steps may still
// fit, and so may those with a hold.
func (f *searchFacts) exceedsCap(step *runs.Step) bool {
	return step.Scan == "" && slices.ContainsFunc(f.steps, func(s runs.Step) bool {
		return s.Scan == "" && isBudget(f.stopped[s.ID]) && f.priceOf(step) >= f.priceOf(&s)
	})
}

// openSteps returns the steps with something left to do: those with the fewest pages first, or for a
// backfill those of the newest window first.
func openSteps(of *plan.Stored, steps []runs.Step) []*runs.Step {
	var open []*runs.Step
	for i := range steps {
		if steps[i].Stop == "" {
			open = append(open, &steps[i])
		}
	}
	order := func(a, b *runs.Step) int { return a.Next - b.Next }
	switch {
	case of.Backfill != nil:
		order = newestFirst
	case of.Auto != nil:
		order = func(a, b *runs.Step) int { return a.Ordinal - b.Ordinal } // each to its end
	}
	slices.SortStableFunc(open, order)
	return open
}

// newestFirst orders the open searches of a backfill: newer windows first, and within a window those
// with the fewest pages first.
func newestFirst(a, b *runs.Step) int {
	return cmp.Or(cmp.Compare(b.Window, a.Window), cmp.Compare(a.Next, b.Next))
}

// look reads what the next action of a run's searches depends on.
func (r *run) look() (f *searchFacts, err error) {
	e := r.engine
	f = &searchFacts{
		now: time.Now(), plan: &r.plan, scans: map[int64]*runs.Scan{},
		stopped: r.stopped, timeUp: r.timeUp(), requests: r.checkRequests(), mayPoll: e.Pace.Poll(), priceOf: e.Facts().PriceOf,
	}
	if f.steps, err = e.Store.Runs.Steps(r.row.ID); err != nil {
		return nil, err
	}
	for _, step := range openSteps(f.plan, f.steps) {
		if step.Paid, err = e.Facts().PaidScan(step); err != nil {
			return nil, err
		}
		if step.Query.Op() != outlier.OpStartScan {
			continue
		}
		scan, err := e.Store.Runs.ScanOf(step.ID)
		if err == nil && scan.Unstarted() {
			var live *runs.Scan
			live, err = r.liveScan(step)
			scan = cmp.Or(live, scan)
		}
		if f.scans[step.ID] = scan; err != nil {
			return nil, err
		}
	}
	return f, nil
}

// search performs the next action of the run's searches. It reports false if there is nothing to do but wait.
func (r *run) search(ctx context.Context) (worked bool, err error) {
	f, err := r.look()
	if err != nil {
		return true, err
	}
	a := f.next()
	for ; a.kind == closeStep; a = f.next() { // of which there may be many
		a.step.Stop, a.step.Left = a.stop, pagesLeft(&r.plan, a.step)
		if err := r.saveStep(*a.step); err != nil {
			return true, err
		}
	}
	if a.kind == wait {
		r.worker.noteWait(a.until)
		if !r.progress.Until.Equal(a.until) {
			r.progress.Until = a.until
			r.updated()
		}
		return false, nil
	}
	err = r.perform(ctx, f.steps, a)
	switch v := judge(err); {
	case v.waits():
		r.worker.noteWait(v.retryAt)
		return false, nil
	case v.scope == ofStep:
		r.skipStep(a.step, err)
		err = nil
	}
	return true, err
}

// skipStep lets the run go on without a step, which stays open. The run pauses or fails in the end.
func (r *run) skipStep(step *runs.Step, err error) {
	if r.stopped[step.ID] = err; !isBudget(err) {
		r.engine.log().Error("search skipped", "job", r.row.Job, "run", r.row.ID, "search", step.Title(), "err", err)
	}
}

// perform performs an action.
func (r *run) perform(ctx context.Context, steps []runs.Step, a action) error {
	switch a.kind {
	case takePage:
		return r.takePage(ctx, steps, a.step)
	case startScan:
		return r.startScan(ctx, a.step, a.scan)
	case joinScan:
		return r.joinScan(ctx, a.step, a.scan)
	case pollScan:
		return r.poll(ctx, a.step, a.scan)
	case endScan:
		return r.endScan(a.step, a.scan)
	case skipStep:
		return a.err
	}
	return r.queueEnrichment(ctx, steps)
}
