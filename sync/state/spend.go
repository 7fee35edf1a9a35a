package state

import (
	"database/sql"
	"errors"
	"time"

	"outlierd/outlier"
	"outlierd/sync/credit"
)

// Spend is what a run has asked of the two scarcities.
type Spend struct {
	Charged, Refunded, Unknown, Reserved outlier.Credits

	Requests int64         // attempts that reached the wire
	Waited   time.Duration // for the pace
}

// Held is what counts against a cap: all that is not proven to have been refunded.
func (s *Store) Held(c credit.Cap) (held outlier.Credits, err error) {
	err = s.view(func() error {
		held, err = s.held(c)
		return err
	})
	return held, err
}

func (s *Store) held(c credit.Cap) (outlier.Credits, error) {
	var held int64
	err := s.row(`SELECT held FROM periods WHERE scope = ? AND period = ?`, string(c.Scope), c.Period).Scan(&held)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return outlier.Credits(held), err
}

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
			count(*) FILTER (WHERE sent_at <> 0), coalesce(sum(waited), 0)
			FROM attempts WHERE run = ?`, run).
			Scan(&all.Charged, &all.Refunded, &all.Unknown, &all.Reserved, &all.Requests, &waited)
	})
	all.Waited = time.Duration(waited) * time.Microsecond
	return all, err
}
