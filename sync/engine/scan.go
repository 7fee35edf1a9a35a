package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # Scans
//
// A scan is the most expensive purchase, takes hours, and the service has neither an idempotency key
// nor a list of scans. Therefore an intent is durable before the request is sent, and the database
// refuses a second intent for the same scan, whichever run wants it. The start is repeated only with
// proof that the first request did nothing. Without proof, the run reports the scan, and a person
// has to look at the service and settle it.
//
// The price of reading the results is held together with the price of the scan, because a scan whose
// results cannot be read would be wasted money.

// UnsettledScanError reports a scan whose start was not confirmed.
type UnsettledScanError struct {
	Scan runs.Scan
	said string // by the run that met it; "" for the usual
}

func (e *UnsettledScanError) Error() string {
	if e.said != "" {
		return e.said
	}
	return fmt.Sprintf("a scan of %q was sent on %s and it is not known whether it was started; "+
		"it is not sent again. "+
		"Look for it at the service: %s",
		e.Scan.Queries, e.Scan.Intended.UTC().Format("2006-01-02 15:04 UTC"), e.Scan.HowToSettle())
}

// # Joining
//
// A live scan of the same queries and mode is the same scan, whatever started it: a run waits for it
// and reads it instead of buying another. A step that joins a scan holds only the price of reading;
// each run that reads pays for its own pages, with its own filters. [runs.Scans.Live] defines
// which scans are live.

// joinScan lets a step join a live scan.
func (r *run) joinScan(ctx context.Context, step *runs.Step, live *runs.Scan) error {
	if err := r.worker.ensureTime(ctx); err != nil {
		return err
	}
	err := r.engine.Store.Scans.Join(ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Caps: r.caps,
		Hold: r.engine.holdForReading(&r.plan),
	}, live.Intent)
	if err != nil {
		return err
	}
	r.engine.log().Info("scan joined", "job", r.row.Job, "run", r.row.ID, "scan", live.ScanID,
		"started_by", live.Job, "started_at", live.Intended.In(r.engine.Config.Timezone), "credits", 0)
	return nil
}

// joinLive joins the scans that the run's plan expects to join, before they can end: the run's cap may
// have no room for a start of its own. Errors are ignored here, because the step tries again in its
// turn and reports them.
func (r *run) joinLive(ctx context.Context) {
	if len(r.plan.Joins) == 0 {
		return
	}
	steps, _ := r.engine.Store.Steps.OfRun(r.row.ID)
	for i := range steps {
		if r.plan.Joins[steps[i].Ordinal] == "" {
			continue
		}
		if _, live, _ := r.scanOf(&steps[i]); live != nil && live.ScanID != "" {
			_ = r.joinScan(ctx, &steps[i], live)
		}
	}
}

// startScan makes one attempt to start a scan. After an attempt that provably did nothing, the step's
// next turn makes another one with a new intent. last is an earlier intent that it replaces; nil for none.
func (r *run) startScan(ctx context.Context, step *runs.Step, last *runs.Scan) error {
	request, err := step.Query.Request(r.engine.Config.Service.Prices)
	if err != nil {
		return err
	}
	if _, err := r.plan.ReadOf(step.Ordinal).Request(nil); err != nil { // before anything is paid
		return fmt.Errorf("the scan is not started, since its results could not be read: %w", err)
	}
	purchase := ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item, Attempt: step.Failures + step.Refusals + 1,
		Caps: r.caps, Hold: r.engine.holdForReading(&r.plan),
	}
	if err := waitFor(&step.Tries); err != nil {
		return err
	}
	if err := r.worker.prepareCall(ctx, request, ledger.Purchase{}); err != nil {
		return err
	}
	if err := r.worker.slotFor(request, &purchase); err != nil { // before the intent is recorded
		return err
	}
	scan, err := r.recordIntent(step, request, last)
	if err != nil {
		return err
	}
	r.doing("start a scan")
	purchase.Intent = scan.Intent
	got, err := r.worker.attempt(ctx, request, purchase)
	r.updated()
	if got.answer == nil { // nothing was reserved
		scan.State = runs.ScanRefused
		return errors.Join(err, r.saveScan(scan))
	}
	scan, failed := r.engine.Store.Scans.OfIntent(scan.Intent)
	if failed = errors.Join(failed, r.engine.recordLimit()); failed != nil {
		return errors.Join(err, failed)
	}
	switch {
	case got.before == nil:
		return r.retryScan(ctx, step, scan, err)
	case scan.State == runs.ScanNotCreated:
		r.engine.log().Warn("scan joined: the service started no other", "job", r.row.Job, "run", r.row.ID,
			"scan", got.before.ScanID, "started_by", got.before.Job, "credits", scan.Price)
		return nil
	}
	return errors.Join(err, &UnsettledScanError{*scan, fmt.Sprintf("the service answered the start of a scan of %q with scan %s, "+
		"which is already recorded and searches for %q; it is not known whether one of %q was started, and it is not sent again. "+
		"Look for it at the service: %s",
		scan.Queries, got.before.ScanID, got.before.Queries, scan.Queries, scan.HowToSettle())})
}

