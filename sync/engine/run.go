package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// run is one performance of a job.
type run struct {
	engine *Engine
	worker *worker // that makes its calls

	row   runs.Run
	plan  plan.Stored
	steps []runs.Step
	own   job.JobBudget
	caps  func(time.Time) []ledger.Cap

	useReserve bool // as in [Order]

	searched bool                  // nothing is left to be bought, and what to ask about it is queued
	over     outlier.Credits       // what costs as much as this is over a cap; 0 while nothing is
	capped   error                 // the cap
	stuck    map[int64]bool        // steps that are open and with which nothing can be done for now
	trouble  error                 // what went wrong for some of its searches and not for others
	refusals map[int64]int         // of scans, with proof that nothing was started, by step
	missed   int64                 // found missing before this process took the run up
	until    time.Time             // when the run ends, whatever is left; zero for never
	polls    map[int64]time.Time   // when to poll its scans again, by step
	wake     time.Time             // the first of these
	fresh    map[time.Duration]int // data calls that are not made, by how old an answer may be
	progress Progress

	parked bool // on record as waiting for the rate limit

	ordered bool       // begun for an [Ordered]; else the schedule's, or that of a command which works alone
	noted   bool       // among [runs.Runs.Ordered]
	urgent  int        // the lower, the sooner it was asked for; 0 while no caller waits for it
	waiting []*Ordered // those who wait for it
	before  []*Ordered // those whose runs begin when it has its pages
	streak  int        // of its data calls that failed one after another, while somebody waits for it
	forNext bool       // the next run of its job is due, so that it ends when it has its pages

	seen  *sight
	ended bool
	err   error // why it ended, if not well
}

// take takes up a run from its record. Only the caps are those of the file: a cap
// that was changed applies at once.
func (w *worker) take(ctx context.Context, row *runs.Run, o *Order) (*run, error) {
	stored, err := plan.Decode(row.Plan)
	if err != nil {
		return nil, err
	}
	steps, err := w.engine.Store.Runs.Steps(row.ID)
	if err != nil {
		return nil, err
	}
	spent, err := w.engine.Store.Ledger.Spent(row.ID)
	if err != nil {
		return nil, err
	}
	r := &run{
		engine: w.engine, worker: w, row: *row, plan: stored, steps: steps, missed: row.Missing,
		stuck: map[int64]bool{}, refusals: map[int64]int{}, polls: map[int64]time.Time{}, seen: &sight{},
		useReserve: o.UseReserve,
	}
	w.made[row.ID] = max(spent.Requests, row.Requests) // some are on record as those of who asked first
	if row.Rows == nil {
		if r.row.Rows, err = w.loader.Recount(row.ID); err != nil {
			return nil, err
		}
	}
	w.loader.Expect(row.ID)
	r.limit(o.Spec.Budget)
	if err := r.want(ctx); err != nil {
		return nil, err
	}
	for i := range steps { // what went wrong before still has
		if runs.Final(steps[i].Stop) && steps[i].Unread == 0 {
			r.fail(fmt.Errorf("%s: %s", steps[i].Title(), steps[i].Stop))
		}
	}
	if stored.StopAfter > 0 {
		r.until = row.Started.Add(stored.StopAfter) // also where the process has started anew since
	}
	r.progress = Progress{
		Job: row.Job, Run: row.ID, Started: time.Now(), Pages: stored.MostPages(), PerRun: o.Spec.Budget.PerRun,
		Tasks: map[outlier.Operation]int{},
	}
	w.runs = append(w.runs, r)
	r.updated()
	return r, nil
}

// limit sets the caps that the run keeps from now on: the job's own, and those of the file.
func (r *run) limit(own job.JobBudget) {
	caps := r.engine.Facts()
	caps.UseReserve = caps.UseReserve || r.useReserve
	r.own, r.caps, r.progress.PerRun = own, caps.CapsOf(&r.row, r.plan, own), own.PerRun
}

// done reports whether the run has nothing more to do: what it asks for is answered,
// also where another job asked first, or waits for another try, or its time or its
// requests are used up.
func (r *run) done() (bool, error) {
	pending, err := r.engine.Store.Queue.Pending(time.Now(), queue.Filter{Job: r.row.Job})
	if err != nil {
		return false, err
	}
	return !pending || r.mayNotAsk(), nil
}

// mayNotAsk reports whether the run may not make the calls that wait for it, and remembers
// the cap if there is one.
func (r *run) mayNotAsk() bool {
	if !r.late() {
		r.capped = cmp.Or(r.capped, r.allowed())
	}
	return r.spent()
}

// endForNext ends a run that has its pages, as the next one of its job is due. What is left
// of its calls stays queued, and is made whatever is under way.
func (r *run) endForNext(ctx context.Context) error {
	done, err := r.done()
	if err != nil {
		return err
	}
	cause := cmp.Or(r.trouble, r.capped)
	if !done && cause == nil {
		cause = &QueuedError{errors.New("the next run of the job is due")}
	}
	r.end(ctx, cause)
	return nil
}

