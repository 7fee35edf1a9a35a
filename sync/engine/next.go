package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// # What comes next
//
// A turn of the worker reads the rows, decides by [workFacts.next], and performs an action. Whatever follows is decided
// in the next turn, by what the rows say then. So after a kill a run goes on with the action that would have followed.

// workFacts are what the next action of all runs in progress depends on.
type workFacts struct {
	runs inProgress
	task *queue.Task // the next data call of all; nil if none may be made now
	held error       // why no pages are bought now but for a person; nil if they are
	wake time.Time   // when something else may be possible; zero for never
}

// next returns the next action: a page or a scan first, then the data calls of urgent runs, then those of all by
// their value. Live scans are joined before another run polls and reads them: the cap of the run that joins may have no
// room for a start of its own.
func (f *workFacts) next() action {
	wake := f.wake
	var first action
	for _, r := range f.runs {
		a := action{kind: endRuns, over: []*run{r}}
		switch {
		case r.err != nil:
		case r.search == nil || r.putOff || f.held != nil && !r.urgent:
			continue
		default:
			a = r.search.next()
			a.of = r
		}
		switch {
		case a.kind == joinScan:
			return a
		case a.kind == wait:
			wake = soonest(wake, a.until)
		case first.kind == "":
			first = a
		}
	}
	if first.kind != "" {
		return first
	}
	var over []*run
	for _, r := range f.runs {
		switch ends := r.search == nil && (!r.pending || r.spent); {
		case r.urgent && (ends || r.search == nil && r.nextDue):
			return action{kind: endRuns, over: []*run{r}}
		case r.urgent && r.task != nil:
			return action{kind: callData, of: r, task: r.task}
		case ends:
			over = append(over, r)
		}
	}
	switch {
	case f.held != nil:
	case len(over) > 0:
		return action{kind: endRuns, over: over}
	case f.task != nil:
		return action{kind: callData, task: f.task}
	}
	return action{kind: wait, until: wake}
}

// searchFacts are what the next action of a run's searches depends on.
type searchFacts struct {
	now   time.Time
	plan  *plan.Stored
	steps []runs.Step

	scans    map[int64]*runs.Scan // by step: the one that it has started or joined, or would start again
	timeUp   bool
	requests error                            // why the run may make no more requests; nil if it may
	mayPoll  time.Time                        // when the rate limit lets a poll leave
	held     outlier.Credits                  // by the run, if it has a share of the month
	priceOf  func(*runs.Step) outlier.Credits // of the step's next purchase: a page, or a scan and reading it
}

// An action is what the worker does next.
type action struct {
	kind  actionKind
	of    *run // nil for a data call of all
	step  *runs.Step
	scan  *runs.Scan
	task  *queue.Task
	over  []*run
	stop  string    // with closeStep: as what it ends
	err   error     // with skipStep: why
	until time.Time // with wait: nothing else can be done before
}

// An actionKind is a kind of action.
type actionKind string

const (
	takePage  actionKind = "take page" // buy it, or reuse it
	closeStep actionKind = "close"     // the run's time is up, or its share has no room for another page
	skipStep  actionKind = "skip"      // the run goes on without it
	startScan actionKind = "start scan"
	joinScan  actionKind = "join scan" // wait for one that another step has started
	pollScan  actionKind = "poll scan"
	endScan   actionKind = "end scan" // it has ended: read its results, if it has any
	enrich    actionKind = "enrich"   // all pages are bought: queue the data calls about the hits
	callData  actionKind = "call"     // make a data call
	endRuns   actionKind = "end runs" // they have nothing left to do, or no time for it
	wait      actionKind = "wait"
)

