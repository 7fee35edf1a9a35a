package ops

import (
	"encoding/json"
	"fmt"

	"outlierd/sync/store"
)

// # A state that was restored from a backup
//
// It continues from an older version than that of the state that was lost, which sinks may have seen.
// So its next version is one that the lost state never had, and the versions in between are known to
// be of that one.

// Skipped are the versions that a restored state skipped.
type Skipped struct {
	After   int64 `json:"after"`   // the version of the backup
	Until   int64 `json:"until"`   // that of the restored state
	Answers int64 `json:"answers"` // the last answer in the backup
}

// has reports whether a version is of the lost state.
func (s *Skipped) has(version int64) bool { return s.After < version && version < s.Until }

// skippedKey is the key in meta of all [Skipped].
const skippedKey = "ops versions skipped"

// leastSkipped is how many versions are skipped if the clock is behind them.
const leastSkipped = 1 << 32

// Skip skips the versions of the lost state, in a state that was restored and whose journal ends at
// answers. The next version is the time in microseconds: no state ever has as many changes.
func Skip(tx *store.Tx, answers int64) error {
	all, err := readSkipped(tx)
	if err != nil {
		return err
	}
	at, err := version(tx)
	if err != nil {
		return err
	}
	next := max(tx.Now().UnixMicro(), at+leastSkipped)
	text, err := json.Marshal(append(all, Skipped{After: at, Until: next, Answers: answers}))
	if err != nil {
		return err
	}
	if err := tx.SetMeta(skippedKey, string(text)); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM sqlite_sequence WHERE name = 'ops_changes'`); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO sqlite_sequence (name, seq) VALUES ('ops_changes', ?)`, next)
	return err
}

func readSkipped(tx *store.Tx) (all Restores, err error) {
	text, err := tx.Meta(skippedKey)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}

// Restores are the skipped versions of all times that a state was restored.
type Restores []Skipped

// ReadRestores returns them; none if the state never was.
func ReadRestores(db *store.Store) (all Restores, err error) {
	err = db.View(func(tx *store.Tx) error {
		all, err = readSkipped(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read when the state was restored: %w", err)
	}
	return all, nil
}

// LostWith returns the restore before which a sink was filled by the state that was lost: the sink has
// a version of that state, and answers after those of the backup. It returns nil if there is none.
func (r Restores) LostWith(version, mark int64) *Skipped {
	for i := range r {
		if r[i].has(version) && mark > r[i].Answers {
			return &r[i]
		}
	}
	return nil
}
