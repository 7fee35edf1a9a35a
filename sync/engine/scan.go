package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # A scan
//
// It is the dearest thing there is to buy, it takes hours, and the service has neither
// an idempotency key nor a list of scans. So an intent is durable before anything is
// sent, and a second one for the same thing is refused by the database, whichever run wants
// it. It is started again only with proof that the first request did nothing. Where
// there is none, the scan is reported and waits for a person, who can look at the service.
//
// The price of reading the results is set aside together with the price of the scan:
// a scan that cannot be read would be money thrown away.

// UnsettledScanError says that the start of a scan was not confirmed.
type UnsettledScanError struct {
	Scan  runs.Scan
	Other *runs.Scan // that the service named in answer to its start; nil for none
}

func (e *UnsettledScanError) Error() string {
	if e.Other != nil {
		return fmt.Sprintf("the service answered the start of a scan of %q with scan %s, "+
			"which is on record and searches for %q; "+
			"it is not known whether one of %q was started, and it is not sent again. "+
			"Look for it at the service: %s",
			e.Scan.Queries, e.Other.ScanID, e.Other.Queries, e.Scan.Queries, e.Scan.HowToSettle())
	}
	return fmt.Sprintf("a scan of %q was sent on %s and it is not known whether it was started; "+
		"it is not sent again. "+
		"Look for it at the service: %s",
		e.Scan.Queries, e.Scan.Intended.UTC().Format("2006-01-02 15:04 UTC"), e.Scan.HowToSettle())
}

// scan does what is next for a scan: it is started, or polled when it is time.
func (r *run) scan(ctx context.Context, step *runs.Step) (worked bool, err error) {
	scan, err := r.engine.Store.Runs.ScanOf(step.ID)
	switch {
	case err != nil:
		return true, err
	case scan == nil || scan.State == runs.ScanRefused || scan.State == runs.ScanNotCreated:
		if joined, err := r.joinScan(ctx, step); joined || err != nil {
			return true, err
		}
		if r.tooDear(step) {
			return false, nil
		}
		if err := r.allowed(); err != nil {
			return true, err
		}
		return true, r.startScan(ctx, step)
	case scan.State == runs.ScanRunning:
		if r.polls[step.ID] = r.pollDue(scan); time.Now().Before(r.polls[step.ID]) {
			return false, nil
		}
		return true, r.poll(ctx, step, scan)
	case scan.State == runs.ScanUnknown || scan.State == runs.ScanIntended:
		return true, &UnsettledScanError{Scan: *scan}
	}
	return true, r.endScan(step, scan) // as a person or its first answer said
}

// pollDue is when to poll a scan again: not before the limiter lets a poll pass, or
// other calls would wait behind it.
func (r *run) pollDue(scan *runs.Scan) time.Time {
	next := earlier(scan.NextPoll, time.Now().Add(r.plan.Scan.PollMax)) // a clock was ahead
	if at := r.engine.Pace.Poll(); at.After(next) {
		return at
	}
	return next
}

// nextPoll is when to poll a scan again; zero if none is running.
func (r *run) nextPoll() (at time.Time) {
	for _, next := range r.polls {
		if at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}

// # Joining
//
// Whatever started it, a live scan of the same queries and mode is the same scan: it is
// waited for and read, and not bought a second time. What a step that joins it sets aside
// is the price of reading alone; each run that reads pays for its own pages, with its own
// filters. When a scan is live, [runs.Runs.LiveScan] says.

// joinScan lets a step join the scan that its own start would only repeat, if there is
// one. One whose start is not confirmed waits for a person's word, whichever run wants it.
func (r *run) joinScan(ctx context.Context, step *runs.Step) (joined bool, err error) {
	live, err := r.engine.Store.Runs.LiveScan(facts.ScanOf(step, r.plan.Again))
	if err != nil || live == nil {
		return false, err
	}
	if live.ScanID == "" {
		return false, &UnsettledScanError{Scan: *live}
	}
	if err := r.worker.proveTime(ctx); err != nil {
		return false, err
	}
	err = r.engine.Store.Runs.JoinScan(ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Caps: r.caps,
		Hold: r.engine.holdForReading(&r.plan),
	}, live.Intent)
	if err != nil {
		return false, err
	}
	step.Joined = live.Intent
	r.engine.log().Info("scan joined", "job", r.row.Job, "run", r.row.ID, "scan", live.ScanID,
		"started_by", live.Job, "started_at", live.Intended.In(r.engine.Config.Timezone), "credits", 0)
	return true, nil
}

