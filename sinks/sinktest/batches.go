package sinktest

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"outlierd/schema"
	"outlierd/sinks"
)

// This file has the tests for all kinds of tables: the tables must not depend on the batches.

func newCopy(t *testing.T, open Open) {
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	if shown, err := l.Copy.Shows(t.Context()); err != nil || shown != (sinks.Marks{}) {
		t.Errorf("a copy that does not exist shows %+v, %v", shown, err)
	}
	if marks := l.Marks(t); marks.Answers != 0 || marks.Ops != 0 || marks.Warehouse == "" {
		t.Errorf("marks of a new warehouse: %+v", marks)
	}
	l.Publish(t)
	l.Check(t, nil, 0)
}

func everyValue(t *testing.T, open Open) {
	var j Journal
	for id := range int64(8) {
		a := Answer{ID: id + 1, At: start, Rows: map[*schema.Table][]Row{}}
		for _, table := range Tables() {
			row := rowVariant(table, int(id))
			row[table.Key[0]] = texts[(id+2)%8]
			a.add(table, row)
		}
		j = append(j, a)
	}
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	l.Write(t, j, 0, 8)
	l.Publish(t)
	l.Check(t, j, 8)
}

func emptyBatch(t *testing.T, open Open) {
	j := Sample(4)
	j[1].Rows = nil
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	for hi := range int64(4) {
		l.Write(t, j, hi, hi+1)
		if mark := l.Marks(t).Answers; mark != hi+1 {
			t.Errorf("watermark = %d, want %d", mark, hi+1)
		}
	}
	l.Publish(t)
	l.Check(t, j, 4)
}

func refusedBatch(t *testing.T, open Open) {
	j := Sample(6)
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	l.Write(t, j, 0, 3)
	for _, lo := range []int64{0, 2, 4} {
		b := j.Batch(lo, 6)
		if err := l.Warehouse.Write(t.Context(), b); err == nil {
			t.Errorf("batch (%d, 6] was accepted at watermark 3", lo)
		}
		Release(b)
	}
	l.Write(t, j, 3, 6)
	l.Publish(t)
	l.Check(t, j, 6)
}

// checksAreSet reports whether -rapid.checks is on the command line. It is asked before [FewChecks] sets that flag.
var checksAreSet = sync.OnceValue(func() (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	return set
})

// FewChecks sets the number of rapid checks to six, unless it is set on the command line, because each check
// opens files many times.
func FewChecks(t *testing.T) {
	if checksAreSet() {
		return
	}
	if err := flag.Set("rapid.checks", "6"); err != nil {
		t.Fatal(err)
	}
}

// anyBatches writes random journals in random batches, and publishes and reopens the line at random
// times.
func anyBatches(t *testing.T, open Open) {
	FewChecks(t)
	rapid.Check(t, func(r *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "pick") }
		j := Generate(rapid.IntRange(1, 12).Draw(r, "answers"), pick)
		dir := t.TempDir()
		l := open.Line(t, dir)
		defer func() { l.Close(t) }()
		for lo := int64(0); lo < int64(len(j)); {
			hi := rapid.Int64Range(lo+1, int64(len(j))).Draw(r, "hi")
			l.Write(t, j, lo, hi)
			lo = hi
			if pick(4) == 0 || hi == int64(len(j)) {
				l.Publish(t)
				for _, table := range Tables() {
					if diff := l.diff(t, table, j, hi); diff != "" {
						r.Error(diff) // not t.Error, so that rapid shrinks the journal
					}
				}
			}
			if pick(6) == 0 {
				l.Close(t)
				l = open.Line(t, dir)
			}
		}
	})
}

func reopening(t *testing.T, open Open) {
	dir, j := t.TempDir(), Sample(6)
	for lo := range int64(6) {
		l := open.Line(t, dir)
		if mark := l.Marks(t).Answers; mark != lo {
			t.Fatalf("watermark after reopening = %d, want %d", mark, lo)
		}
		l.Write(t, j, lo, lo+1)
		l.Publish(t)
		l.Close(t)
	}
	l := open.Line(t, dir)
	defer l.Close(t)
	l.Check(t, j, 6)
}

func unpublished(t *testing.T, open Open) {
	dir, j := t.TempDir(), Sample(8)
	l := open.Line(t, dir)
	l.Write(t, j, 0, 3)
	l.Write(t, j, 3, 8)
	l.Close(t)
	l = open.Line(t, dir)
	defer l.Close(t)
	l.Publish(t)
	l.Check(t, j, 8)
}

func publishTwice(t *testing.T, open Open) {
	j := Sample(8)
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	l.Publish(t)
	l.Check(t, nil, 0)
	l.Write(t, j, 0, 8)
	l.Publish(t)
	l.Publish(t)
	l.Check(t, j, 8)
}

// anotherWarehouse: a copy takes nothing over from a warehouse that is no longer there.
func anotherWarehouse(t *testing.T, open Open) {
	dir := t.TempDir()
	for _, n := range []int{7, 5} {
		j := Sample(n)
		if err := os.RemoveAll(filepath.Dir(Options(dir).Path)); err != nil {
			t.Fatal(err)
		}
		l := open.Line(t, dir)
		l.Write(t, j, 0, int64(n))
		l.WriteOps(t, Runs(0, int64(n)))
		l.Publish(t)
		l.Check(t, j, int64(n))
		l.CheckRuns(t, int64(n))
		l.Close(t)
	}
}

func partsNotReleased(t *testing.T, open Open) {
	j := Sample(6)
	b := j.Batch(0, 6)
	defer Release(b)
	for range 2 {
		l := open.Line(t, t.TempDir())
		if err := l.Warehouse.Write(t.Context(), b); err != nil {
			t.Error(err)
		}
		l.Publish(t)
		l.Check(t, j, 6)
		l.Close(t)
	}
}
