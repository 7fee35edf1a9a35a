package state

import (
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// PeriodLine is what the ledger holds in one period, adjustments included.
type PeriodLine struct {
	ledger.Period
	Held outlier.Credits
}

// PeriodLines are all periods that the ledger knows, without those that will be counted anew
// since they reach farther than they did. Jobs stand under their accounts.
func (s *Store) PeriodLines() (all []PeriodLine, err error) {
	type row struct {
		PeriodLine
		ends int64
	}
	err = s.DB.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(r *row) []any { return []any{&r.Scope, &r.Key, &r.Held, &r.ends} },
			`SELECT scope, period, held + adjusted, ends FROM periods`)
		for _, r := range rows {
			present := ledger.Period{Scope: r.Scope, Key: r.Key}
			if r.Scope == ledger.ScopeJobMonth { // whose bounds are those of the cycle
				_, cycle := ledger.CutJobCycle(r.Key)
				present = ledger.Period{Scope: ledger.ScopeMonth, Key: cycle}
			}
			if ends, err := s.Ledger.PeriodEnds(tx, present); err != nil || store.Micros(ends) == r.ends {
				all = append(all, r.PeriodLine)
			}
		}
		return err
	})
	return all, err
}

// GivenAway counts the holds that were released although the start of their scan is not confirmed.
func (s *Store) GivenAway() (n int, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		return tx.Row(`SELECT count(*) FROM holds h JOIN attempts a ON a.id = h.attempt JOIN scans s ON s.id = a.intent
			WHERE h.open = 0 AND a.state <> 'refunded' AND s.state = 'unknown'`).Scan(&n)
	})
	return n, err
}

// Migrations are those of all packages.
var Migrations = migrations()

// ForStore are the options of the file.
func (o Options) ForStore() store.Options { return o.store() }
