package load

import (
	"fmt"
	"iter"
	"slices"

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
	return &sinks.Ops{Since: since, Version: changes.Version, From: state.OpsFrom(changes), Rows: opsRows(from, changes)}
}

// opsBatchRows limits how many rows of the operations tables are held in memory.
const opsBatchRows = 10_000

// opsRows yields the changes in parts of at most opsBatchRows rows. It reads them from the state as the caller continues.
func opsRows(from *state.Store, changes ops.Changes) iter.Seq2[schema.Part, error] {
	return func(yield func(schema.Part, error) bool) {
		for _, table := range schema.OpsTables() {
			columns := state.OpsColumns(table.Name)
			if !slices.EqualFunc(columns, table.Columns, func(name string, c schema.Column) bool { return name == c.Name }) {
				yield(schema.Part{}, fmt.Errorf("table %s is declared with other columns than the state has: %v",
					table.Name, columns))
				return
			}
			for rows, err := range state.OpsTable(table.Name).Rows(from.DB, changes, opsBatchRows) {
				part := schema.Part{Table: table}
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
