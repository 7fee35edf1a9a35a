package ledger

import (
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
