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
