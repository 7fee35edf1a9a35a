package state

import (
	"errors"
	"fmt"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// Spend is what a run has asked of the two scarcities.
type Spend struct {
	Charged, Refunded, Unknown, Reserved outlier.Credits
	Held                                 outlier.Credits // what is left of its holds

	Requests int64         // attempts that reached the wire
	Waited   time.Duration // for the pace
}

// Held is what counts against a cap: all that is not proven to have been refunded,
// what is set aside, and in a billing cycle what [Store.Adjust] added. It is negative
// where more was bought on top than all of that; [Store.Balance] tells the two apart.
func (s *Store) Held(c credit.Cap) (outlier.Credits, error) {
	b, err := s.Balance(c)
	return b.Held(), err
}

// Adjust books credits that were spent elsewhere, or with a minus bought on top, in
// the current billing cycle. It is a fact and meets no cap; what is left under the
// cap changes with it. The row is kept for ever.
func (s *Store) Adjust(credits outlier.Credits, why string) error {
	now := s.ServiceTime()
	err := s.Update(func(tx *Tx) error {
		if credits == 0 || why == "" {
			return errors.New("an amount and a reason are needed")
		}
		return tx.adjust(now, credits, why)
	})
	if err != nil {
		return fmt.Errorf("adjust the budget by %d credits: %w", credits, err)
	}
	return nil
}

// adjust books credits in the billing cycle of the given time.
func (t *Tx) adjust(now time.Time, credits outlier.Credits, why string) error {
	_, err := t.exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps,
		reserved_at, sent_at, settled_at, waited, http_status, bytes, error, adjustment)
		VALUES ('', '', 0, ?, '', '', 0, 0, 'charged', ?, ?, '[]', ?, 0, ?, 0, 0, 0, ?, ?)`,
		adjustment, credit.Day(now, t.s.options.Location), credit.Cycle(now, t.s.options.Location, t.s.options.Renews),
		micros(now), micros(now), bounded(why), int64(credits))
	return err
}

// adjustment is the operation of a row that adjusts the books.
const adjustment = "adjustment"

// Spent adds up the attempts of a run.
func (s *Store) Spent(run string) (Spend, error) {
	var all Spend
	var waited int64
	err := s.view(func() error {
		return s.row(`SELECT
			coalesce(sum(price) FILTER (WHERE state = 'charged'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'refunded'), 0),
			coalesce(sum(price) FILTER (WHERE state = 'unknown'), 0),
			coalesce(sum(price) FILTER (WHERE state IN ('reserved', 'sending')), 0),
			(SELECT coalesce(sum(rest), 0) FROM hold_rests WHERE run = ?1),
			count(*) FILTER (WHERE sent_at <> 0), coalesce(sum(waited), 0)
			FROM attempts WHERE run = ?1`, run).
			Scan(&all.Charged, &all.Refunded, &all.Unknown, &all.Reserved, &all.Held, &all.Requests, &waited)
	})
	if err != nil {
		return all, fmt.Errorf("add up what run %s has spent: %w", run, err)
	}
	all.Waited = time.Duration(waited) * time.Microsecond
	return all, nil
}
