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
// released, and with its run.
type hold struct {
	id          int64
	run         string
	account     string
	day, cycle  string
	rest        outlier.Credits
	reservation time.Time // of the attempt that made it, in the service's time
}

// holdFor is the hold of a step from which price can be drawn; nil if it has none
// that covers it whole.
func (t *Tx) holdFor(step int64, price outlier.Credits) (*hold, error) {
	var h hold
	var made int64
	err := t.row(`SELECT id, run, account, day, cycle, rest, made_at FROM hold_rests WHERE step = ? AND rest >= ?`, step, int64(price)).
		Scan(&h.id, &h.run, &h.account, &h.day, &h.cycle, &h.rest, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	h.reservation = instant(made)
	return &h, err
}

// Release gives back what is left of the hold of a step. Releasing again, or where
// nothing was held, does nothing.
func (t *Tx) Release(step int64) error {
	_, err := t.exec(`UPDATE holds SET open = 0 WHERE step = ? AND open = 1`, step)
	if err != nil {
		return fmt.Errorf("release what is held for step %d: %w", step, err)
	}
	return nil
}

// HoldOf is what is left of the hold of a step.
func (s *Store) HoldOf(step int64) (rest outlier.Credits, err error) {
	err = s.view(func() error {
		return s.row(`SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE step = ?`, step).Scan(&rest)
	})
	return rest, err
}
