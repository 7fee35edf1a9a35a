package sinktest

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"outlierd/schema"
	"outlierd/sinks"
)

// This file has the tests of operations tables, which are derived from the state.

// Changes returns changes with the given rows of operations tables, in parts of at most most rows. They replace the
// tail of each table from the number in from on; since 0 all rows of all tables.
func Changes(since, version int64, from map[string]int64, rows map[*schema.Table][]Row, most int) *sinks.Ops {
	if since == 0 {
		from = map[string]int64{}
		for _, table := range Ops() {
			from[table.Name] = 0
		}
	}
	return &sinks.Ops{Since: since, Version: version, From: from, Rows: parts(rows, most)}
}

func parts(rows map[*schema.Table][]Row, most int) iter.Seq2[schema.Part, error] {
	return func(yield func(schema.Part, error) bool) {
		for table, rows := range rows {
			for some := range slices.Chunk(rows, most) {
				part := schema.Part{Table: table, Rows: Record(table.Schema(), some)}
				more := yield(part, nil)
				part.Release()
				if !more {
					return
				}
			}
		}
	}
}

// Runs returns changes with the runs (since, hi] and the version hi. Since 0 they replace all rows.
func Runs(since, hi int64) *sinks.Ops {
	runs := map[*schema.Table][]Row{}
	for id := since + 1; id <= hi; id++ {
		runs[schema.OpsRuns] = append(runs[schema.OpsRuns], operation(schema.OpsRuns, id, id))
	}
	return Changes(since, hi, map[string]int64{schema.OpsRuns.Name: since + 1}, runs, 1000)
}

// operation returns a row of an operations table, with values that depend on id and version.
func operation(table *schema.Table, id, version int64) Row {
	row := rowVariant(table, int(id+version))
	row["id"] = id
	return row
}

// ledger simulates the operations tables of the state.
type ledger struct {
	version int64
	rows    map[*schema.Table][]Row
	changed map[*schema.Table][]int64 // the version in which each row was changed last
	emptied map[*schema.Table]int64   // the version in which a table lost its last row
}

// change changes the row at an index of a table, or appends one if there is none.
func (l *ledger) change(table *schema.Table, at int) {
	l.version++
	if at >= len(l.rows[table]) {
		at = len(l.rows[table])
		l.rows[table] = append(l.rows[table], nil)
		l.changed[table] = append(l.changed[table], 0)
	}
	l.rows[table][at], l.changed[table][at] = operation(table, int64(2*at+1), l.version), l.version
}

// cut removes the last row of a table.
func (l *ledger) cut(table *schema.Table) {
	if n := len(l.rows[table]) - 1; n >= 0 {
		l.version++
		l.rows[table], l.changed[table] = l.rows[table][:n], l.changed[table][:n]
		if n > 0 {
			l.changed[table][n-1] = l.version
		} else {
			l.emptied[table] = l.version
		}
	}
}

// since returns the tails of the tables that were changed after a version; all rows for 0. Their rows get the version
// with which they are written.
func (l *ledger) since(version int64, most int) *sinks.Ops {
	from, tails := map[string]int64{}, map[*schema.Table][]Row{}
	for _, table := range Ops() {
		first := slices.IndexFunc(l.changed[table], func(changed int64) bool { return changed > version })
		switch {
		case version == 0, l.emptied[table] > version:
			first, from[table.Name] = 0, 0
		case first < 0:
			continue
		default:
			from[table.Name] = l.rows[table][first]["id"].(int64)
		}
		for _, row := range l.rows[table][first:] {
			row[schema.OpsVersion] = l.version
			tails[table] = append(tails[table], row)
		}
	}
	return Changes(version, l.version, from, tails, most)
}

func newLedger() *ledger {
	return &ledger{rows: map[*schema.Table][]Row{}, changed: map[*schema.Table][]int64{}, emptied: map[*schema.Table]int64{}}
}

// changeOperations makes random changes of the state, and writes them to the warehouse in random batches.
func (l *Line) changeOperations(t *testing.T, r *rapid.T, state *ledger) {
	for range rapid.IntRange(0, 12).Draw(r, "changes") {
		state.change(rapid.SampledFrom(Ops()).Draw(r, "table"), rapid.IntRange(0, 20).Draw(r, "row"))
	}
	if rapid.IntRange(0, 4).Draw(r, "cut") == 0 {
		state.cut(rapid.SampledFrom(Ops()).Draw(r, "table"))
	}
	version := l.Marks(t).Ops
	if rapid.IntRange(0, 4).Draw(r, "forgotten") == 0 && version != state.version {
		version = 0 // what has changed is no longer recorded
	}
	changes := state.since(version, rapid.IntRange(1, 4).Draw(r, "batch"))
	if rapid.IntRange(0, 4).Draw(r, "broken off") == 0 {
		changes.Rows = interrupted(changes.Rows)
		if err := l.Warehouse.WriteOps(t.Context(), changes); !errors.Is(err, errInterrupted) {
			r.Fatalf("error %v, want that of the changes", err)
		}
		changes = state.since(version, 3)
	}
	l.WriteOps(t, changes)
	if now := l.Marks(t).Ops; now != state.version {
		r.Fatalf("version %d, want %d", now, state.version)
	}
}

var errInterrupted = errors.New("the state cannot be read")

// interrupted returns changes that end with an error after the first part.
func interrupted(changes iter.Seq2[schema.Part, error]) iter.Seq2[schema.Part, error] {
	return func(yield func(schema.Part, error) bool) {
		for part := range changes {
			if !yield(part, nil) {
				return
			}
			break
		}
		yield(schema.Part{}, errInterrupted)
	}
}

// CheckRuns compares what readers find with [Runs] up to hi, but for the versions.
func (l *Line) CheckRuns(t testing.TB, hi int64) {
	t.Helper()
	var want []Row
	for id := int64(1); id <= hi; id++ {
		want = append(want, operation(schema.OpsRuns, id, id))
	}
	got := l.Copy.Read(t, schema.OpsRuns)
	for _, row := range got {
		delete(row, schema.OpsVersion)
	}
	if diff := Diff(want, got); diff != "" {
		t.Errorf("table %s after run %d (-want +got):\n%s", schema.OpsRuns.Name, hi, diff)
	}
}
