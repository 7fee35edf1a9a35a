package runs

import (
	"slices"

	"outlierd/sync/store"
)

// orderedRuns has the runs requested while a schedule was running.
var orderedRuns = store.Cell[[]OrderedRun]{Key: "ordered runs"}

// OrderedRun is a run that was requested while a schedule was running, and that has not ended. The
// next start continues it, because the command that requested it may have ended.
type OrderedRun struct {
	Run        string `json:"run"`
	UseReserve bool   `json:"use_reserve,omitempty"`
}

// Ordered returns the requested runs, in the order of the requests.
func (rs *Runs) Ordered() ([]OrderedRun, error) {
	return store.Read(rs.db, "list the runs that were asked for", orderedRuns.Get)
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
	return store.Change(rs.db, "note which runs were asked for", func(tx *store.Tx) error {
		all, err := orderedRuns.Get(tx)
		if err != nil {
			return err
		}
		return orderedRuns.Set(tx, change(all))
	})
}
