package state

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
)

// A hold is what an attempt sets aside, beside its own price, for the calls that
// must follow it to make it worth its price: a scan that cannot be read is money
// thrown away. It counts for the periods of that attempt. What is drawn from it has
// been counted already, so it meets no cap, and when the call is refunded the credits
// are the hold's again. It ends when the attempt that made it is refunded, when it is
// released, and when its run is over or superseded. While it is not known whether its scan exists,
// only a refund ends it: whoever finds the scan will want to read it.
type hold struct {
	id         int64
	account    string
	day, cycle string
	made       time.Time // in the service's time
}

// holdFor is the hold that pays for p; nil if there is none that covers the whole
// price.
func (s *Store) holdFor(p Purchase, price outlier.Credits) (*hold, error) {
	var h hold
	var made int64
	err := s.row(`SELECT id, account, day, cycle, made_at FROM hold_rests WHERE step = ? AND run = ? AND rest >= ?`,
		p.FromHold, p.Run, int64(price)).Scan(&h.id, &h.account, &h.day, &h.cycle, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	h.made = instant(made)
	return &h, err
}

// HoldOf is what is left, in credits, of what was set aside with a step's purchase.
func (s *Store) HoldOf(step int64) (rest outlier.Credits, err error) {
	err = s.view(func() error {
		return s.row(`SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE step = ?`, step).Scan(&rest)
	})
	if err != nil {
		return 0, fmt.Errorf("what is held for step %d: %w", step, err)
	}
	return rest, nil
}

// releasable holds for those that are open and not for a scan of unknown outcome.
const releasable = `open = 1 AND NOT EXISTS (SELECT 1 FROM attempts a JOIN scans s ON s.id = a.intent
	WHERE a.id = holds.attempt AND s.state = 'unknown')`

// Release gives back what is left of the hold of a step. Releasing again, or where
// nothing was held, does nothing; nor does it while the outcome of the step's scan is
// unknown, which [Store.SettleScan] ends.
func (t *Tx) Release(step int64) error {
	_, err := t.exec(`UPDATE holds SET open = 0 WHERE step = ? AND `+releasable, step)
	if err != nil {
		return fmt.Errorf("release what is held for step %d: %w", step, err)
	}
	return nil
}

// releaseRun gives back what a run that has come to its end still holds.
func (t *Tx) releaseRun(run string) error {
	_, err := t.exec(`UPDATE holds SET open = 0 WHERE run = ? AND `+releasable, run)
	return err
}

// releaseAdopted gives back what is held for a step whose run came to its end while
// nobody knew of the scan: no run will read it any more, and whoever reads it by hand
// finds the room.
func (t *Tx) releaseAdopted(step int64) error {
	_, err := t.exec(`UPDATE holds SET open = 0 WHERE step = ? AND run IN (SELECT run FROM runs WHERE NOT `+mayGoOn+`) AND `+releasable, step)
	return err
}
