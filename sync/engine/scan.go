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
func (s search) joinScan(ctx context.Context, live *runs.Scan) error {
	if err := s.worker.calls.ensureTime(ctx); err != nil {
		return err
	}
	err := s.engine.Store.Scans.Join(ledger.Purchase{
		Run: s.row.ID, Job: s.row.Job, Step: s.step.ID, Caps: s.caps,
		Hold: s.holdForReading(),
	}, live.Intent)
	if err != nil {
		return err
	}
	s.engine.log().Info("scan joined", "job", s.row.Job, "run", s.row.ID, "scan", live.ScanID,
		"started_by", live.Job, "started_at", live.Intended.In(s.engine.Config.Timezone), "credits", 0)
	return nil
}

// startScan makes one attempt to start a scan. After an attempt that provably did nothing, the step's
// next turn makes another one with a new intent. last is an earlier intent that it replaces; nil for none.
func (s search) startScan(ctx context.Context, last *runs.Scan) error {
	request, err := s.step.Query.Request(s.engine.Config.Service.Prices)
	if err != nil {
		return err
	}
	if _, err := s.row.Plan.ReadOf(s.step.Ordinal).Request(nil); err != nil { // before anything is paid
		return fmt.Errorf("the scan is not started, since its results could not be read: %w", err)
	}
	purchase := ledger.Purchase{
		Run: s.row.ID, Job: s.row.Job, Step: s.step.ID, Item: s.step.Item, Attempt: s.step.Failures + s.step.Refusals + 1,
		Caps: s.caps, Hold: s.holdForReading(),
	}
	if err := waitFor(&s.step.Tries); err != nil {
		return err
	}
	if err := s.worker.calls.prepareCall(ctx, request, ledger.Purchase{}); err != nil {
		return err
	}
	if err := s.worker.calls.slotFor(request, &purchase); err != nil { // before the intent is recorded
		return err
	}
	scan, err := s.recordIntent(request, last)
	if err != nil {
		return err
	}
	purchase.Intent = scan.Intent
	got, err := s.worker.calls.attempt(ctx, request, purchase)
	if got.answer == nil { // nothing was reserved
		scan.State = runs.ScanRefused
		return errors.Join(err, runs.SaveScan(s.engine.Store.DB, *scan))
	}
	scan, failed := s.engine.Store.Scans.OfIntent(scan.Intent)
	if failed = errors.Join(failed, recordLimit(s.engine)); failed != nil {
		return errors.Join(err, failed)
	}
	switch {
	case got.before == nil:
		return s.retryScan(ctx, scan, err)
	case scan.State == runs.ScanNotCreated:
		s.engine.log().Warn("scan joined: the service started no other", "job", s.row.Job, "run", s.row.ID,
			"scan", got.before.ScanID, "started_by", got.before.Job, "credits", scan.Price)
		return nil
	}
	return errors.Join(err, &UnsettledScanError{*scan, fmt.Sprintf("the service answered the start of a scan of %q with scan %s, "+
		"which is already recorded and searches for %q; it is not known whether one of %q was started, and it is not sent again. "+
		"Look for it at the service: %s",
		scan.Queries, got.before.ScanID, got.before.Queries, scan.Queries, scan.HowToSettle())})
}

// recordIntent makes the intent to start a scan durable, in place of the last one.
func (s search) recordIntent(request *outlier.Request, last *runs.Scan) (*runs.Scan, error) {
	params := request.Params()
	scan := &runs.Scan{
		Run: s.row.ID, Job: s.row.Job, Due: s.row.Due, Step: s.step.ID,
		FindBy: params.Get("findBy"), Mode: params.Get("mode"), Queries: params["query"],
		Price: request.Price(), Again: s.row.Plan.Again, State: runs.ScanIntended,
		Intended: s.engine.Store.Clock.Now(),
	}
	err := s.engine.Store.DB.Update(func(tx *store.Tx) (err error) {
		if last != nil && last.State == runs.ScanIntended { // refunded, or never sent
			last.State = runs.ScanRefused
			err = runs.SaveScan(tx, *last)
		}
		if err != nil {
			return err
		}
		scan.Intent, err = s.engine.Store.Scans.Intend(tx, *scan)
		return err
	})
	return scan, err
}

// planPoll sets when to poll a scan next. The deadline counts from the first answer about it.
func planPoll(scan *runs.Scan, of *plan.Stored, now time.Time) {
	if scan.Deadline.IsZero() {
		scan.Deadline = now.Add(of.Scan.Deadline)
	}
	scan.NextPoll = scan.Polled.Add(plan.PollPause(of.Scan, scan.Polls))
}

// retryScan returns what a finished attempt means for the run.
func (s search) retryScan(ctx context.Context, scan *runs.Scan, err error) error {
	v := judge(err)
	switch {
	case scan.ScanID != "":
		s.step.Tries = outlier.Tries{}
		return s.saveTries()
	case err == nil || scan.State == runs.ScanUnknown:
		return errors.Join(err, &UnsettledScanError{Scan: *scan})
	case ctx.Err() != nil || v.status == runs.PausedBudget || !v.outage():
		return err
	}
	if !s.worker.calls.repeats(&s.step.Tries, v) {
		s.step.Tries = outlier.Tries{}
		return errors.Join(s.saveTries(), s.skipStep(err))
	}
	s.engine.log().Warn("scan start refused, will be retried", "job", s.row.Job, "run", s.row.ID, "err", err)
	return s.saveTries()
}

