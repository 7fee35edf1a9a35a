package sinktest

import (
	"flag"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/schema"
)

// This file has the tests for all kinds of tables: the tables must not depend on the batches.

func newSink(t *testing.T, k Sink) {
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer closeSink(t, s)
	if mark := watermark(t, s); mark != 0 {
		t.Errorf("watermark = %d, want 0", mark)
	}
	k.Check(t, dir, nil, 0)
}

func everyValue(t *testing.T, k Sink) {
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
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer closeSink(t, s)
	write(t, s, j, 0, 8)
	publish(t, s)
	k.Check(t, dir, j, 8)
}

func emptyBatch(t *testing.T, k Sink) {
	dir, j := t.TempDir(), Sample(4)
	j[1].Rows = nil
	s := k.Open(t, dir)
	defer closeSink(t, s)
	for hi := range int64(4) {
		write(t, s, j, hi, hi+1)
		if mark := watermark(t, s); mark != hi+1 {
			t.Errorf("watermark = %d, want %d", mark, hi+1)
		}
	}
	publish(t, s)
	k.Check(t, dir, j, 4)
}

func refusedBatch(t *testing.T, k Sink) {
	dir, j := t.TempDir(), Sample(6)
	s := k.Open(t, dir)
	defer closeSink(t, s)
	write(t, s, j, 0, 3)
	for _, lo := range []int64{0, 2, 4} {
		b := j.Batch(lo, 6)
		if err := s.Write(t.Context(), b); err == nil {
			t.Errorf("batch (%d, 6] was accepted at watermark 3", lo)
		}
		Release(b)
	}
	write(t, s, j, 3, 6)
	publish(t, s)
	k.Check(t, dir, j, 6)
}

// checksAreSet reports whether -rapid.checks is on the command line. It is asked before [fewChecks] sets that flag.
var checksAreSet = sync.OnceValue(func() (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	return set
})

// fewChecks sets the number of rapid checks to six, unless it is set on the command line, because each check
// opens files many times.
func fewChecks(t *testing.T) {
	if checksAreSet() {
		return
	}
	if err := flag.Set("rapid.checks", "6"); err != nil {
		t.Fatal(err)
	}
}

// anyBatches writes random journals in random batches, and publishes and reopens the sink at random
// times.
func anyBatches(t *testing.T, k Sink) {
	fewChecks(t)
	rapid.Check(t, func(r *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "pick") }
		j := Generate(rapid.IntRange(1, 12).Draw(r, "answers"), pick)
		dir := t.TempDir()
		s := k.Open(t, dir)
		defer func() { closeSink(t, s) }()
		for lo := int64(0); lo < int64(len(j)); {
			hi := rapid.Int64Range(lo+1, int64(len(j))).Draw(r, "hi")
			write(t, s, j, lo, hi)
			lo = hi
			if pick(4) == 0 || hi == int64(len(j)) {
				publish(t, s)
				for _, table := range Tables() {
					if diff := k.diff(t, dir, table, j, hi); diff != "" {
						r.Error(diff) // not t.Error, so that rapid shrinks the journal
					}
				}
			}
			if pick(6) == 0 {
				closeSink(t, s)
				s = k.Open(t, dir)
			}
		}
	})
}

func reopening(t *testing.T, k Sink) {
	dir, j := t.TempDir(), Sample(6)
	for lo := range int64(6) {
		s := k.Open(t, dir)
		if mark := watermark(t, s); mark != lo {
			t.Fatalf("watermark after reopening = %d, want %d", mark, lo)
		}
		write(t, s, j, lo, lo+1)
		publish(t, s)
		closeSink(t, s)
	}
	s := k.Open(t, dir)
	defer closeSink(t, s)
	k.Check(t, dir, j, 6)
}

func unpublished(t *testing.T, k Sink) {
	dir, j := t.TempDir(), Sample(8)
	s := k.Open(t, dir)
	write(t, s, j, 0, 3)
	write(t, s, j, 3, 8)
	closeSink(t, s)
	s = k.Open(t, dir)
	defer closeSink(t, s)
	publish(t, s)
	k.Check(t, dir, j, 8)
}

func publishTwice(t *testing.T, k Sink) {
	dir, j := t.TempDir(), Sample(8)
	s := k.Open(t, dir)
	defer closeSink(t, s)
	publish(t, s)
	k.Check(t, dir, j, 0)
	write(t, s, j, 0, 8)
	publish(t, s)
	publish(t, s)
	k.Check(t, dir, j, 8)
}

func partsNotReleased(t *testing.T, k Sink) {
	j := Sample(6)
	b := j.Batch(0, 6)
	defer Release(b)
	for range 2 {
		s := k.Open(t, t.TempDir())
		if err := s.Write(t.Context(), b); err != nil {
			t.Error(err)
		}
		closeSink(t, s)
	}
	for _, part := range b.Parts {
		var want []Row
		for _, a := range j {
			want = append(want, a.Rows[part.Table]...)
		}
		if diff := cmp.Diff(lines(want), lines(Rows(part.Rows))); diff != "" {
			t.Errorf("table %s (-want +got):\n%s", part.Table.Name, diff)
		}
	}
}
