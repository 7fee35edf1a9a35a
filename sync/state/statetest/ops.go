package statetest

import (
	"slices"
	"testing"

	"outlierd/schema"
	"outlierd/sync/ops"
	"outlierd/sync/state"
)

// OpsTable is the operations table of a name.
func OpsTable(name string) *ops.Table {
	return &state.OpsTables[slices.IndexFunc(state.OpsTables, func(t ops.Table) bool { return t.Name == name })]
}

// OpsRows are the rows of an operations table that have changed since a version.
func OpsRows(t *testing.T, s *state.Store, table string, since int64) (all [][]any) {
	t.Helper()
	changes, err := ops.Since(s.DB, since)
	if err != nil {
		t.Fatal(err)
	}
	of := OpsTable(table)
	changed := changes.Changed(of)
	for rows, err := range of.Rows(s.DB, changes, 2) {
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if changes.All || slices.Contains(changed, row[0].(int64)) {
				all = append(all, row)
			}
		}
	}
	return all
}

// Column picks one column of the rows that have changed since a version.
func Column(t *testing.T, s *state.Store, table, name string, since int64) (values []any) {
	t.Helper()
	at := slices.IndexFunc(OpsTable(table).Columns, func(c schema.Column) bool { return c.Name == name })
	for _, row := range OpsRows(t, s, table, since) {
		values = append(values, row[at])
	}
	return values
}
