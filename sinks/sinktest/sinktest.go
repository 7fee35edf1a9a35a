// Package sinktest states what a sink promises, as tests that every sink passes.
//
// What a sink holds is compared with a model: a journal of answers, and a few plain
// lines that say what each kind of table makes of them. However the journal is cut
// into batches, the tables must be the same.
package sinktest

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/schema"
	"outlierd/sinks"
)

// Sink is how the tests get at a sink whose files are all below one folder.
type Sink struct {
	// Open opens the sink with [Tables] and [Ops].
	Open func(t testing.TB, dir string) sinks.Sink

	// Read reads all rows that readers find in a table, in records that the caller
	// releases; it is called while the sink is open.
	Read func(t testing.TB, dir string, table *schema.Table) []arrow.RecordBatch
}

// Run runs the suite. A random journal is tried ten times, unless the flag
// -rapid.checks says otherwise.
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
		"the last observation wins within a batch":    lastWins,
		"a parent's rows are replaced whole":          replacedWhole,
		"only changes are kept":                       onlyChanges,
		"operations tables follow their marks":        operations,
		"a mark never goes back":                      markBack,
		"writing does not use up the batch's records": partsSurvive,
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

func publish(t testing.TB, s sinks.Sink, ops ...sinks.Ops) {
	t.Helper()
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

// Check compares what readers find with the journal up to hi.
func (k Sink) Check(t testing.TB, dir string, j Journal, hi int64) {
	t.Helper()
	for _, table := range Tables() {
		k.CheckTable(t, dir, table, j, hi)
	}
}

// CheckTable is Check of one table.
func (k Sink) CheckTable(t testing.TB, dir string, table *schema.Table, j Journal, hi int64) {
	t.Helper()
	if diff := k.diff(t, dir, table, j, hi); diff != "" {
		t.Error(diff)
	}
}

// diff is "" if readers find in a table what the journal up to hi amounts to.
func (k Sink) diff(t testing.TB, dir string, table *schema.Table, j Journal, hi int64) string {
	t.Helper()
	diff := cmp.Diff(lines(j.Want(table, hi)), lines(k.rows(t, dir, table)))
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("table %s after answer %d (-want +got):\n%s", table.Name, hi, diff)
}

// CheckRuns compares what readers find with the runs 1 to hi.
func (k Sink) CheckRuns(t testing.TB, dir string, hi int64) {
	t.Helper()
	want := Runs(0, hi, hi)
	defer want.Part.Rows.Release()
	if diff := cmp.Diff(lines(Rows(want.Part.Rows)), lines(k.rows(t, dir, schema.OpsRuns))); diff != "" {
		t.Errorf("table %s after run %d (-want +got):\n%s", schema.OpsRuns.Name, hi, diff)
	}
}

// Sample is a journal that is the same every time.
func Sample(n int) Journal {
	state := uint64(n)
	return Generate(n, func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state>>33) % n
	})
}

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
		a := Answer{ID: id + 1, At: began, Rows: map[*schema.Table][]Row{}}
		for _, table := range Tables() {
			row := variant(table, int(id))
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

// few asks for ten checks where the command line asks for no number: each opens
// files many times.
func few(t *testing.T) {
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if asked {
		return
	}
	if err := flag.Set("rapid.checks", "10"); err != nil {
		t.Fatal(err)
	}
}

// anyBatches is the heart of the suite: any journal, cut anywhere, published at any
// time, reopened at any time.
func anyBatches(t *testing.T, k Sink) {
	few(t)
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
						r.Error(diff) // to r, which looks for a smaller journal
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
	dir, j := t.TempDir(), Sample(12)
	for lo := range int64(12) {
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
	k.Check(t, dir, j, 12)
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

// story makes a journal by hand: one answer per line, one row per column.
func story(table *schema.Table, answers ...[]Row) Journal {
	var j Journal
	for i, rows := range answers {
		a := Answer{ID: int64(i + 1), At: began.AddDate(0, 0, i), Rows: map[*schema.Table][]Row{}}
		for _, row := range rows {
			a.add(table, row)
		}
		j = append(j, a)
	}
	return j
}

// tell writes a story in batches that end at his, and picks columns of the result.
func (k Sink) tell(t *testing.T, j Journal, table *schema.Table, columns []string, his ...int64) []string {
	t.Helper()
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer closeSink(t, s)
	var lo int64
	for _, hi := range his {
		write(t, s, j, lo, hi)
		lo = hi
	}
	publish(t, s)
	var got []string
	for _, row := range k.rows(t, dir, table) {
		got = append(got, key(row, columns))
	}
	slices.Sort(got)
	return got
}

func lastWins(t *testing.T, k Sink) {
	video := func(id, title string) Row { return Row{"video_id": id, "title": title} }
	j := story(schema.Outliers,
		[]Row{video("a", "first"), video("b", "only"), video("a", "second")},
		[]Row{video("a", "third")})
	want := []string{`"a"|"third"|3|`, `"b"|"only"|1|`}
	for _, batches := range [][]int64{{2}, {1, 2}} {
		got := k.tell(t, j, schema.Outliers, []string{"video_id", "title", sinks.TimesSeen}, batches...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches %v (-want +got):\n%s", batches, diff)
		}
	}
}

func replacedWhole(t *testing.T, k Sink) {
	event := func(video string, position int64, text string) Row {
		return Row{"video_id": video, "position": position, "text": text}
	}
	j := story(schema.TranscriptEvents,
		[]Row{event("a", 0, "one"), event("a", 1, "two"), event("a", 2, "three")},
		[]Row{event("b", 0, "other")},
		[]Row{event("a", 0, "uno"), event("a", 1, "dos")})
	want := []string{`"a"|0|"uno"|`, `"a"|1|"dos"|`, `"b"|0|"other"|`}
	for _, batches := range [][]int64{{3}, {1, 3}, {1, 2, 3}} {
		got := k.tell(t, j, schema.TranscriptEvents, []string{"video_id", "position", "text"}, batches...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches %v (-want +got):\n%s", batches, diff)
		}
	}
}

func onlyChanges(t *testing.T, k Sink) {
	channel := func(id string, title any) Row {
		row := Row{"channel_id": id}
		if title != nil {
			row["title"] = title
		}
		return row
	}
	j := story(schema.ChannelsHistory,
		[]Row{channel("a", "x"), channel("b", nil), channel("a", "x")},
		[]Row{channel("a", "y"), channel("b", nil)},
		[]Row{channel("a", "x"), channel("b", "")})
	want := []string{`"a"|"x"|1|`, `"a"|"x"|3|`, `"a"|"y"|2|`, `"b"|""|3|`, `"b"|<nil>|1|`}
	for _, batches := range [][]int64{{3}, {1, 3}, {1, 2, 3}} {
		got := k.tell(t, j, schema.ChannelsHistory, []string{"channel_id", "title", sinks.ResponseID}, batches...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches %v (-want +got):\n%s", batches, diff)
		}
	}
}

// runs are rows of an operations table; a status tells versions of a row apart.
func runs(mark int64, status ...string) sinks.Ops {
	var rows []Row
	for i, s := range status {
		row := variant(schema.OpsRuns, i)
		row["id"], row["status"] = mark+1+int64(i), s
		rows = append(rows, row)
	}
	return sinks.Ops{Part: schema.Part{Table: schema.OpsRuns, Rows: Record(schema.OpsRuns.Schema(), rows)}}
}

// Runs are the runs above the mark up to hi, of which those up to final are final.
func Runs(mark, hi, final int64) sinks.Ops {
	var rows []Row
	for id := mark + 1; id <= hi; id++ {
		row := variant(schema.OpsRuns, int(id))
		row["id"] = id
		rows = append(rows, row)
	}
	return sinks.Ops{Part: schema.Part{Table: schema.OpsRuns, Rows: Record(schema.OpsRuns.Schema(), rows)}, Mark: final}
}

func operations(t *testing.T, k Sink) {
	dir := t.TempDir()
	s := k.Open(t, dir)
	defer func() { closeSink(t, s) }()
	var final []Row // rows that must stay as they are
	for _, step := range []struct {
		told []string // statuses of the rows above the mark
		mark int64    // afterwards
	}{
		{[]string{"open"}, 0},
		{[]string{"open", "open", "ok"}, 0},
		{[]string{"ok", "open", "ok"}, 1},
		{[]string{"failed", "ok", "open", "open"}, 3},
		{[]string{"ok", "ok"}, 5},
		{nil, 5},
	} {
		before, err := s.OpsMark(t.Context(), schema.OpsRuns)
		if err != nil {
			t.Fatal(err)
		}
		told := runs(before, step.told...)
		told.Mark = step.mark
		publish(t, s, told)
		all := Rows(told.Part.Rows)
		if diff := cmp.Diff(lines(slices.Concat(final, all)), lines(k.rows(t, dir, schema.OpsRuns))); diff != "" {
			t.Errorf("told %v above %d (-want +got):\n%s", step.told, before, diff)
		}
		final = append(final, all[:step.mark-before]...)
		told.Part.Rows.Release()
		closeSink(t, s)
		s = k.Open(t, dir)
		if mark, err := s.OpsMark(t.Context(), schema.OpsRuns); err != nil || mark != step.mark {
			t.Errorf("mark = %d, %v; want %d", mark, err, step.mark)
		}
	}
}

func markBack(t *testing.T, k Sink) {
	s := k.Open(t, t.TempDir())
	defer closeSink(t, s)
	told := runs(0, "ok", "ok")
	defer told.Part.Rows.Release()
	told.Mark = 2
	publish(t, s, told)
	told.Mark = 1
	if err := s.Publish(t.Context(), []sinks.Ops{told}); err == nil {
		t.Error("mark 1 was accepted after 2")
	}
}

func partsSurvive(t *testing.T, k Sink) {
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
