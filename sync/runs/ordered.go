package runs

import (
	"encoding/json"
	"fmt"
	"slices"

	"outlierd/sync/store"
)

// orderedRuns is the key in meta of the runs requested while a schedule was running.
const orderedRuns = "ordered runs"

// OrderedRun is a run that was requested while a schedule was running, and that has not ended. The
// next start continues it, because the command that requested it may have ended.
type OrderedRun struct {
	Run        string `json:"run"`
	UseReserve bool   `json:"use_reserve,omitempty"`
}

// Ordered returns the requested runs, in the order of the requests.
func (rs *Runs) Ordered() (all []OrderedRun, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		all, err = ordered(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the runs that were asked for: %w", err)
	}
	return all, nil
}

// NoteOrdered adds a run to [Runs.Ordered].
func (rs *Runs) NoteOrdered(r OrderedRun) error {
	return rs.changeOrdered(func(all []OrderedRun) []OrderedRun { return append(all, r) })
}

// ForgetOrdered removes a run from [Runs.Ordered].
func (rs *Runs) ForgetOrdered(run string) error {
	return rs.changeOrdered(func(all []OrderedRun) []OrderedRun {
		return slices.DeleteFunc(all, func(r OrderedRun) bool { return r.Run == run })
	})
}

func (rs *Runs) changeOrdered(change func([]OrderedRun) []OrderedRun) error {
	err := rs.db.Update(func(tx *store.Tx) error {
		all, err := ordered(tx)
		if err != nil {
			return err
		}
		text, err := json.Marshal(change(all))
		if err != nil {
			return err
		}
		return tx.SetMeta(orderedRuns, string(text))
	})
	if err != nil {
		return fmt.Errorf("note which runs were asked for: %w", err)
	}
	return nil
}

func ordered(tx *store.Tx) (all []OrderedRun, err error) {
	text, err := tx.Meta(orderedRuns)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}
