package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// A run is a run in progress, as its row says in this turn, and what its next action depends on.
type run struct {
	engine *Engine
	worker *worker // makes its calls
	row    runs.Run
	urgent bool  // somebody waits for it; a worker without a schedule has no other run
	err    error // why it ends, if not normally

	search  *searchFacts // nil if its searches have ended
	putOff  bool         // its searches can do nothing more in this turn
	nextDue bool         // the job's next run waits for its end
	pending bool         // data calls of the run can be made
	spent   bool         // it has used up its time or its requests
	task    *queue.Task  // its next data call, if it is urgent
}

func (w *worker) runOf(row runs.Run) *run {
	r := &run{engine: w.engine, worker: w, row: row}
	r.urgent, r.nextDue = row.Urgent > 0 || !w.patient, !row.ResumedFor.IsZero()
	return r
}

// isByHand reports whether a person asks for the run now: back-offs and unreadable answers in the journal hold nothing
// back.
func (r *run) isByHand() bool { return r.worker.byHand || r.row.Urgent > 0 }

// caps returns the caps of a paid call of the run at a time of the service: its own, its job's, and those of the
// whole file. Those of the file are as they are now, so a changed cap applies at once. A job that has left the file
// keeps the caps that it had.
func (r *run) caps(at time.Time) []ledger.Cap {
	own := job.JobBudget{PerMonth: r.row.Plan.PerMonth}
	if spec, _ := facts.ResumedSpec(r.engine.Config, &r.row); spec != nil {
		own = spec.Budget
	}
	own.MaxCredits = r.row.Plan.MaxCredits
	return r.engine.Facts().Caps().CapsOf(&r.row, *r.row.Plan, own, at)
}

// endCause returns why a run that has its pages does not do all that it was to do: errors of its searches, or else a
// cap, or that the job's next run is due. Its remaining calls stay in the queue and are made later.
func (r *run) endCause(nextDue bool) error {
	steps, err := r.engine.Store.Steps.OfRun(r.row.ID)
	if err == nil {
		err = r.searchErr(steps)
	}
	if err != nil || r.timeUp() {
		return err
	}
	pending, err := r.engine.Store.Queue.Pending(time.Now(), queue.Filter{Job: r.row.Job})
	if err != nil || !pending {
		return err
	}
	if err := checkRequests(r.engine.Store.DB, &r.row); err != nil || !nextDue {
		return err
	}
	return &QueuedError{errors.New("the next run of the job is due")}
}

// searchErr returns the errors of the run's searches, or else that of a cap that one has reached.
func (r *run) searchErr(steps []runs.Step) (capped error) {
	var failed []error
	for i := range steps {
		step := &steps[i]
		err := errors.New(step.Problem)
		switch {
		case step.Capped:
			capped = &cappedError{step.Problem}
		case step.Problem != "" && step.Stop == "" && step.Query.Op() == outlier.OpStartScan:
			scan, live, failure := scanOf(r.engine.Store.Scans, r.row.Plan, step)
			if scan = cmp.Or(live, scan); scan != nil && scan.State == runs.ScanUnknown {
				err = &UnsettledScanError{Scan: *scan, said: step.Problem}
			}
			failed = append(failed, err, failure)
		case step.Problem != "":
			failed = append(failed, err)
		case runs.Final(step.Stop) && step.Unread == 0: // a kill came before the reason was recorded
			failed = append(failed, fmt.Errorf("%s: %s", step.Title(), step.Stop))
		}
	}
	return cmp.Or(errors.Join(failed...), capped)
}

// A cappedError is why a search has stopped if a cap, the credits or the clock keep it from being bought, as its row
// says.
type cappedError struct{ problem string }

func (e *cappedError) Error() string { return e.problem }

// timeUp reports whether the run's time is up, which counts from its beginning, also after a restart.
func (r *run) timeUp() bool {
	most := r.row.Plan.StopAfter
	return most > 0 && time.Since(r.row.Started) >= most
}

// RequestsError ends a run that has made as many requests as its job allows.
type RequestsError struct{ Max int }

func (e *RequestsError) Error() string {
	return fmt.Sprintf("the run has made %d requests, which is its cap (budget.max_requests of its job); "+
		"raise the cap, or let the next run do the rest", e.Max)
}

// checkRequests returns a [RequestsError] if a run may make no more requests. A paid scan is polled and read however
// many requests that takes.
func checkRequests(made store.Reader, row *runs.Run) error {
	most := row.Plan.MaxRequests
	if most == 0 {
		return nil
	}
	n, err := ledger.Requests(made, row.ID)
	if err == nil && n >= int64(most) {
		err = &RequestsError{most}
	}
	return err
}

// end ends the run; see [worker.endAll].
func (r *run) end(ctx context.Context, cause error) {
	r.err = cause
	r.worker.endAll(ctx, []*run{r})
}

