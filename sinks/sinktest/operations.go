package sinktest

import (
	"errors"
	"iter"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/schema"
	"outlierd/sinks"
)

// This file has the tests of operations tables, which are derived from the state.

// Changes returns changes with the given rows of operations tables, in batches of at most most rows per
// table.
func Changes(since, version int64, all bool, rows map[*schema.Table][]Row, most int) *sinks.Ops {
	return &sinks.Ops{Since: since, Version: version, All: all, Batches: batches(rows, most)}
}

func batches(rows map[*schema.Table][]Row, most int) iter.Seq2[sinks.OpsBatch, error] {
	return func(yield func(sinks.OpsBatch, error) bool) {
		left := maps.Clone(rows)
		for last := false; !last; {
			var b sinks.OpsBatch
			last = true
			for table, rows := range left {
				some := rows[:min(most, len(rows))]
				if left[table] = rows[len(some):]; len(left[table]) > 0 {
					last = false
				}
				b.Parts = append(b.Parts, schema.Part{Table: table, Rows: Record(table.Schema(), some)})
			}
			b.Last = last
			more := yield(b, nil)
			for _, part := range b.Parts {
				part.Rows.Release()
			}
			if !more {
				return
			}
		}
	}
}

// Runs returns changes with the runs (since, hi] and the version hi. Since 0 they replace all rows.
func Runs(since, hi int64) *sinks.Ops {
	all := map[*schema.Table][]Row{}
	for id := since + 1; id <= hi; id++ {
		all[schema.OpsRuns] = append(all[schema.OpsRuns], operation(schema.OpsRuns, id, id))
	}
	return Changes(since, hi, since == 0, all, 1000)
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

// since returns the rows that were changed after a version; all rows for 0.
func (l *ledger) since(version int64, most int) *sinks.Ops {
	changes := map[*schema.Table][]Row{}
	for table, rows := range l.rows {
		for i, row := range rows {
			if version == 0 || l.changed[table][i] > version {
				changes[table] = append(changes[table], row)
			}
		}
	}
	return Changes(version, l.version, version == 0, changes, most)
}

func newLedger() *ledger {
	return &ledger{rows: map[*schema.Table][]Row{}, changed: map[*schema.Table][]int64{}}
}

// operations publishes random changes in random batches. After each publication readers must find the
// rows of the state.
func operations(t *testing.T, k Sink) {
	fewChecks(t)
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		s := k.Open(t, dir)
		defer func() { closeSink(t, s) }()
		l := newLedger()
		for range rapid.IntRange(1, 4).Draw(r, "publications") {
			for range rapid.IntRange(0, 12).Draw(r, "changes") {
				l.change(rapid.SampledFrom(Ops()).Draw(r, "table"), rapid.IntRange(0, 20).Draw(r, "row"))
			}
			version := opsVersion(t, s)
			if rapid.IntRange(0, 4).Draw(r, "forgotten") == 0 {
				version = 0
			}
			changes := l.since(version, rapid.IntRange(1, 4).Draw(r, "batch"))
			if rapid.IntRange(0, 4).Draw(r, "broken off") == 0 && (changes.All || changes.Since != changes.Version) {
				changes.Batches = interrupted(changes.Batches)
				if err := s.Publish(t.Context(), changes); !errors.Is(err, errInterrupted) {
					r.Fatalf("error %v, want that of the changes", err)
				}
				changes = l.since(opsVersion(t, s), 3)
			}
			publish(t, s, changes)
			if rapid.IntRange(0, 5).Draw(r, "reopen") == 0 {
				closeSink(t, s)
				s = k.Open(t, dir)
			}
			if now := opsVersion(t, s); now != l.version {
				r.Fatalf("version %d, want %d", now, l.version)
			}
			for _, table := range Ops() {
				if diff := cmp.Diff(lines(l.rows[table]), lines(k.rows(t, dir, table))); diff != "" {
					r.Fatalf("table %s at version %d (-want +got):\n%s", table.Name, l.version, diff)
				}
			}
		}
	})
}

var errInterrupted = errors.New("the state cannot be read")

// interrupted returns changes that end with an error after the first batch.
func interrupted(changes iter.Seq2[sinks.OpsBatch, error]) iter.Seq2[sinks.OpsBatch, error] {
	return func(yield func(sinks.OpsBatch, error) bool) {
		for batch, err := range changes {
			batch.Last = false
			if yield(batch, err) {
				yield(sinks.OpsBatch{}, errInterrupted)
			}
			return
		}
	}
}

// manyOperations adds many rows over several publications, and changes old ones.
func manyOperations(t *testing.T, k Sink) {
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer closeSink(t, s)
	l := newLedger()
	for published := range 6 {
		for i := range 900 {
			l.change(schema.OpsLimits, 900*published+i)
		}
		l.change(schema.OpsLimits, 3)
		l.change(schema.OpsLimits, 1000*published)
		publish(t, s, l.since(opsVersion(t, s), 500))
	}
	for _, table := range Ops() {
		if diff := cmp.Diff(lines(l.rows[table]), lines(k.rows(t, dir, table))); diff != "" {
			t.Errorf("table %s (-want +got):\n%s", table.Name, diff)
		}
	}
}

// refusedChanges: changes since another version than the sink's are refused, because changes in between
// would be lost.
func refusedChanges(t *testing.T, k Sink) {
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer closeSink(t, s)
	publish(t, s, Runs(0, 2))
	for _, since := range []int64{1, 3} {
		if err := s.Publish(t.Context(), Runs(since, 4)); err == nil {
			t.Errorf("changes since version %d were accepted at version 2", since)
		}
	}
	publish(t, s, Runs(2, 4))
	k.CheckRuns(t, dir, 4)
}

func opsVersion(t testing.TB, s sinks.Sink) int64 {
	t.Helper()
	version, err := s.OpsVersion(t.Context())
	if err != nil {
		t.Fatalf("version of the operations tables: %v", err)
	}
	return version
}

// CheckRuns compares what readers find with [Runs] up to hi.
func (k Sink) CheckRuns(t testing.TB, dir string, hi int64) {
	t.Helper()
	var want []Row
	for id := int64(1); id <= hi; id++ {
		want = append(want, operation(schema.OpsRuns, id, id))
	}
	if diff := cmp.Diff(lines(want), lines(k.rows(t, dir, schema.OpsRuns))); diff != "" {
		t.Errorf("table %s after run %d (-want +got):\n%s", schema.OpsRuns.Name, hi, diff)
	}
}
