package load

import (
	"iter"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/ops"
	"outlierd/sync/state"
)

// Operations returns all rows of the operations tables, for a warehouse that has none. It only reads the
// state, so it also works while another process holds it.
func Operations(from *state.Store) (*sinks.Ops, error) {
	changes, err := ops.Since(from.DB, 0)
	if err != nil {
		return nil, err
	}
	return opsOf(from, changes, 0), nil
}

// opsOf returns changes since a version of the operations tables as a warehouse takes them.
func opsOf(from *state.Store, changes ops.Changes, since int64) *sinks.Ops {
	of := &sinks.Ops{Since: since, Version: changes.Version, From: map[string]int64{}, Rows: opsRows(from, changes)}
	for i := range state.OpsTables {
		if id, changed := changes.From(&state.OpsTables[i]); changed {
			of.From[state.OpsTables[i].Name] = id
		}
	}
	return of
}

// opsBatchRows limits how many rows of the operations tables are held in memory.
const opsBatchRows = 10_000

// opsRows yields the changes in parts of at most opsBatchRows rows. It reads them from the state as the caller
// continues.
func opsRows(from *state.Store, changes ops.Changes) iter.Seq2[schema.Part, error] {
	return func(yield func(schema.Part, error) bool) {
		for _, table := range state.OpsTables {
			for rows, err := range table.Rows(from.DB, changes, opsBatchRows) {
				part := schema.Part{Table: table.Table}
				if err == nil {
					part.Rows, err = schema.NewRecord(table.Schema(), rows)
				}
				if !yield(part, err) || err != nil {
					return
				}
				part.Release()
			}
		}
	}
}
