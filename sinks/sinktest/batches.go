package sinktest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
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
		a := answer(id+1, start)
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

// refused: what does not follow on what the warehouse has is refused, because what is in between would be lost.
func refused(t *testing.T, open Open) {
	j := Sample(6)
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	l.Write(t, j, 0, 3)
	l.WriteOps(t, Runs(0, 3))
	for _, lo := range []int64{0, 2, 4} {
		b := j.Batch(lo, 6)
		if err := l.Warehouse.Write(t.Context(), b); err == nil {
			t.Errorf("batch (%d, 6] was accepted at watermark 3", lo)
		}
		Release(b)
		since := max(lo, 1) // changes since 0 replace all
		if err := l.Warehouse.WriteOps(t.Context(), Runs(since, 6)); err == nil {
			t.Errorf("changes since version %d were accepted at version 3", since)
		}
	}
	l.Write(t, j, 3, 6)
	l.WriteOps(t, Runs(3, 6))
	l.Publish(t)
	l.Check(t, j, 6)
	l.CheckRuns(t, 6)
}

// Each check opens files many times; ask for more with -rapid.checks.
func init() {
	if err := flag.Set("rapid.checks", "4"); err != nil {
		panic(err)
	}
}

// anyBatches writes random journals and changes of the state in random batches, and leaves more out, publishes and
// reopens the line at random times.
func anyBatches(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "pick") }
		j := Generate(rapid.IntRange(1, 12).Draw(r, "answers"), pick)
		dir := t.TempDir()
		l := open.Line(t, dir)
		defer func() { l.Close(t) }()
		state, omitted := newLedger(), sinks.Omitted{}
		for lo := int64(0); lo < int64(len(j)); {
			if pick(3) == 0 {
				more := anyOmitted(r)
				omitted = omitted.With(more)
				l.Omit(t, more)
			}
			if has := l.Marks(t).Omitted; has != omitted.String() {
				r.Fatalf("the warehouse leaves out %s, want %s", has, omitted)
			}
			hi := rapid.Int64Range(lo+1, int64(len(j))).Draw(r, "hi")
			l.Write(t, j, lo, hi)
			l.changeOperations(t, r, state)
			lo = hi
			if published := pick(4); published > 1 || hi == int64(len(j)) {
				for range max(1, published-1) { // once or twice
					l.Publish(t)
				}
				for _, table := range Tables() {
					if diff := l.diff(t, table, j, hi); diff != "" {
						r.Error(diff) // not t.Error, so that rapid shrinks the journal
					}
				}
				for _, table := range Ops() {
					if diff := Diff(state.rows[table], l.Copy.Read(t, table)); diff != "" {
						r.Errorf("table %s at version %d (-want +got):\n%s", table.Name, state.version, diff)
					}
				}
			}
			if pick(3) == 0 { // as another process
				l.Close(t)
				l = open.Line(t, dir)
				if mark := l.Marks(t).Answers; mark != lo {
					r.Fatalf("watermark after reopening = %d, want %d", mark, lo)
				}
			}
		}
	})
}

// anyOmitted leaves out something of a table: all, columns, or answers that may not be written yet.
func anyOmitted(r *rapid.T) sinks.Omitted {
	table := rapid.SampledFrom(Tables()).Draw(r, "table")
	switch rapid.IntRange(0, 5).Draw(r, "omit") {
	case 0:
		return sinks.Omitted{UpTo: map[string]int64{table.Name: sinks.Whole}}
	case 1, 2:
		if table.Identity() == nil {
			return sinks.Omitted{UpTo: map[string]int64{table.Name: rapid.Int64Range(1, 12).Draw(r, "up to")}}
		}
	}
	columns := map[string][]string{}
	for _, c := range table.Columns {
		if c.Name != table.Grows && c.Name != schema.ImportedSeenAt && !slices.Contains(table.Key, c.Name) && rapid.Bool().Draw(r, c.Name) {
			columns[table.Name] = append(columns[table.Name], c.Name)
		}
	}
	return sinks.Omitted{Columns: columns}
}

// leftOut: what was left out once is gone at once, and stays out, also of later answers.
func leftOut(t *testing.T, open Open) {
	dir, j := t.TempDir(), Sample(8)
	l := open.Line(t, dir)
	l.Write(t, j, 0, 4)
	l.Publish(t)
	l.Omit(t, sinks.Omitted{
		UpTo:    map[string]int64{"transcripts": sinks.Whole, "outliers": sinks.Whole},
		Columns: map[string][]string{"comments": {"author_text", "text"}, "channels_history": {"description", "thumbnails"}},
	})
	l.Publish(t)
	l.Check(t, j, 4)
	l.Close(t)
	l = open.Line(t, dir)
	defer l.Close(t)
	l.Omit(t, sinks.Omitted{Columns: map[string][]string{"comments": {"extra"}}})
	l.Write(t, j, 4, 8)
	l.Publish(t)
	l.Check(t, j, 8)
	for _, row := range l.Copy.Read(t, schema.Comments) {
		if row["text"] != nil || row["extra"] != nil {
			t.Fatalf("a comment has %v", row)
		}
	}
	if n := len(l.Copy.Read(t, schema.Outliers)); n > 0 {
		t.Errorf("outliers has %d rows", n)
	}
}

// changedElsewhere: a row that differs from the one before it only in a column that is left out is not kept.
func changedElsewhere(t *testing.T, open Open) {
	channel := func(title, description string) []Row {
		return []Row{{"channel_id": "a", "title": title, "description": description}}
	}
	j := journalOf(schema.ChannelsHistory, channel("x", "one"), channel("x", "two"), channel("y", "two"), channel("y", "three"))
	l := open.Line(t, t.TempDir())
	defer l.Close(t)
	l.Write(t, j, 0, 3)
	l.Publish(t)
	l.Omit(t, sinks.Omitted{Columns: map[string][]string{"channels_history": {"description"}}})
	l.Write(t, j, 3, 4)
	l.Publish(t)
	if rows := l.Copy.Read(t, schema.ChannelsHistory); len(rows) != 2 {
		t.Errorf("%d rows, want 2: %v", len(rows), rows)
	}
	l.Check(t, j, 4)
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