// joinLive joins the scans that the run's plan reckons with, before they can end: a run
// whose cap holds no start could not begin one of its own. What goes wrong is reported when it
// is the step's turn, and it is tried again.
func (r *run) joinLive(ctx context.Context) {
	for i := range r.steps {
		if r.plan.Joins[r.steps[i].Ordinal] != "" {
			_, _ = r.joinScan(ctx, &r.steps[i])
		}
	}
}

// startScan makes one attempt. One that provably did nothing is followed by another,
// with an intent of its own, when the step's turn comes again.
func (r *run) startScan(ctx context.Context, step *runs.Step) error {
	request, err := step.Query.Request(r.engine.Config.Service.Prices)
	if err != nil {
		return err
	}
	if _, err := r.plan.Reads[step.Ordinal].Query.Request(nil); err != nil { // before anything is paid
		return fmt.Errorf("the scan is not started, since its results could not be read: %w", err)
	}
	purchase := ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item, Attempt: r.refusals[step.ID] + 1,
		Caps: r.caps, Hold: r.engine.holdForReading(&r.plan),
	}
	if again := r.worker.tried[keyOf(request, purchase)].again; again.After(time.Now()) {
		return &waitError{again}
	}
	if err := r.worker.ready(ctx, request, ledger.Purchase{}); err != nil {
		return err
	}
	if err := r.worker.slotFor(ctx, request, &purchase); err != nil { // before the intent is on record
		return err
	}
	scan, err := r.intend(step, request)
	if err != nil {
		return err
	}
	r.doing("start a scan")
	var before *runs.Scan // that the answer names, if it was on record
	purchase.Intent = scan.Intent
	purchase.Commit = func(tx *store.Tx, kept ledger.Kept) (err error) {
		before, err = r.started(tx, scan, kept)
		return err
	}
	answer, err := r.worker.once(ctx, request, purchase)
	r.updated()
	if answer == nil { // nothing was even reserved
		scan.State = runs.ScanRefused
		return errors.Join(err, r.saveScan(scan))
	}
	if failed := r.engine.learn(); failed != nil {
		return errors.Join(err, failed)
	}
	switch {
	case before == nil || unkept(err):
		return r.retryScan(ctx, step, scan, err)
	case scan.State == runs.ScanNotCreated:
		step.Joined = before.Intent
		r.engine.log().Warn("scan on record joined: the service started no other",
			"job", r.row.Job, "run", r.row.ID, "scan", before.ScanID, "started_by", before.Job, "credits", scan.Price)
		return nil
	}
	return errors.Join(err, &UnsettledScanError{Scan: *scan, Other: before})
}

// intend makes the intent durable.
func (r *run) intend(step *runs.Step, request *outlier.Request) (*runs.Scan, error) {
	params := request.Params()
	scan := &runs.Scan{
		Run: r.row.ID, Job: r.row.Job, Due: r.row.Due, Step: step.ID,
		FindBy: params.Get("findBy"), Mode: params.Get("mode"), Queries: params["query"],
		Price: request.Price(), Again: r.plan.Again, State: runs.ScanIntended,
		Intended: r.engine.Store.Ledger.ServiceTime(),
	}
	err := r.engine.Store.DB.Update(func(tx *store.Tx) (err error) {
		scan.Intent, err = r.engine.Store.Runs.IntendScan(tx, *scan)
		return err
	})
	if live, ok := errors.AsType[*runs.LiveScanError](err); ok && live.Scan.State != runs.ScanRunning {
		return nil, &UnsettledScanError{Scan: live.Scan}
	}
	return scan, err
}

