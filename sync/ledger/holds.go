package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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
	id         int64
	account    string
	day, cycle string
	made       time.Time // in the service's time
}

// holdFor returns the hold that pays for p; nil if no hold covers the whole price.
func holdFor(tx *store.Tx, p Purchase, price outlier.Credits) (*hold, error) {
	var h hold
	var made int64
	err := tx.Row(`SELECT id, account, day, cycle, made_at FROM hold_rests WHERE step = ? AND run = ?
		AND rest >= ?`,
		p.FromHold, p.Run, int64(price)).Scan(&h.id, &h.account, &h.day, &h.cycle, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	h.made = store.Instant(made)
	return &h, err
}

// HoldOf returns the credits left in the hold of a step.
func (l *Ledger) HoldOf(step int64) (rest outlier.Credits, err error) {
	err = l.db.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE step = ?`, step).Scan(&rest)
	})
	if err != nil {
		return 0, fmt.Errorf("what is held for step %d: %w", step, err)
	}
	return rest, nil
}

// releasable is the condition for holds that are open and do not belong to the start of one of the
// scans in the JSON list ?2.
const releasable = `open = 1 AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = holds.attempt
	AND a.intent IN (SELECT value FROM json_each(?2)))`

// Release gives back what is left in the hold of a step. It does nothing if the hold was released
// before, if there is none, or if it belongs to one of the scans in unconfirmed, by intent, whose
// start is not confirmed: a person who finds such a scan will want to read it.
func Release(tx *store.Tx, step int64, unconfirmed []int64) error {
	if err := release(tx, `step = ?1`, step, unconfirmed); err != nil {
		return fmt.Errorf("release what is held for step %d: %w", step, err)
	}
	return nil
}

// ReleaseRun is [Release] for all steps of a run.
func ReleaseRun(tx *store.Tx, run string, unconfirmed []int64) error {
	return release(tx, `run = ?1`, run, unconfirmed)
}

func release(tx *store.Tx, of string, id any, unconfirmed []int64) error {
	list, err := json.Marshal(unconfirmed)
	if err == nil {
		_, err = tx.Exec(`UPDATE holds SET open = 0 WHERE `+of+` AND `+releasable, id, string(list))
	}
	return err
}