// spent reports whether the run's time or its requests are used up.
func (r *run) spent() bool { return r.late() || r.allowed() != nil }

// late reports whether the run's time is up.
func (r *run) late() bool { return !r.until.IsZero() && !time.Now().Before(r.until) }

// RequestsError ends a run that has made as many requests as its job allows.
type RequestsError struct{ Max int }

func (e *RequestsError) Error() string {
	return fmt.Sprintf("the run has made %d requests, which is its cap (budget.max_requests of its job); "+
		"raise the cap, or let the next run do the rest", e.Max)
}

// allowed refuses another request to a run that has made all that it may. What it
// takes over from earlier runs counts for those, and a scan that was paid for is
// polled and read however many requests that takes.
func (r *run) allowed() error {
	most := r.plan.MaxRequests
	if most > 0 && r.worker.made[r.row.ID] >= int64(most) {
		return &RequestsError{most}
	}
	return nil
}

// isQueued reports whether a run ended before its time that has its pages.
func isQueued(err error) bool {
	_, queued := errors.AsType[*QueuedError](err)
	return queued
}

// isCap reports whether an error is a cap that was reached, or may have been: ours, or the
// balance at the service.
func isCap(err error) bool {
	_, ours := errors.AsType[*ledger.Exceeded](err)
	_, requests := errors.AsType[*RequestsError](err)
	_, unsure := errors.AsType[*ClockError](err)
	return ours || requests || unsure || kindOf(err) == outlier.NoCredits
}

// await sleeps until it is time to poll the run's scans again, or to make the next data call.
func (r *run) await(ctx context.Context) error {
	until := r.worker.slot
	if until.IsZero() || !r.wake.IsZero() && r.wake.Before(until) {
		until = r.wake
	}
	if at := r.worker.loader.PublishAt(); r.worker.loader.PagesIn && at.Before(until) {
		until = at
	}
	return pause(ctx, min(time.Until(until), nap))
}

// end ends the run alone; see [worker.endAll].
func (r *run) end(ctx context.Context, cause error) {
	r.worker.endAll(ctx, []*run{r}, func(*run) error { return cause })
}

// endAll ends runs together: it loads what is left, settles their records and publishes
// once, in this order, so that readers see each run's own last word. A stop must not lose
// what was paid for, so nothing here is interrupted by one.
func (w *worker) endAll(ctx context.Context, ending []*run, causeOf func(*run) error) {
	w.runs = slices.DeleteFunc(w.runs, func(r *run) bool { return slices.Contains(ending, r) })
	lost := errors.Join(w.loader.Retry(ctx, true), w.loader.Load(ctx, true)) // what no status shows
	record := func(r *run, cause error) {
		unkept := r.record(ctx, cause)
		r.err, lost = errors.Join(cause, unkept), errors.Join(lost, unkept)
	}
	for _, r := range ending {
		r.ended = true
		record(r, errors.Join(causeOf(r), lost))
	}
	disabled := w.loader.Disabled()
	published := w.loader.Publish(ctx)
	if lost = errors.Join(lost, published); published != nil || w.loader.Disabled() > disabled {
		// The sinks that still work show that the runs did not end as it seemed.
		for _, r := range ending {
			record(r, errors.Join(r.err, published))
		}
		if again := errors.Join(w.loader.Publish(ctx), w.loader.Retry(ctx, true)); again != nil {
			w.engine.log().Error("the end of runs is not published yet", "err", again)
		}
	}
	for _, r := range ending {
		switch {
		case r.row.Status == runs.PausedBudget || r.row.Status == runs.Partial:
			r.err = lost
		case !w.loader.Working():
			r.err = errors.Join(r.err, w.loader.Problems())
		}
		w.forget(r)
		if r.noted && ctx.Err() == nil { // else the next start goes on with it
			if err := w.engine.Store.Runs.ForgetOrdered(r.row.ID); err != nil {
				w.engine.log().Error("requested run not removed from the record; the next start will look for it",
					"run", r.row.ID, "err", err)
			}
		}
		for _, o := range r.waiting {
			o.finish(&r.row, r.err)
		}
		if w.onEnd != nil {
			w.onEnd(r)
		}
	}
}

// record writes what became of the run. One whose process was asked to stop, or that would
// have to wait for the rate limit, is unfinished: the next one goes on with it.
func (r *run) record(ctx context.Context, cause error) error {
	row := &r.row
	if err := r.engine.tally(row, r.steps); err != nil {
		return err
	}
	row.Requests = max(row.Requests, r.worker.made[row.ID])
	row.Missing = r.missed + int64(r.progress.Missing)
	row.Failures = int64(r.progress.Failures)
	row.Rows = merged(row.Rows, r.worker.loader.Taken(row.ID))
	retry, err := r.engine.Store.Queue.NextRetry(time.Now(), queue.Filter{Job: row.Job})
	if err != nil {
		return err
	}
	row.Status, row.Error = r.status(ctx, cause, !retry.IsZero()), ""
	if all := errors.Join(cause, r.unreadable(), r.worker.loader.Problems()); all != nil {
		row.Error = all.Error()
	}
	row.Ended = time.Now()
	if !row.Status.Open() {
		if err := r.closeSteps(); err != nil {
			return err
		}
	}
	return r.engine.Store.Finish(*row)
}