// started notes what became of the attempt, in the transaction of its answer. Before is the
// scan that the answer names if that is on record: the run joins it if it is the same.
func (r *run) started(tx *store.Tx, scan *runs.Scan, kept ledger.Kept) (before *runs.Scan, err error) {
	if kept.Outcome == outlier.Refunded {
		scan.State = runs.ScanRefused
		return nil, runs.SaveScan(tx, *scan)
	}
	scan.State = runs.ScanUnknown
	// An answer that broke off may still tell the id, and that is all that is needed.
	body, _ := kept.Body()
	if seen, _ := outlier.ReadScan(body); seen.ID != "" {
		if before, err = runs.NamedBefore(tx, *scan, seen.ID); err != nil {
			return nil, err
		}
		if before == nil {
			r.follow(tx, scan, seen, kept.Answer.ReceivedAt)
		}
	}
	if before != nil && kept.Outcome == outlier.Charged && scan.Repeats(before) {
		return before, runs.JoinInstead(tx, scan, before)
	}
	return before, runs.SaveScan(tx, *scan)
}

// follow takes over what an answer says of a scan. The deadline counts from the first such
// answer.
func (r *run) follow(tx *store.Tx, scan *runs.Scan, seen outlier.Scan, now time.Time) {
	if scan.Deadline.IsZero() {
		scan.Deadline = r.engine.Store.Ledger.ServiceTime().Add(r.plan.Scan.Deadline)
	}
	scan.ScanID, scan.Status, scan.Created = seen.ID, seen.Status, seen.CreatedAt
	scan.Polled, scan.NextPoll = now, now.Add(plan.PollPause(r.plan.Scan, scan.Polls))
	scan.State = stateOf(seen)
}

// retryScan decides what an attempt that failed means for the run.
func (r *run) retryScan(ctx context.Context, step *runs.Step, scan *runs.Scan, err error) error {
	switch {
	case unkept(err): // what the answer said is in the journal at most
		return errors.Join(err, &UnsettledScanError{Scan: *scan})
	case scan.ScanID != "":
		r.polls[step.ID] = scan.NextPoll
		return nil
	case err == nil:
		return &UnsettledScanError{Scan: *scan}
	case scan.State == runs.ScanUnknown:
		return errors.Join(err, &UnsettledScanError{Scan: *scan})
	case ctx.Err() != nil || isCap(err) || kindOf(err) == outlier.Unauthorized || kindOf(err) == "":
		return err
	}
	most := plan.Attempts
	if kindOf(err) == outlier.Limited {
		most = maxRefusals
	}
	if r.refusals[step.ID]++; r.refusals[step.ID] >= most || stopFor(kindOf(err)) != "" {
		r.leave(step, err)
		return nil
	}
	r.engine.log().Warn("scan refused, and tried again", "job", r.row.Job, "run", r.row.ID, "err", err)
	if kindOf(err) == outlier.Limited {
		return nil
	}
	r.engine.waits.add(waitRetry, backoff(r.refusals[step.ID]))
	again := time.Now().Add(backoff(r.refusals[step.ID]))
	r.worker.tried[callKey{run: r.row.ID, step: step.ID, op: outlier.OpStartScan}] = tries{again: again}
	return nil
}

// poll asks how a scan stands. That the service does not answer is no reason to give
// a paid scan up: it is asked again, until the deadline.
func (r *run) poll(ctx context.Context, step *runs.Step, scan *runs.Scan) error {
	request, err := outlier.DataRequest(outlier.OpScan, scan.ScanID)
	if err != nil {
		return err
	}
	r.doing("scan " + scan.ScanID)
	scan.Polls++
	latest := r.engine.Store.Ledger.ServiceTime().Add(r.plan.Scan.Deadline)
	if scan.Deadline.IsZero() || scan.Deadline.After(latest) { // it was adopted, or a clock was ahead
		scan.Deadline = latest
	}
	var unread error // why the answer says nothing about the scan
	_, err = r.worker.fetch(ctx, request, ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item,
		Commit: func(tx *store.Tx, kept ledger.Kept) (err error) {
			unread, err = r.polled(tx, scan, kept)
			return err
		},
	})
	r.updated()
	if err != nil && (ctx.Err() != nil || kindOf(err) == "" || kindOf(err) == outlier.Unauthorized) {
		return err
	}
	if err = cmp.Or(err, unread); err != nil {
		r.engine.log().Warn("scan not polled", "job", r.row.Job, "run", r.row.ID, "scan", scan.ScanID, "err", err)
	}
	if scan.State == runs.ScanRunning && r.overdue(ctx, scan) {
		scan.State = runs.ScanExpired
	}
	if scan.State != runs.ScanRunning {
		return r.endScan(step, scan)
	}
	if err != nil {
		scan.NextPoll = time.Now().Add(plan.PollPause(r.plan.Scan, scan.Polls))
		err = r.saveScan(scan)
	}
	r.polls[step.ID] = scan.NextPoll
	return err
}

