package state

import (
	"outlierd/outlier"
	"outlierd/sync/credit"
)

// PeriodLine is what the ledger holds in one period, adjustments included.
type PeriodLine struct {
	credit.Period
	Held outlier.Credits
}

// PeriodLines are all periods that the ledger knows. Jobs stand under their accounts.
func (s *Store) PeriodLines() (all []PeriodLine, err error) {
	err = s.view(func() error {
		all, err = list(s, func(l *PeriodLine) []any { return []any{&l.Scope, &l.Key, &l.Held} },
			`SELECT scope, period, held + adjusted FROM periods`)
		return err
	})
	return all, err
}

// GivenAway counts the holds that were released although nobody knows whether the scan
// exists that they are for.
func (s *Store) GivenAway() (n int, err error) {
	err = s.view(func() error {
		return s.row(`SELECT count(*) FROM holds h JOIN attempts a ON a.id = h.attempt JOIN scans s ON s.id = a.intent
			WHERE h.open = 0 AND a.state <> 'refunded' AND s.state = 'unknown'`).Scan(&n)
	})
	return n, err
}