// tally counts what a run has asked for and found.
func (e *Engine) tally(row *runs.Run, steps []runs.Step) error {
	spend, err := e.Store.Ledger.Spent(row.ID)
	if err != nil {
		return err
	}
	row.Requests, row.Credits, row.Refunded = spend.Requests, spend.Charged+spend.Unknown, spend.Refunded
	row.Waited = spend.Waited
	row.Pages, row.Hits, row.NewHits = 0, 0, 0
	for _, s := range steps {
		row.Pages += int64(s.Pages)
		row.Hits += int64(s.Hits)
		row.NewHits += int64(s.NewHits)
	}
	return nil
}

// closeSteps notes what was left, and gives back what was set aside for reading scans,
// unless a scan is left that another try can read.
func (r *run) closeSteps() error {
	unread := slices.ContainsFunc(r.steps, func(s runs.Step) bool {
		return s.Stop == "" && (s.Query.Op() == outlier.OpStartScan || s.Scan != "")
	})
	return r.engine.Store.DB.Update(func(tx *store.Tx) error {
		for i := range r.steps {
			step := &r.steps[i]
			if step.Stop == "" {
				step.Left = pagesLeft(&r.plan, step)
				if err := runs.SaveStep(tx, *step); err != nil {
					return err
				}
			}
			if step.Query.Op() == outlier.OpStartScan && !unread {
				if err := runs.Release(tx, step.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// status distinguishes a run that found nothing from one that a cap cut, that was interrupted
// or that failed.
func (r *run) status(ctx context.Context, cause error, backedOff bool) runs.Status {
	switch {
	case cause != nil && ctx.Err() != nil || isCancelled(cause):
		return runs.Interrupted
	case tooLong(cause):
		return runs.PausedQuota
	case cause != nil && isCap(cause) && r.worker.loader.Working():
		return runs.PausedBudget
	case cause != nil && isQueued(cause) && r.worker.loader.Working():
		return runs.Partial
	case cause != nil || !r.worker.loader.Working():
		return runs.Failed
	case r.progress.Failures > 0 || backedOff: // calls that failed, now or before, wait for another try
		return runs.Partial
	case r.unreadable() != nil:
		return runs.Partial
	case r.worker.loader.Problems() != nil: // readers of that sink do not see its rows yet
		return runs.Partial
	case r.row.Hits == 0 && len(r.plan.IDs) == 0 && !r.uncounted():
		return runs.OKEmpty
	}
	return runs.OK
}

// unreadable says which hits of the run's pages did not come or could not be stored; nil if
// all are there.
func (r *run) unreadable() error {
	unread, hits := 0, 0
	var all []error
	for i := range r.steps {
		s := &r.steps[i]
		unread, hits = unread+s.Unread, hits+s.Hits
		if s.Stop == runs.StopMissing {
			all = append(all, fmt.Errorf("%s: the service counts %d hits and answered with none", s.Title(), s.Total))
		}
	}
	if unread > 0 {
		all = append(all, fmt.Errorf("%d of %d hits could not be stored; the journal keeps the pages as they came",
			unread, hits))
	}
	return errors.Join(all...)
}

// uncounted reports whether the run brought answers that have no hits to count, or had
// no time or no credits to search: neither is the same as having found nothing.
func (r *run) uncounted() bool {
	return slices.ContainsFunc(r.steps, func(s runs.Step) bool {
		return s.Stop == runs.StopTime || s.Stop == plan.StopShare ||
			s.Query.Op() == outlier.OpTrendingFormats && s.Pages > 0
	})
}

func merged(a, b map[string]int64) map[string]int64 {
	sum := maps.Clone(b)
	if sum == nil {
		sum = map[string]int64{}
	}
	for name, n := range a {
		sum[name] += n
	}
	return sum
}

// doing names the call under way.
func (r *run) doing(what string) {
	r.progress.Doing = what
	if what != "" {
		r.progress.Until = time.Time{}
	}
	p := r.snapshot()
	r.seen.latest.Store(&p)
	if r.urgent > 0 || len(r.worker.urgent()) == 0 {
		r.engine.current.Store(r.seen)
	}
}

// updated refreshes what watchers see.
func (r *run) updated() { r.doing("") }

func (r *run) snapshot() Progress {
	p := r.progress
	p.Searches = append([]runs.Step(nil), r.steps...)
	p.Tasks, p.Fresh = maps.Clone(r.progress.Tasks), maps.Clone(r.fresh)
	return p
}
