package state

import (
	"errors"
	"fmt"
	"slices"

	"outlierd/outlier"
)

// SettleScan closes a scan whose outcome is unknown, by the word of an operator who
// has looked: with a state of [ScanNotCreated] its price is refunded and its hold
// released, with any other it is adopted under sc.ScanID and its price counts as
// spent. The price of an answer that came but could not be read stays spent in
// both cases. The hold of an adopted scan goes on with its run, if that may go on.
// Refunded is what was given back of the price.
func (s *Store) SettleScan(intent int64, sc Scan) (refunded outlier.Credits, err error) {
	err = s.Update(func(tx *Tx) error {
		old, err := tx.unsettled(intent)
		if err != nil {
			return err
		}
		if sc.State == ScanNotCreated {
			refunded, err = tx.disown(*old)
			return err
		}
		return tx.adopt(*old, sc)
	})
	if err != nil {
		return 0, fmt.Errorf("settle scan intent %d: %w", intent, err)
	}
	return refunded, nil
}

// unsettled is the scan of an intent, if there is something to be told of it.
func (t *Tx) unsettled(intent int64) (*Scan, error) {
	old, err := t.s.scan(`SELECT `+scanColumns+` FROM scans WHERE id = ?`, intent)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, errors.New("there is no such scan; 'outlierd scan list' shows those there are")
	}
	if old.State != ScanUnknown {
		return nil, fmt.Errorf("it is %s, and only the outcome of an unknown one can be told", old.State)
	}
	var underWay bool
	err = t.row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE intent = ? AND state IN ('reserved', 'sending'))`, intent).Scan(&underWay)
	if err == nil && underWay {
		err = errors.New("it is being started right now; wait for the answer")
	}
	return old, err
}

// disown takes an operator's word that a scan was never started.
func (t *Tx) disown(s Scan) (refunded outlier.Credits, err error) {
	if err := t.row(`SELECT coalesce(sum(price), 0) FROM attempts WHERE intent = ? AND state = 'unknown'`, s.Intent).Scan(&refunded); err != nil {
		return 0, err
	}
	if _, err := t.exec(`UPDATE attempts SET state = 'refunded', settled_at = ?, error = 'operator: not created'
		WHERE intent = ? AND state = 'unknown'`, micros(t.now), s.Intent); err != nil {
		return 0, err
	}
	s.State = ScanNotCreated
	if err := t.SaveScan(s); err != nil {
		return 0, err
	}
	return refunded, t.Release(s.Step)
}

// existing are the states of a scan that the service has.
var existing = []ScanState{ScanRunning, ScanEnded, ScanExpired, ScanFailed}

// adopt takes an operator's word that the scan of an intent is the service's
// found.ScanID.
func (t *Tx) adopt(old, found Scan) error {
	if found.ScanID == "" || !slices.Contains(existing, found.State) {
		return fmt.Errorf("a scan that is adopted has an id and one of the states %v", existing)
	}
	other, err := t.s.scan(`SELECT `+scanColumns+` FROM scans WHERE scan = ? AND id <> ?`, found.ScanID, old.Intent)
	if err != nil {
		return err
	}
	if other != nil {
		return fmt.Errorf("scan %s is that of intent %d already", found.ScanID, other.Intent)
	}
	if _, err := t.exec(`UPDATE attempts SET state = 'charged', settled_at = ?, error = 'operator: adopted'
		WHERE intent = ? AND state = 'unknown'`, micros(t.now), old.Intent); err != nil {
		return err
	}
	found.Intent = old.Intent
	if found.Deadline.IsZero() {
		found.Deadline = old.Deadline
	}
	if err := t.SaveScan(found); err != nil {
		return err
	}
	return t.releaseAdopted(old.Step)
}