// overdue reports whether the deadline of a scan has passed. It was paid for, so this
// machine's clock alone does not give it up, if the service's answers have a time.
func (r *run) overdue(ctx context.Context, scan *runs.Scan) bool {
	if r.engine.Store.Ledger.ServiceTime().Before(scan.Deadline) {
		return false
	}
	if err := r.worker.proveTime(ctx); err != nil {
		r.engine.log().Debug("service time unknown", "job", r.row.Job, "run", r.row.ID, "err", err)
	}
	return !r.engine.Store.Ledger.ServiceTime().Before(scan.Deadline)
}

// endScan closes the step of a scan that is not waited for any longer.
func (r *run) endScan(step *runs.Step, scan *runs.Scan) error {
	switch scan.State {
	case runs.ScanFailed:
		r.fail(fmt.Errorf("scan %s of %q ended as %s; it was paid for, and there is nothing to read",
			scan.ScanID, scan.Queries, scan.Status))
		return r.closeScan(step, runs.StopScanFailed, scan)
	case runs.ScanExpired:
		within := job.Duration(scan.Deadline.Sub(scan.Intended).Round(time.Minute))
		r.fail(fmt.Errorf("scan %s of %q has not ended within %s; "+
			"`outlierd scan read %s` reads its results when it has",
			scan.ScanID, scan.Queries, within, scan.ScanID))
		return r.closeScan(step, runs.StopDeadline, scan)
	}
	return r.closeScan(step, runs.StopScanned, scan)
}

// polled notes what an answer says of a scan. One that cannot be read, or that is about
// another scan, stays in the journal, and the next poll may tell more.
func (r *run) polled(tx *store.Tx, scan *runs.Scan, kept ledger.Kept) (unread, err error) {
	if kept.Answer.Err != nil {
		return nil, nil
	}
	body, unread := kept.Body()
	if unread != nil {
		return unread, nil
	}
	seen, unread := readScan(body, scan.ScanID)
	if unread != nil {
		return unread, nil
	}
	seen.ID = scan.ScanID
	r.follow(tx, scan, seen, kept.Answer.ReceivedAt)
	return nil, runs.SaveScan(tx, *scan)
}

// closeScan ends a scan's step. The search that reads the results becomes a step of
// its own in the same transaction.
func (r *run) closeScan(step *runs.Step, stop string, scan *runs.Scan) error {
	closed := *step
	closed.Stop = stop
	err := r.engine.Store.DB.Update(func(tx *store.Tx) error {
		if err := runs.SaveScan(tx, *scan); err != nil {
			return err
		}
		if stop == runs.StopScanned {
			if _, err := runs.AddStep(tx, r.reading(step, scan)); err != nil {
				return err
			}
		}
		return runs.SaveStep(tx, closed)
	})
	if err != nil {
		return err
	}
	delete(r.polls, step.ID)
	r.steps, err = r.engine.Store.Runs.Steps(r.row.ID)
	return err
}

// reading is the step that reads a scan's results.
func (r *run) reading(step *runs.Step, scan *runs.Scan) runs.Step {
	return runs.Step{
		Run: step.Run, Item: step.Item, Queries: step.Queries,
		Query: r.plan.Reads[step.Ordinal].Query.OfScan(scan.ScanID),
		Scan:  scan.ScanID, Watermark: step.Watermark, Began: scan.Intended, Total: -1, Left: -1,
	}
}

// fail notes trouble of one search; the run goes on with the others.
func (r *run) fail(err error) { r.trouble = errors.Join(r.trouble, err) }

func (r *run) saveScan(scan *runs.Scan) error {
	return r.engine.Store.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, *scan) })
}

// holdForReading is what is set aside to read the results of a scan.
func (e *Engine) holdForReading(f *plan.Stored) outlier.Credits {
	_, reading := f.Scan.Price(e.Config.Service.Prices, f.Pages)
	return reading
}
