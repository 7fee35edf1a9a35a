package ledger

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Attempted reports whether the ledger has a row for the start of a scan, by its intent.
func Attempted(tx *store.Tx, intent int64) (attempted bool, err error) {
	return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE intent = ?)`, intent)
}

// Starting reports whether the start of a scan is in progress.
func Starting(tx *store.Tx, intent int64) (starting bool, err error) {
	return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE intent = ?
		AND state IN ('reserved', 'sending'))`, intent)
}

// RefundStart records an operator's statement that a scan was never started, and returns the
// credits refunded.
func RefundStart(tx *store.Tx, intent int64) (refunded outlier.Credits, err error) {
	refunded, err = store.Value[outlier.Credits](tx, `SELECT sum(price) FROM attempts WHERE intent = ? AND state = 'unknown'`,
		intent)
	if err != nil {
		return 0, err
	}
	err = tx.Exec(`UPDATE attempts SET state = 'refunded', settled_at = ?, error = 'operator: not created'
		WHERE intent = ? AND state = 'unknown'`, store.Micros(tx.Now()), intent)
	return refunded, err
}

// ChargeStart records an operator's statement that a scan was started.
func ChargeStart(tx *store.Tx, intent int64) error {
	return tx.Exec(`UPDATE attempts SET state = 'charged', settled_at = ?, error = 'operator: adopted'
		WHERE intent = ? AND state = 'unknown'`, store.Micros(tx.Now()), intent)
}

// A hold is the amount that an attempt sets aside, in addition to its price, for the calls that
// must follow it: a scan that cannot be read is worthless. It counts for the periods of that
// attempt. Calls paid from it have been counted already, so no cap applies to them, and their
// refunds go back to the hold. It ends when the attempt that made it is refunded, when it is
// released, and when its run is over or superseded. While it is unknown whether the scan exists,
// only a refund ends it: a person who finds the scan will want to read it.
type hold struct {
	id         int64 // of the attempt
	account    string
	day, cycle string
	made       time.Time // in the service's time
}

// holdFor returns the hold that pays for p; nil if no hold covers the whole price.
func holdFor(tx *store.Tx, p Purchase, price outlier.Credits) (*hold, error) {
	return store.First(tx, func(h *hold) store.Columns {
		return store.Columns{"id": &h.id, "account": &h.account, "day": &h.day, "cycle": &h.cycle, "counts_at": store.Time(&h.made)}
	}, `FROM hold_rests WHERE step = ? AND run = ? AND rest >= ?`, p.FromHold, p.Run, price)
}

// HoldOf returns the credits left in the hold of a step.
func (l *Ledger) HoldOf(step int64) (outlier.Credits, error) {
	return store.Value[outlier.Credits](l.db, `SELECT sum(rest) FROM hold_rests WHERE step = ?`, step)
}

// Release gives back what is left in the hold of a step, if there is any. It does nothing while the start of the
// scan that the hold is for is not confirmed: a person who finds the scan will want to read it.
func Release(tx *store.Tx, step int64) error {
	return tx.Exec(`UPDATE attempts SET holding = 0 WHERE id IN (SELECT id FROM releasable_holds WHERE step = ?)`, step)
}

// ReleaseRun is [Release] for all steps of a run.
func ReleaseRun(tx *store.Tx, run string) error {
	return tx.Exec(`UPDATE attempts SET holding = 0 WHERE id IN (SELECT id FROM releasable_holds WHERE run = ?)`, run)
}