// endAll ends runs together. It loads what is left, then records the results, then publishes once, so
// that readers see the final record of each run. A stop does not interrupt it, so that nothing that
// was paid for is lost. The error of each run is why it ends. A run whose end cannot be recorded is left to the next
// start.
func (w *worker) endAll(ctx context.Context, ending []*run) {
	lost := errors.Join(w.loader.Retry(ctx, true), w.loader.Load(ctx)) // errors that no run's status shows
	record := func(r *run, cause error) {
		unkept := r.record(ctx, cause)
		r.err, lost = errors.Join(cause, unkept), errors.Join(lost, unkept)
		if delete(w.unkept, r.row.ID); unkept != nil {
			w.unkept[r.row.ID] = true
		}
	}
	for _, r := range ending {
		record(r, errors.Join(r.err, lost))
	}
	disabled := w.loader.Disabled()
	published := w.loader.Publish(ctx)
	if lost = errors.Join(lost, published); published != nil || w.loader.Disabled() > disabled {
		// The sinks that still work must show the changed results of the runs.
		for _, r := range ending {
			record(r, errors.Join(r.err, published))
		}
		if again := errors.Join(w.loader.Publish(ctx), w.loader.Retry(ctx, true)); again != nil {
			w.engine.log().Error("end of runs not published yet", "err", again)
		}
	}
	for _, r := range ending {
		switch {
		case r.row.Status == runs.PausedBudget || r.row.Status == runs.Partial:
			r.err = lost
		case !w.loader.Working():
			r.err = errors.Join(r.err, w.loader.Problems())
		}
		w.tell(&r.row, r.err)
	}
}

// record records the result of the run. A run whose process was asked to stop, or that would have to
// wait for the rate limit, stays unfinished, to be resumed.
func (r *run) record(ctx context.Context, cause error) error {
	row := &r.row
	steps, err := r.engine.Store.Steps.OfRun(row.ID)
	if err == nil {
		err = r.engine.Store.Runs.Tally(row)
	}
	if err != nil {
		return err
	}
	retry, err := r.engine.Store.Queue.NextRetry(time.Now(), queue.Filter{Job: row.Job})
	if err != nil {
		return err
	}
	row.Status, row.Error = r.status(ctx, cause, !retry.IsZero(), steps), ""
	if all := errors.Join(cause, unreadable(steps), unknown(r.row.Plan), r.worker.loader.Problems()); all != nil {
		row.Error = all.Error()
	}
	row.Ended = time.Now()
	if stopped := ctx.Err() != nil; stopped {
		row.ResumedFor = time.Time{}
	} else {
		row.Urgent = 0 // else the next start resumes it
	}
	if !row.Status.Open() {
		if err := r.closeSteps(steps); err != nil {
			return err
		}
	}
	return r.engine.Store.Finish(*row)
}

// closeSteps records how many pages the open steps have left, and releases the credits held for
// reading scans, unless a scan is left that a later attempt can read.
func (r *run) closeSteps(steps []runs.Step) error {
	unread := slices.ContainsFunc(steps, func(s runs.Step) bool {
		return s.Stop == "" && (s.Query.Op() == outlier.OpStartScan || s.Scan != "")
	})
	return r.engine.Store.DB.Update(func(tx *store.Tx) error {
		for i := range steps {
			step := &steps[i]
			if step.Stop == "" {
				step.Left = facts.PagesLeft(r.row.Plan, step)
				if err := runs.SaveStep(tx, *step); err != nil {
					return err
				}
			}
			if step.Query.Op() == outlier.OpStartScan && !unread {
				if err := ledger.Release(tx, step.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// status returns the status of the run, given what ended it. backedOff is set if failed calls of its
// job wait for a retry.
func (r *run) status(ctx context.Context, cause error, backedOff bool, steps []runs.Step) runs.Status {
	switch v := judge(cause); {
	case cause != nil && ctx.Err() != nil:
		return runs.Interrupted
	case v.status == runs.Interrupted, v.status == runs.PausedQuota:
		return v.status
	case cause != nil && r.worker.loader.Working():
		return v.status
	case cause != nil || !r.worker.loader.Working():
		return runs.Failed
	case r.row.Failures > 0 || backedOff: // failed calls of this run or an earlier one wait for a retry
		return runs.Partial
	case unreadable(steps) != nil || len(r.row.Plan.Unknown) > 0:
		return runs.Partial
	case r.worker.loader.Problems() != nil: // readers of that sink do not see the rows yet
		return runs.Partial
	case r.row.Hits == 0 && len(r.row.Plan.IDs) == 0 && !uncounted(steps):
		return runs.OKEmpty
	}
	return runs.OK
}

// unreadable returns an error that says which hits of the run's pages were missing or could not be
// stored; nil if all were stored.
func unreadable(steps []runs.Step) error {
	unread, hits := 0, 0
	var all []error
	for i := range steps {
		s := &steps[i]
		unread, hits = unread+s.Unread, hits+s.Hits
		if s.Stop == runs.StopMissing {
			all = append(all, fmt.Errorf("%s: page %d is empty although the service reports %d hits", s.Title(),
				s.Next+1, s.Total))
		}
	}
	if unread > 0 {
		all = append(all, fmt.Errorf("%d of %d hits could not be stored; the journal keeps the pages as they came, "+
			"and --again buys them once more", unread, hits))
	}
	return errors.Join(all...)
}

// unknown returns an error that names the channels that the run did not ask for; nil if it knew all.
func unknown(of *plan.Stored) error {
	if len(of.Unknown) == 0 {
		return nil
	}
	return &job.UnknownChannelsError{Channels: of.Unknown}
}

// uncounted reports whether a run received answers that have no hits to count, or had no time or no
// credits to search: neither means that it found nothing.
func uncounted(steps []runs.Step) bool {
	return slices.ContainsFunc(steps, func(s runs.Step) bool {
		return s.Stop == runs.StopTime || s.Stop == plan.StopShare ||
			s.Query.Op() == outlier.OpTrendingFormats && s.Pages > 0
	})
}
