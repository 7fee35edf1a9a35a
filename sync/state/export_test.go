package state

import (
	"errors"
	"time"

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
func (s *Store) PeriodLines(zone *time.Location, renews int) (all []PeriodLine, err error) {
	type row struct {
		PeriodLine
		begins, ends int64
	}
	err = s.DB.View(func(tx *store.Tx) error {
		newest, err := store.Value[int64](tx, `SELECT max(counts_at) FROM attempts WHERE price > 0 OR adjustment > 0`)
		if err != nil {
			return err
		}
		rows, err := store.Select(tx, func(r *row) store.Columns {
			return store.Columns{"scope": &r.Scope, "period": &r.Key, "held + adjusted": &r.Held, "begins": &r.begins, "ends": &r.ends}
		}, `FROM periods`)
		now := store.Micros(s.Ledger.ServiceTime())
		for _, r := range rows {
			_, to, wrong := r.Bounds(zone, renews)
			ends := store.Micros(to)
			if r.Scope != ledger.ScopeRun && r.begins <= now && now < ends {
				ends = max(ends, newest+1)
			}
			if err = errors.Join(err, wrong); ends == r.ends {
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
