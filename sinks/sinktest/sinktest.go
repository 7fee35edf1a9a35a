// Package sinktest tests the contract of package sinks. Every sink must pass it.
//
// The content of a sink is compared with a model: a journal of answers, and a few simple functions
// that compute the rows of each kind of table. The tables must be the same however the journal is
// divided into batches.
package sinktest

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
)

// Sink gives the tests access to a sink whose files are all below one folder.
type Sink struct {
	// Open opens the sink with [Tables] and [Ops].
	Open func(t testing.TB, dir string) sinks.Sink

	// Read returns all published rows of a table. The caller releases the records. It is called while
	// the sink is open.
	Read func(t testing.TB, dir string, table *schema.Table) []arrow.RecordBatch
}

// Run runs the suite. Random tests run six times, and journals are divided in a few ways, unless the flag
// -rapid.checks is set.
func Run(t *testing.T, sink Sink) {
	for name, test := range map[string]func(*testing.T, Sink){
		"a new sink is empty and readable":            newSink,
		"every value comes back":                      everyValue,
		"an empty batch moves the watermark alone":    emptyBatch,
		"a batch that does not follow is refused":     refusedBatch,
		"tables do not depend on the batches":         anyBatches,
		"tables do not depend on reopening":           reopening,
		"what was written unpublished is not lost":    unpublished,
		"publishing again changes nothing":            publishTwice,
		"the last observation wins within a batch":    lastObservationWins,
		"growth is over days":                         grows,
		"a parent's rows are replaced whole":          replacedWhole,
		"what is gone leaves nothing":                 deletedIdentities,
		"only changes are kept":                       onlyChanges,
		"a log keeps what comes again":                logGrows,
		"operations tables are what the state has":    operations,
		"many operations":                             manyOperations,
		"changes that do not follow are refused":      refusedChanges,
		"writing does not use up the batch's records": partsNotReleased,
	} {
		t.Run(name, func(t *testing.T) { test(t, sink) })
	}
}

func write(t testing.TB, s sinks.Sink, j Journal, lo, hi int64) {
	t.Helper()
	b := j.Batch(lo, hi)
	defer Release(b)
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatalf("write (%d, %d]: %v", lo, hi, err)
	}
}

// publish publishes, with at most one set of changes.
func publish(t testing.TB, s sinks.Sink, changes ...*sinks.Ops) {
	t.Helper()
	var ops *sinks.Ops
	if len(changes) > 0 {
		ops = changes[0]
	}
	if err := s.Publish(t.Context(), ops); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func watermark(t testing.TB, s sinks.Sink) int64 {
	t.Helper()
	mark, err := s.Watermark(t.Context())
	if err != nil {
		t.Fatalf("watermark: %v", err)
	}
	return mark
}

func closeSink(t testing.TB, s sinks.Sink) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (k Sink) rows(t testing.TB, dir string, table *schema.Table) []Row {
	t.Helper()
	var rows []Row
	for _, rec := range k.Read(t, dir, table) {
		rows = append(rows, Rows(rec)...)
		rec.Release()
	}
	return rows
}

// Check compares all published tables with the journal up to hi.
func (k Sink) Check(t testing.TB, dir string, j Journal, hi int64) {
	t.Helper()
	for _, table := range Tables() {
		k.CheckTable(t, dir, table, j, hi)
	}
}

// CheckTable is Check for one table.
func (k Sink) CheckTable(t testing.TB, dir string, table *schema.Table, j Journal, hi int64) {
	t.Helper()
	if diff := k.diff(t, dir, table, j, hi); diff != "" {
		t.Error(diff)
	}
}

// diff compares a published table with the journal up to hi. It returns "" if they are equal.
func (k Sink) diff(t testing.TB, dir string, table *schema.Table, j Journal, hi int64) string {
	t.Helper()
	diff := cmp.Diff(lines(j.Want(table, hi)), lines(k.rows(t, dir, table)))
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("table %s after answer %d (-want +got):\n%s", table.Name, hi, diff)
}