// recordIntent makes the intent to start a scan durable, in place of the last one.
func (r *run) recordIntent(step *runs.Step, request *outlier.Request, last *runs.Scan) (*runs.Scan, error) {
	params := request.Params()
	scan := &runs.Scan{
		Run: r.row.ID, Job: r.row.Job, Due: r.row.Due, Step: step.ID,
		FindBy: params.Get("findBy"), Mode: params.Get("mode"), Queries: params["query"],
		Price: request.Price(), Again: r.plan.Again, State: runs.ScanIntended,
		Intended: r.engine.Store.Clock.Now(),
	}
	err := r.engine.Store.DB.Update(func(tx *store.Tx) (err error) {
		if last != nil && last.State == runs.ScanIntended { // refunded, or never sent
			last.State = runs.ScanRefused
			err = runs.SaveScan(tx, *last)
		}
		if err != nil {
			return err
		}
		scan.Intent, err = r.engine.Store.Scans.Intend(tx, *scan)
		return err
	})
	return scan, err
}

// planPoll sets when to poll a scan next. The deadline counts from the first answer about it.
func (r *run) planPoll(scan *runs.Scan) {
	if scan.Deadline.IsZero() {
		scan.Deadline = r.engine.Store.Clock.Now().Add(r.plan.Scan.Deadline)
	}
	scan.NextPoll = scan.Polled.Add(plan.PollPause(r.plan.Scan, scan.Polls))
}

// retryScan returns what a finished attempt means for the run.
func (r *run) retryScan(ctx context.Context, step *runs.Step, scan *runs.Scan, err error) error {
	v := judge(err)
	switch {
	case scan.ScanID != "":
		step.Tries = outlier.Tries{}
		return r.saveTries(step)
	case err == nil || scan.State == runs.ScanUnknown:
		return errors.Join(err, &UnsettledScanError{Scan: *scan})
	case ctx.Err() != nil || v.status == runs.PausedBudget || !v.outage():
		return err
	}
	if !r.worker.repeats(&step.Tries, v) {
		step.Tries = outlier.Tries{}
		return errors.Join(r.saveTries(step), r.skipStep(step, err))
	}
	r.engine.log().Warn("scan start refused, will be retried", "job", r.row.Job, "run", r.row.ID, "err", err)
	return r.saveTries(step)
}

// saveTries records the attempts at a step's next call.
func (r *run) saveTries(step *runs.Step) error {
	return r.engine.Store.DB.Update(func(tx *store.Tx) error { return runs.SaveTries(tx, step.ID, step.Tries) })
}

