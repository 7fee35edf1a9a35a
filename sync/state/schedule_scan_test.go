package state_test

import (
	"errors"
	"time"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// scan does what is next for a scan: it is begun, looked at, or handed over to be read.
func (j *job) scan(run *runs.Run, step *runs.Step) error {
	scan, err := j.store.Scans.OfStep(step.ID)
	switch {
	case err != nil:
		return err
	case scan == nil || scan.State == runs.ScanRefused || scan.State == runs.ScanNotCreated:
		live, err := j.store.Scans.Live(j.wish(run, step))
		if err != nil || live != nil && !j.bug.alone {
			return errors.Join(err, j.join(run, step, live))
		}
		return j.startScan(run, step)
	case scan.State == runs.ScanRunning:
		return j.lookAt(run, step, scan)
	case scan.State == runs.ScanUnknown || scan.State == runs.ScanIntended:
		return errUnsettled
	}
	return j.endScan(step, scan)
}

// wish is the scan that a step is about. A careless job takes its own for another one.
func (j *job) wish(run *runs.Run, step *runs.Step) runs.Scan {
	r := j.request(step)
	mode := r.Params().Get("mode")
	if j.bug.alone {
		mode = j.account
	}
	return runs.Scan{
		Run: run.ID, Job: j.name, Due: run.Due, Step: step.ID, FindBy: r.Params().Get("findBy"), Mode: mode, Queries: r.Params()["query"],
		Price: r.Price(), State: runs.ScanIntended, Intended: time.Now(),
	}
}

// join lets a step wait for a scan that is live, with the price of reading set aside.
func (j *job) join(run *runs.Run, step *runs.Step, live *runs.Scan) error {
	if live == nil {
		return nil
	}
	if live.ScanID == "" {
		j.saw("a scan stood in the way of another")
		return errUnsettled
	}
	if err := j.proveTime(run); err != nil {
		return err
	}
	j.pause("about to join")
	if j.dead {
		return errKilled
	}
	c := &call{run: run.ID, job: j.name, account: j.account}
	err := j.store.Scans.Join(ledger.Purchase{
		Run: run.ID, Job: j.name, Step: step.ID, Hold: 2 * pages,
		Caps: func(at time.Time) []ledger.Cap {
			c.at = at
			return j.caps.of(j.periodsOf(c))
		},
	}, live.Intent)
	if err == nil {
		j.saw("a scan was joined")
		if live.Job != j.name {
			j.saw("a scan of the other job was joined")
		}
		j.note("joins scan %s, intent %d", live.ScanID, live.Intent)
	}
	j.pause("joined")
	return err
}

// startScan makes one attempt, and never a second one without proof that the first did
// nothing.
func (j *job) startScan(run *runs.Run, step *runs.Step) error {
	wish := j.wish(run, step)
	scan, err := j.intend(wish)
	if err != nil {
		return err
	}
	err = j.attemptScan(run, step, scan, 2*pages)
	if j.bug.again && scan.State == runs.ScanUnknown && !j.dead {
		// The database forbids a second intent for the same, and a second hold. Another
		// mode makes it another scan, which needs no hold of its own.
		wish.Mode += " again"
		if scan, err = j.intend(wish); err != nil {
			return err
		}
		return j.attemptScan(run, step, scan, 0)
	}
	return err
}

// intend makes the intent durable.
func (j *job) intend(wish runs.Scan) (*runs.Scan, error) {
	scan := &wish
	err := j.store.DB.Update(func(tx *store.Tx) (err error) {
		scan.Intent, err = j.store.Scans.Intend(tx, *scan)
		return err
	})
	if store.IsConstraint(err) {
		j.saw("a scan stood in the way of another")
		return nil, errUnsettled
	}
	if err != nil {
		return nil, err
	}
	j.note("intends a scan, intent %d", scan.Intent)
	j.pause("intended")
	return scan, nil
}

// attemptScan sends the request for an intent, with the price of reading set aside.
func (j *job) attemptScan(run *runs.Run, step *runs.Step, scan *runs.Scan, hold outlier.Credits) error {
	if j.dead {
		return errKilled
	}
	answer, err := j.buy(run, j.request(step), ledger.Purchase{
		Step: step.ID, Attempt: 1, Intent: scan.Intent, Hold: hold,
		Commit: func(tx *store.Tx, kept ledger.Kept) error {
			recorded, _, err := runs.RecordStart(tx, scan.Intent, kept.Answer, kept.Outcome)
			if err == nil {
				*scan = *recorded
			}
			return err
		},
	})
	if answer == nil && !j.dead { // nothing was reserved
		scan.State = runs.ScanRefused
		return errors.Join(err, j.store.DB.Update(func(tx *store.Tx) error { return runs.SaveScan(tx, *scan) }))
	}
	if err == nil && scan.ScanID == "" {
		return errUnsettled
	}
	return err
}

// lookAt asks how a scan stands.
func (j *job) lookAt(run *runs.Run, step *runs.Step, scan *runs.Scan) error {
	request, err := outlier.DataRequest(outlier.OpScan, scan.ScanID)
	if err != nil {
		return err
	}
	scan.Polls++
	_, err = j.do(run, request, ledger.Purchase{Step: step.ID, Commit: func(tx *store.Tx, kept ledger.Kept) error {
		body, err := kept.Body()
		if err != nil || kept.Answer.Err != nil {
			return nil // the next look may tell more
		}
		if told, err := outlier.ReadScan(body); err == nil {
			scan.Saw(told, kept.Answer.ReceivedAt)
		}
		return runs.SaveScan(tx, *scan)
	}})
	j.pause("looked")
	if err == nil && scan.State == runs.ScanRunning {
		err = errRunning
	}
	return err
}

// endScan closes the step of a scan. The search that reads its results becomes a step
// of its own in the same transaction.
func (j *job) endScan(step *runs.Step, scan *runs.Scan) error {
	step.Stop = "scanned"
	return j.store.DB.Update(func(tx *store.Tx) error {
		if scan.State == runs.ScanEnded {
			params := "query=chess&referenceId=" + scan.ScanID
			if _, err := runs.AddStep(tx, runs.Step{Run: step.Run, Query: outlier.UncheckedQuery(outlier.OpSearch, params), Scan: scan.ScanID}); err != nil {
				return err
			}
			j.saw("a scan was read")
		}
		return runs.SaveStep(tx, *step)
	})
}

// sawUnknown counts the runs that are not continued although the start of their scan is not confirmed.
func (j *job) sawUnknown(run *runs.Run) error {
	scans, err := j.store.Scans.List()
	for _, scan := range scans {
		if scan.Run == run.ID && scan.State == runs.ScanUnknown {
			j.saw("a run was superseded while its scan was not confirmed")
		}
	}
	return err
}
