package runs

import (
	"errors"
	"fmt"
	"slices"

	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// ErrNoIntent is the error for a number that no start of a scan has.
var ErrNoIntent = errors.New("no scan has this intent; 'outlierd scan list' shows all scans")

// Settle closes a scan whose outcome is unknown, as an operator has determined it. If sc.State is
// [ScanNotCreated], its price is refunded and its hold released. Otherwise it is adopted under
// sc.ScanID, and its price counts as spent. The price of an answer that was received but could not be
// read stays spent in both cases. The hold of an adopted scan remains if its run may continue.
// refunded is the refunded part of the price in credits.
func (ss *Scans) Settle(intent int64, sc Scan) (refunded outlier.Credits, err error) {
	err = ss.db.Update(func(tx *store.Tx) error {
		old, err := unsettledScan(tx, intent)
		if err != nil {
			return err
		}
		if sc.State == ScanNotCreated {
			refunded, err = recordNotStarted(tx, *old)
			return err
		}
		return adoptScan(tx, *old, sc)
	})
	if err != nil {
		return 0, fmt.Errorf("settle scan intent %d: %w", intent, err)
	}
	return refunded, nil
}

// unsettledScan returns the scan of an intent, or an error if its outcome is not unknown.
func unsettledScan(tx *store.Tx, intent int64) (*Scan, error) {
	old, err := oneScan(tx, `FROM scans WHERE id = ?`, intent)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, ErrNoIntent
	}
	if old.State != ScanUnknown {
		return nil, fmt.Errorf("it is %s, and only an unconfirmed one can be resolved", old.State)
	}
	underWay, err := ledger.Starting(tx, intent)
	if err == nil && underWay {
		err = errors.New("it is being started right now; wait for the answer")
	}
	return old, err
}

// recordNotStarted records that a scan was never started, according to an operator.
func recordNotStarted(tx *store.Tx, s Scan) (refunded outlier.Credits, err error) {
	if refunded, err = ledger.RefundStart(tx, s.Intent); err != nil {
		return 0, err
	}
	s.State = ScanNotCreated
	if err := SaveScan(tx, s); err != nil {
		return 0, err
	}
	return refunded, ledger.Release(tx, s.Step)
}

// existing lists the states of a scan that exists at the service.
var existing = []ScanState{ScanRunning, ScanEnded, ScanExpired, ScanFailed}

// adoptScan records that the scan of an intent is the service's found.ScanID, according to an operator.
func adoptScan(tx *store.Tx, old, found Scan) error {
	if found.ScanID == "" || !slices.Contains(existing, found.State) {
		return fmt.Errorf("a scan that is adopted has an id and one of the states %v", existing)
	}
	other, err := oneScan(tx, `FROM scans WHERE scan = ? AND id <> ?`,
		found.ScanID, old.Intent)
	if err != nil {
		return err
	}
	if other != nil {
		return fmt.Errorf("scan %s already belongs to intent %d", found.ScanID, other.Intent)
	}
	if err := ledger.ChargeStart(tx, old.Intent); err != nil {
		return err
	}
	found.Intent = old.Intent
	if found.Deadline.IsZero() {
		found.Deadline = old.Deadline
	}
	if err := SaveScan(tx, found); err != nil {
		return err
	}
	return releaseAdopted(tx, old)
}

// releaseAdopted releases the hold of a scan whose run ended while its start was not confirmed: no
// run will read it any more, and the credits are available for reading it by hand.
func releaseAdopted(tx *store.Tx, scan Scan) error {
	over, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM runs WHERE run = ? AND NOT `+mayGoOn+`)`, scan.Run)
	if err != nil || !over {
		return err
	}
	return ledger.Release(tx, scan.Step)
}
