package state

import (
	"errors"
	"time"

	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// CappedPeriods are the periods of the caps in force, without those that reach farther now than they did. Jobs stand
// under their accounts.
func (s *Store) CappedPeriods(zone *time.Location, renews int) (all []ledger.Period, err error) {
	type row struct {
		ledger.Period
		begins, ends int64
	}
	err = s.DB.View(func(tx *store.Tx) error {
		newest, err := store.Value[int64](tx, `SELECT max(counts_at) FROM attempts WHERE price > 0 OR adjustment > 0`)
		if err != nil {
			return err
		}
		rows, err := store.Select(tx, func(r *row) store.Columns {
			return store.Columns{"scope": &r.Scope, "period": &r.Key, "begins": &r.begins, "ends": &r.ends}
		}, `FROM caps`)
		now := store.Micros(s.Clock.Now())
		for _, r := range rows {
			_, to, wrong := r.Bounds(zone, renews)
			ends := store.Micros(to)
			if r.Scope != ledger.ScopeRun && r.begins <= now && now < ends {
				ends = max(ends, newest+1)
			}
			if err = errors.Join(err, wrong); ends == r.ends {
				all = append(all, r.Period)
			}
		}
		return err
	})
	return all, err
}

// GivenAway counts the holds that were released although the start of their scan is not confirmed.
func (s *Store) GivenAway() (n int, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		_, err := store.Scan(tx, []any{&n}, `SELECT count(*) FROM attempts a JOIN scans s ON s.id = a.intent
			WHERE a.aside > 0 AND a.holding = 0 AND a.state <> 'refunded' AND s.state = 'unknown'`)
		return err
	})
	return n, err
}

// Migrations are those of all packages.
var Migrations = migrations()

// ForStore are the options of the file.
func (o Options) ForStore() store.Options { return o.store() }
