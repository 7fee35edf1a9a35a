// Package sinktest tests the line: the warehouse, and a copy of it. Every copy must pass it.
//
// What readers find in the copy is compared with a model: a journal of answers, and a few simple functions
// that compute the rows of each kind of table. The tables must be the same however the journal is
// divided into batches.
package sinktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/warehouse"
)

// Open opens a copy of a warehouse, whose files are all below dir.
type Open func(t testing.TB, dir string, w *warehouse.Warehouse) Copy

// Copy is a copy of a warehouse and the way to read it.
type Copy struct {
	sinks.Copy
	Read func(t testing.TB, table *schema.Table) []Row // all rows that readers find, by [Query]
}

// Options are those of a warehouse below dir with [Tables] and [Ops], which have no comments. It makes the folder of
// the state, which stands before a warehouse is opened.
func Options(dir string) warehouse.Options {
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		panic(err)
	}
	return warehouse.Options{
		Path: filepath.Join(dir, "state", warehouse.Name), Temp: filepath.Join(dir, "state", "tmp"),
		Tables: slices.Concat(Tables(), Ops()), Uncommented: true,
	}
}

// Line is a warehouse and a copy of it.
type Line struct {
	*warehouse.Warehouse
	Copy Copy
}

// Line opens the line below dir, with [Options].
func (open Open) Line(t testing.TB, dir string) *Line { return open.With(t, dir, Options(dir)) }

// With opens the line below dir.
func (open Open) With(t testing.TB, dir string, o warehouse.Options) *Line {
	t.Helper()
	w := warehouse.New(o)
	return &Line{Warehouse: w, Copy: open(t, dir, w)}
}

// Close closes the line.
func (l *Line) Close(t testing.TB) {
	t.Helper()
	if err := errors.Join(l.Copy.Close(), l.Warehouse.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Write writes the answers (lo, hi] of a journal.
func (l *Line) Write(t testing.TB, j Journal, lo, hi int64) {
	t.Helper()
	b := j.Batch(lo, hi)
	defer Release(b)
	if err := l.Warehouse.Write(t.Context(), b); err != nil {
		t.Fatalf("write (%d, %d]: %v", lo, hi, err)
	}
}

// WriteOps writes changes of the operations tables.
func (l *Line) WriteOps(t testing.TB, ops *sinks.Ops) {
	t.Helper()
	if err := l.Warehouse.WriteOps(t.Context(), ops); err != nil {
		t.Fatalf("write operations: %v", err)
	}
}

// Omit leaves out more.
func (l *Line) Omit(t testing.TB, more sinks.Omitted) {
	t.Helper()
	if err := l.Warehouse.Omit(t.Context(), more); err != nil {
		t.Fatalf("omit %s: %v", more, err)
	}
}

// Publish publishes the copy, and checks that it says that it shows what the warehouse has.
func (l *Line) Publish(t testing.TB) {
	t.Helper()
	if err := l.Copy.Publish(t.Context()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	shown, err := l.Copy.Shows(t.Context())
	if have := l.Marks(t); err != nil || shown != have {
		t.Errorf("the copy shows %+v, %v; the warehouse has %+v", shown, err, have)
	}
}

// Marks returns the marks of the warehouse.
func (l *Line) Marks(t testing.TB) sinks.Marks {
	t.Helper()
	marks, err := l.Warehouse.Marks(t.Context())
	if err != nil {
		t.Fatalf("marks: %v", err)
	}
	return marks
}

// Check compares all tables of the copy with the journal up to hi.
func (l *Line) Check(t testing.TB, j Journal, hi int64) {
	t.Helper()
	for _, table := range Tables() {
		if diff := l.diff(t, table, j, hi); diff != "" {
			t.Error(diff)
		}
	}
}

// diff compares a table of the copy with the journal up to hi. It returns "" if they are equal.
func (l *Line) diff(t testing.TB, table *schema.Table, j Journal, hi int64) string {
	t.Helper()
	omitted, err := sinks.ParseOmitted(l.Marks(t).Omitted)
	if err != nil {
		t.Fatal(err)
	}
	diff := Diff(j.wantWithout(table, hi, omitted), l.Copy.Read(t, table))
	if diff != "" {
		diff = fmt.Sprintf("table %s after answer %d (-want +got):\n%s", table.Name, hi, diff)
	}
	return diff
}

// Diff compares rows in any order.
func Diff(want, got []Row) string { return cmp.Diff(lines(want), lines(got)) }

// Run runs the suite of a copy. Random tests run four times, unless the flag -rapid.checks is set.
func Run(t *testing.T, open Open) {
	run(t, open, map[string]func(*testing.T, Open){
		"a new copy is empty and readable":      newCopy,
		"every value comes back":                everyValue,
		"tables do not depend on the batches":   anyBatches,
		"what is left out is left out for ever": leftOut,
		"another warehouse is shown whole":      anotherWarehouse,
	})
}

// RunWarehouse runs the suite of the warehouse, which has what is the same for all copies.
func RunWarehouse(t *testing.T, open Open) {
	run(t, open, map[string]func(*testing.T, Open){
		"what does not follow is refused":         refused,
		"a row changed only where it is left out": changedElsewhere,
		"growth is over days":                     grows,
		"what is gone leaves nothing":             deletedIdentities,
	})
}

func run(t *testing.T, open Open, suite map[string]func(*testing.T, Open)) {
	for name, test := range suite {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}
