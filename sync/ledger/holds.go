package ledger

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

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
