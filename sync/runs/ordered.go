package runs

import (
	"slices"

	"outlierd/sync/store"
)

// orderedRuns has the runs requested while a schedule was running that have not ended. The next start continues
// them, because the commands that requested them may have ended.
var orderedRuns = store.Cell[[]string]{Key: "ordered runs"}

// Ordered returns the requested runs, in the order of the requests.
func (rs *Runs) Ordered() ([]string, error) {
	return store.Read(rs.db, "list the runs that were asked for", orderedRuns.Get)
}

// NoteOrdered adds a run to [Runs.Ordered].
func (rs *Runs) NoteOrdered(run string) error {
	return rs.changeOrdered(func(all []string) []string { return append(all, run) })
}

// ForgetOrdered removes a run from [Runs.Ordered].
func (rs *Runs) ForgetOrdered(run string) error {
	return rs.changeOrdered(func(all []string) []string {
		return slices.DeleteFunc(all, func(other string) bool { return other == run })
	})
}

func (rs *Runs) changeOrdered(change func([]string) []string) error {
	return store.Change(rs.db, "note which runs were asked for", func(tx *store.Tx) error {
		all, err := orderedRuns.Get(tx)
		if err != nil {
			return err
		}
		return orderedRuns.Set(tx, change(all))
	})
}