// saveTries records the attempts at a step's next call.
func (s search) saveTries() error {
	return runs.SaveTries(s.engine.Store.DB, s.step.ID, s.step.Tries)
}

// poll asks the service for the status of a scan. A paid scan is not abandoned because a poll fails:
// it is polled again until the deadline.
func (s search) poll(ctx context.Context, scan *runs.Scan) error {
	request, err := outlier.DataRequest(outlier.OpScan, scan.ScanID)
	if err != nil {
		return err
	}
	got, err := s.worker.calls.fetch(ctx, request, ledger.Purchase{
		Run: s.row.ID, Job: s.row.Job, Step: s.step.ID, Item: s.step.Item,
	}, &s.step.Tries)
	if err != nil && (ctx.Err() != nil || !judge(err).outage()) {
		return err
	}
	scan, failed := s.engine.Store.Scans.OfIntent(scan.Intent)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if err = cmp.Or(err, got.wrong); err != nil {
		s.engine.log().Warn("scan not polled", "job", s.row.Job, "run", s.row.ID, "scan", scan.ScanID, "err", err)
		countPoll(scan, s.row.Plan, s.engine.Store.Clock.Now())
		scan.NextPoll = time.Now().Add(plan.PollPause(s.row.Plan.Scan, scan.Polls))
	}
	if scan.State == runs.ScanRunning && s.overdue(ctx, scan) {
		scan.State = runs.ScanExpired
	}
	if scan.State != runs.ScanRunning {
		return s.endScan(scan)
	}
	if err == nil {
		return nil
	}
	return runs.SaveScan(s.engine.Store.DB, *scan)
}

// countPoll counts a poll of a scan, and gives it a deadline if it has none: it was adopted, or the clock was ahead.
func countPoll(scan *runs.Scan, of *plan.Stored, now time.Time) {
	scan.Polls++
	latest := now.Add(of.Scan.Deadline)
	if scan.Deadline.IsZero() || scan.Deadline.After(latest) {
		scan.Deadline = latest
	}
}

// overdue reports whether the deadline of a scan has passed. Because the scan is paid for, the local
// clock alone does not decide that if the service's answers have a time.
func (s search) overdue(ctx context.Context, scan *runs.Scan) bool {
	if s.engine.Store.Clock.Now().Before(scan.Deadline) {
		return false
	}
	if err := s.worker.calls.ensureTime(ctx); err != nil {
		s.engine.log().Debug("service time unknown", "job", s.row.Job, "run", s.row.ID, "err", err)
	}
	return !s.engine.Store.Clock.Now().Before(scan.Deadline)
}

// endScan closes the step of a scan that has ended or expired.
func (s search) endScan(scan *runs.Scan) error {
	switch scan.State {
	case runs.ScanFailed:
		s.step.Problem = fmt.Sprintf("scan %s of %q ended as %s; it was paid for, and there is nothing to read",
			scan.ScanID, scan.Queries, scan.Status)
		return s.closeScan(runs.StopScanFailed, scan)
	case runs.ScanExpired:
		within := job.FormatDuration(scan.Deadline.Sub(scan.Intended).Round(time.Minute))
		s.step.Problem = fmt.Sprintf("scan %s of %q has not ended within %s; "+
			"`outlierd scan read %s` reads its results when it has",
			scan.ScanID, scan.Queries, within, scan.ScanID)
		return s.closeScan(runs.StopDeadline, scan)
	}
	return s.closeScan(runs.StopScanned, scan)
}

// closeScan closes a scan's step. If the results can be read, the same transaction adds the step that
// reads them.
func (s search) closeScan(stop string, scan *runs.Scan) error {
	closed := *s.step
	closed.Stop = stop
	return s.engine.Store.DB.Update(func(tx *store.Tx) error {
		if err := runs.SaveScan(tx, *scan); err != nil {
			return err
		}
		if stop == runs.StopScanned {
			if _, err := runs.AddStep(tx, s.reading(scan)); err != nil {
				return err
			}
		}
		return runs.SaveStep(tx, closed)
	})
}

// reading returns the step that reads a scan's results.
func (s search) reading(scan *runs.Scan) runs.Step {
	return runs.Step{
		Run: s.step.Run, Item: s.step.Item, Queries: s.step.Queries,
		Query: s.row.Plan.ReadOf(s.step.Ordinal).OfScan(scan.ScanID),
		Scan:  scan.ScanID, Watermark: s.step.Watermark, Began: scan.Intended, Total: -1, Left: -1,
	}
}

// holdForReading returns the credits to hold for reading the results of a scan.
func (s search) holdForReading() outlier.Credits {
	_, reading := s.row.Plan.Scan.Price(s.engine.Config.Service.Prices, s.row.Plan.Pages)
	return reading
}