// next returns the next action of a run's searches. Pages are taken breadth first, so that a cap cuts depth rather
// than topics. Live scans are joined first, as in [workFacts.next].
func (f *searchFacts) next() action {
	var first action
	var poll time.Time // of the first scan that is due
	open := openSteps(f.plan, f.steps)
	unpaid := slices.IndexFunc(open, func(step *runs.Step) bool { return !step.Paid })
	if f.timeUp && unpaid >= 0 { // a scan that is paid for is waited for and read
		return action{kind: closeStep, step: open[unpaid], stop: runs.StopTime}
	}
	for _, step := range open {
		if step.Problem != "" {
			continue
		}
		a := action{kind: takePage, step: step, scan: f.scans[step.ID]}
		if step.Query.Op() == outlier.OpStartScan {
			a = f.nextOfScan(a)
		}
		switch begins := a.kind == takePage || a.kind == startScan; {
		case a.kind == takePage && f.plan.Auto != nil && !f.plan.Auto.Affords(f.steps, step):
			a.kind, a.stop = closeStep, plan.StopShare
		case (begins || a.kind == joinScan) && f.isBeyondShare(step):
			a.kind, a.stop = closeStep, plan.StopShare
		case begins && f.exceedsCap(step):
			continue
		case begins && step.Scan == "" && f.requests != nil: // else the answer is paid for
			a.kind, a.err = skipStep, f.requests
		case a.kind == wait:
			poll = soonest(poll, a.until)
			continue
		case a.kind == joinScan:
			return a
		}
		if first.kind == "" {
			first = a
		}
	}
	switch {
	case first.kind != "":
		return first
	case !poll.IsZero():
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
		a.kind, a.until = pollScan, scan.NextPoll
		if a.until.After(f.now.Add(f.plan.Scan.PollMax)) {
			a.until = f.now // it was set when the clock was ahead
		}
		if f.mayPoll.After(a.until) {
			a.until = f.mayPoll // else other calls would wait behind the poll
		}
		if a.until.After(f.now) {
			a.kind = wait
		}
	}
	return a
}

// isBeyondShare reports whether the run's share of the month has no room for a step's next purchase.
func (f *searchFacts) isBeyondShare(step *runs.Step) bool {
	return f.plan.Share != nil && step.Scan == "" && f.held+f.priceOf(step) > *f.plan.Share
}