// poll asks the service for the status of a scan. A paid scan is not abandoned because a poll fails:
// it is polled again until the deadline.
func (r *run) poll(ctx context.Context, step *runs.Step, scan *runs.Scan) error {
	request, err := outlier.DataRequest(outlier.OpScan, scan.ScanID)
	if err != nil {
		return err
	}
	r.doing("scan " + scan.ScanID)
	got, err := r.worker.fetch(ctx, request, ledger.Purchase{
		Run: r.row.ID, Job: r.row.Job, Step: step.ID, Item: step.Item,
	}, &step.Tries)
	r.updated()
	if err != nil && (ctx.Err() != nil || !judge(err).outage()) {
		return err
	}
	scan, failed := r.engine.Store.Scans.OfIntent(scan.Intent)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if err = cmp.Or(err, got.wrong); err != nil {
		r.engine.log().Warn("scan not polled", "job", r.row.Job, "run", r.row.ID, "scan", scan.ScanID, "err", err)
		r.countPoll(scan)
		scan.NextPoll = time.Now().Add(plan.PollPause(r.plan.Scan, scan.Polls))
	}
	if scan.State == runs.ScanRunning && r.overdue(ctx, scan) {
		scan.State = runs.ScanExpired
	}
	if scan.State != runs.ScanRunning {
		return r.endScan(step, scan)
	}
	if err == nil {
		return nil
	}
	return r.saveScan(scan)
}

// countPoll counts a poll of a scan, and gives it a deadline if it has none: it was adopted, or the clock was ahead.
func (r *run) countPoll(scan *runs.Scan) {
	scan.Polls++
	latest := r.engine.Store.Clock.Now().Add(r.plan.Scan.Deadline)
	if scan.Deadline.IsZero() || scan.Deadline.After(latest) {
		scan.Deadline = latest
	}
}

// overdue reports whether the deadline of a scan has passed. Because the scan is paid for, the local
// clock alone does not decide that if the service's answers have a time.
func (r *run) overdue(ctx context.Context, scan *runs.Scan) bool {
	if r.engine.Store.Clock.Now().Before(scan.Deadline) {
		return false
	}
	if err := r.worker.ensureTime(ctx); err != nil {
		r.engine.log().Debug("service time unknown", "job", r.row.Job, "run", r.row.ID, "err", err)
	}
	return !r.engine.Store.Clock.Now().Before(scan.Deadline)
}

// endScan closes the step of a scan that has ended or expired.
func (r *run) endScan(step *runs.Step, scan *runs.Scan) error {
	switch scan.State {
	case runs.ScanFailed:
		step.Problem = fmt.Sprintf("scan %s of %q ended as %s; it was paid for, and there is nothing to read",
			scan.ScanID, scan.Queries, scan.Status)
		return r.closeScan(step, runs.StopScanFailed, scan)
	case runs.ScanExpired:
		within := job.Duration(scan.Deadline.Sub(scan.Intended).Round(time.Minute))
		step.Problem = fmt.Sprintf("scan %s of %q has not ended within %s; "+
			"`outlierd scan read %s` reads its results when it has",
			scan.ScanID, scan.Queries, within, scan.ScanID)
		return r.closeScan(step, runs.StopDeadline, scan)
	}
	return r.closeScan(step, runs.StopScanned, scan)
}

// closeScan closes a scan's step. If the results can be read, the same transaction adds the step that
// reads them.
func (r *run) closeScan(step *runs.Step, stop string, scan *runs.Scan) error {
	closed := *step
	closed.Stop = stop
	return r.engine.Store.DB.Update(func(tx *store.Tx) error {
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
}

// reading returns the step that reads a scan's results.
func (r *run) reading(step *runs.Step, scan *runs.Scan) runs.Step {
	return runs.Step{
		Run: step.Run, Item: step.Item, Queries: step.Queries,
		Query: r.plan.ReadOf(step.Ordinal).OfScan(scan.ScanID),
		Scan:  scan.ScanID, Watermark: step.Watermark, Began: scan.Intended, Total: -1, Left: -1,
	}
}

func (r *run) saveScan(scan *runs.Scan) error {
	return r.engine.Store.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, *scan) })
}

// holdForReading returns the credits to hold for reading the results of a scan.
func (e *Engine) holdForReading(f *plan.Stored) outlier.Credits {
	_, reading := f.Scan.Price(e.Config.Service.Prices, f.Pages)
	return reading
}
