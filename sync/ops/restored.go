package ops

import (
	"errors"

	"outlierd/sync/store"
)

// # States restored from a backup
//
// A restored state continues from an older version than that of the lost state, which sinks may have
// seen. So its next version is one that the lost state never had. The versions in between are known to
// belong to the lost state.

// Skipped has the versions that a restored state skipped.
type Skipped struct {
	After   int64 `json:"after"`   // the version of the backup
	Until   int64 `json:"until"`   // the first version of the restored state
	Answers int64 `json:"answers"` // the last answer in the backup
}

// hasVersion reports whether a version belongs to the lost state.
func (s *Skipped) hasVersion(version int64) bool { return s.After < version && version < s.Until }

// skipped has the versions that were skipped.
var skipped = store.Cell[Restores]{Key: "ops versions skipped"}

// leastSkipped is the number of versions that are skipped if the clock is behind them.
const leastSkipped = 1 << 32

// Skip skips the versions of the lost state, in a restored state whose journal ends at answers. The next
// version is the time in microseconds: no state ever has as many changes.
func Skip(tx *store.Tx, answers int64) error {
	all, err := skipped.Get(tx)
	if err != nil {
		return err
	}
	at, err := lastVersion(tx)
	if err != nil {
		return err
	}
	next := max(tx.Now().UnixMicro(), at+leastSkipped)
	return errors.Join(skipped.Set(tx, append(all, Skipped{After: at, Until: next, Answers: answers})),
		tx.Exec(`DELETE FROM sqlite_sequence WHERE name = 'ops_changes'`),
		tx.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES ('ops_changes', ?)`, next))
}

// Restores has the skipped versions of all restores of a state.
type Restores []Skipped

// ReadRestores returns the restores of a state; none if it was never restored.
func ReadRestores(db *store.Store) (all Restores, err error) {
	return skipped.Get(db)
}

// LostWith returns the restore before which the lost state has filled a sink; nil if there is none. Such a sink has
// answers after those of the backup, and an earlier version than any of the restored state, because a warehouse gets the
// operations tables before answers. Without a version, it has only rows of answers in common with the journal.
func (r Restores) LostWith(version, mark int64) *Skipped {
	for i := range r {
		if mark > r[i].Answers && version > 0 && version < r[i].Until {
			return &r[i]
		}
	}
	return nil
}