// exceedsCap reports whether a step costs at least as much as one that has exceeded a cap. Cheaper steps may still
// fit, and so may those with a hold.
func (f *searchFacts) exceedsCap(step *runs.Step) bool {
	return step.Scan == "" && slices.ContainsFunc(f.steps, func(s runs.Step) bool {
		return s.Scan == "" && s.Capped && f.priceOf(step) >= f.priceOf(&s)
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

// look reads what the next action depends on, all of it as of one moment.
func (w *worker) look() (f *workFacts, err error) {
	in, err := w.engine.Store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	now := time.Now()
	task, err := in.Queue.NextTask(now, queue.Filter{})
	if err != nil {
		return nil, err
	}
	f = &workFacts{}
	if f.wake, err = in.Queue.NextRetry(now, queue.Filter{}); err != nil {
		return nil, err
	}
	if f.runs, err = w.inProgress(in); err != nil {
		return nil, err
	}
	for _, r := range f.runs {
		r.putOff = !r.urgent && now.Before(w.fullUntil)
		r.err = r.read(in, now, task)
	}
	for _, r := range f.runs {
		if !r.urgent || r.search != nil || r.err != nil {
			continue
		}
		// Even while the queue is paused, which shows whether the service answers again.
		if r.task, err = in.Queue.NextTask(now, queue.Filter{Job: r.row.Job}); err != nil {
			return nil, err
		}
		if r.task != nil && !slices.Contains(f.waiters(r.task), r) {
			r.task = nil // another run of the job makes it
		}
	}
	if w.patient && !now.Before(w.pausedUntil) {
		f.task = task
	}
	return f, nil
}

// read reads what the next action of a run depends on. next is the next data call of all: a run that wants it needs no
// other query.
func (r *run) read(in *state.Store, now time.Time, next *queue.Task) (err error) {
	requests := checkRequests(in.DB, &r.row)
	if requests != nil && !isA[*RequestsError](requests) {
		return requests
	}
	r.spent = r.timeUp() || requests != nil
	if !r.row.Searched {
		r.search, err = r.look(in, now, requests)
		return err
	}
	if r.pending = next != nil && slices.Contains(next.Wanting(), r.row.Job); !r.pending {
		r.pending, err = in.Queue.Pending(now, queue.Filter{Job: r.row.Job})
	}
	return err
}

// waiters returns the runs that wait for a data call; each of them counts it as done. The call is
// recorded for the run that queued it, even if that has ended. A run that has used up its time
// or its requests waits for no call, and its queue outlives it.
func (f *workFacts) waiters(task *queue.Task) (all []*run) {
	for _, name := range task.Wanting() {
		var of []*run
		for _, r := range f.runs {
			if r.row.Job == name && !r.spent {
				of = append(of, r)
			}
		}
		if i := slices.IndexFunc(of, func(r *run) bool { return r.row.ID == task.Run }); i >= 0 {
			of = of[i : i+1]
		}
		all = append(all, of...)
	}
	return all
}

// look reads what the next action of a run's searches depends on.
func (r *run) look(in *state.Store, now time.Time, requests error) (f *searchFacts, err error) {
	f = &searchFacts{
		now: now, plan: r.row.Plan, scans: map[int64]*runs.Scan{}, timeUp: r.timeUp(), requests: requests,
		mayPoll: r.engine.Pace.Poll(), priceOf: r.priceOf,
	}
	if f.plan.Share != nil {
		if f.held, err = in.Ledger.Held(ledger.Cap{Scope: ledger.ScopeRun, Period: r.row.ID}); err != nil {
			return nil, err
		}
	}
	if f.steps, err = in.Steps.OfRun(r.row.ID); err != nil {
		return nil, err
	}
	for _, step := range openSteps(f.plan, f.steps) {
		step.Paid = step.Scan != ""
		if step.Query.Op() != outlier.OpStartScan {
			continue
		}
		scan, live, err := scanOf(in.Scans, r.row.Plan, step)
		if err != nil {
			return nil, err
		}
		step.Paid, f.scans[step.ID] = !scan.Unstarted(), cmp.Or(live, scan)
	}
	return f, nil
}

// priceOf returns the price of a step's next purchase: a page, or a scan and reading it.
func (r *run) priceOf(step *runs.Step) outlier.Credits {
	if step.Query.Op() == outlier.OpStartScan {
		return r.row.Plan.PriceOfScan(r.engine.Config.Service.Prices, step.Ordinal)
	}
	return step.Query.Price(r.engine.Config.Service.Prices)
}

// scanOf returns the scan that a step has started or joined, and if it has none, the live one that it would repeat.
func scanOf(in *runs.Scans, of *plan.Stored, step *runs.Step) (scan, live *runs.Scan, err error) {
	scan, err = in.OfStep(step.ID)
	if err == nil && scan.Unstarted() {
		live, err = in.Live(facts.ScanOf(step, of.Again))
	}
	return scan, live, err
}

// takeStep performs an action of a run's searches. It reports false if the run can do nothing but wait, so that others
// go on in this turn. An error of a search concerns that search alone, or ends the run, or keeps all runs from
// buying pages.
func (w *worker) takeStep(ctx context.Context, f *workFacts, a action) (worked bool) {
	r := a.of
	s := search{r, a.step}
	err := s.perform(ctx, a)
	v := judge(err)
	switch {
	case v.waits():
		r.putOff, f.wake = true, soonest(f.wake, v.retryAt)
		return false
	case v.scope == ofStep:
		err = s.skipStep(err)
	case r.urgent && v.scope > ofRun:
		w.detach(ctx, r, err)
		return true
	case v.scope == ofAll:
		f.held = err
		return false
	}
	switch {
	case w.patient && v.scope == ofPages:
		r.putOff = true
		return false
	case err != nil:
		r.end(ctx, err)
		return true
	}
	if !w.fullUntil.IsZero() { // answers can be stored again
		w.pauses, w.pausedUntil, w.fullUntil = 0, time.Time{}, time.Time{}
	}
	return true
}

// skipStep lets the run go on without a step, which stays open. The run pauses or fails in the end.
func (s search) skipStep(err error) error {
	if !isBudget(err) {
		s.engine.log().Error("search skipped", "job", s.row.Job, "run", s.row.ID, "search", s.step.Title(), "err", err)
	}
	return s.engine.Store.Steps.Skip(s.step.ID, err.Error(), isBudget(err))
}

// perform performs an action of the search, or after the last one of its run.
func (s search) perform(ctx context.Context, a action) error {
	switch a.kind {
	case takePage:
		return s.takePage(ctx, a.of.search.steps)
	case startScan:
		return s.startScan(ctx, a.scan)
	case joinScan:
		return s.joinScan(ctx, a.scan)
	case pollScan:
		return s.poll(ctx, a.scan)
	case endScan:
		return s.endScan(a.scan)
	case skipStep:
		return a.err
	}
	return s.queueEnrichment(a.of.search.steps)
}
