package sinks_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
	"outlierd/sinks/warehouse"
)

// line is a warehouse with both copies.
type line struct {
	*warehouse.Warehouse
	file, folder string
	copies       []sinks.Copy
}

func newLine(t *testing.T, tables, ops []*schema.Table) *line {
	dir := t.TempDir()
	l := &line{file: filepath.Join(dir, "outliers.duckdb"), folder: filepath.Join(dir, "parquet")}
	o := sinktest.Options(dir)
	o.Tables, o.Ops = tables, ops
	l.Warehouse = warehouse.New(o)
	files := parquet.New(l.Warehouse, parquet.Options{Dir: l.folder, Tables: tables, Ops: ops})
	l.copies = []sinks.Copy{files, duckdb.New(l.Warehouse, l.file, o.Temp)}
	t.Cleanup(func() { files.Close(); l.Close() })
	return l
}

// write writes a batch and publishes it.
func (l *line) write(t *testing.T, b sinks.Batch) {
	t.Helper()
	defer sinktest.Release(b)
	if err := l.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, c := range l.copies {
		if err := c.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares what readers of the copies find, and returns it. Each copy is also compared with the model, by
// package sinktest.
func (l *line) check(t *testing.T, table *schema.Table) []sinktest.Row {
	t.Helper()
	rows := sinktest.QueryFile(t, table, l.file)
	found := sinktest.Query(t, table, "read_parquet("+database.Text(filepath.Join(l.folder, table.FileName(), "**", "*.parquet"))+")")
	if diff := cmp.Diff(lines(rows), lines(found)); diff != "" || len(rows) == 0 {
		t.Errorf("table %s in the file and in the folder, %d rows (-file +folder):\n%s", table.Name, len(rows), diff)
	}
	return rows
}

func lines(rows []sinktest.Row) (all []string) {
	for _, row := range rows {
		all = append(all, fmt.Sprint(row))
	}
	slices.Sort(all)
	return all
}

func TestCopiesHaveTheSameRows(t *testing.T) {
	l, j := newLine(t, sinktest.Tables(), sinktest.Ops()), sinktest.Sample(40)
	for lo := int64(0); lo < 40; lo += 10 {
		if err := l.WriteOps(t.Context(), sinktest.Runs(lo, lo+10)); err != nil {
			t.Fatal(err)
		}
		l.write(t, j.Batch(lo, lo+10))
	}
	for _, table := range append(sinktest.Tables(), schema.OpsRuns) {
		l.check(t, table)
	}
}

const video, channel = "dQw4w9WgXcQ", "UCaaaaaaaaaaaaaaaaaaaaaa"

// repeating has answers that list items twice, and several answers about the same items.
var repeating = []struct {
	op   outlier.Operation
	id   string
	body string
}{
	{outlier.OpTranscript, video, twice(`{"id":"` + video + `","events":[{"startMs":1,"text":"a"},{"startMs":2,"text":"b"}],"transcript":"a b"}`)},
	{outlier.OpTranscript, video, twice(`{"id":"` + video + `","events":[{"startMs":1,"text":"a"}],"transcript":"a"}`)},
	{outlier.OpComments, video, twice(`{"id":"` + video + `","comments":[{"text":"x"},{"text":"x"},{"text":"y","likesCount":1},{"text":"y","likesCount":2}]}`)},
	{outlier.OpComments, video, twice(`{"id":"` + video + `","comments":[{"text":"x"},{"text":"x"}]}`)},
	{outlier.OpDetails, video, twice(`{"id":"` + video + `","snippet":{"title":"t"}}`)},
	{outlier.OpSearch, "", strings.Replace(twice(`{"id":"`+video+`","snippet":{"title":"t"}}`), "items", "hits", 1)},
	{outlier.OpSearch, "", strings.Replace(twice(`{"id":"`+video+`","snippet":{"title":"u"}}`), "items", "hits", 1)},
	{outlier.OpFindChannels, "", strings.Replace(twice(`{"id":"`+channel+`"}`), "items", "hits", 1)},
	{outlier.OpChannelVideos, channel, `{"id":"` + channel + `","item":{"id":"` + channel + `","videos":[{"id":"` + video + `"},{"id":"` + video + `"}],"statistics":{}}}`},
	{outlier.OpTranscript, video, twice(`{"id":"` + video + `","events":[{"startMs":1,"text":"c"},{"startMs":2,"text":"d"}],"transcript":"c d"}`)},
	{outlier.OpComments, video, twice(`{"id":"` + video + `","comments":[{"text":"z"},{"text":"z"}]}`)},
}

func twice(item string) string { return `{"items":[` + item + `,` + item + `]}` }

// TestKeysAreUniqueForRepeatedItems: a key has one row, in histories one row per answer, although answers list items
// twice.
func TestKeysAreUniqueForRepeatedItems(t *testing.T) {
	for _, answers := range []int{1, 3, len(repeating)} {
		l, d := newLine(t, schema.Tables(), schema.OpsTables()), schema.NewDecoder(memory.DefaultAllocator)
		for lo := 0; lo < len(repeating); lo += answers {
			hi := min(lo+answers, len(repeating))
			for i, a := range repeating[lo:hi] {
				source := schema.Source{Response: int64(lo + i + 1), Run: "run", Job: "job", Op: a.op, Entity: a.id, Kind: "search",
					ObservedAt: time.Date(2026, 3, 1, 12, lo+i, 0, 0, time.UTC)}
				if err := d.Decode(source, []byte(a.body)); err != nil {
					t.Fatal(err)
				}
			}
			l.write(t, sinks.Batch{Lo: int64(lo), Hi: int64(hi), Parts: d.Take()})
		}
		for _, table := range schema.Tables() {
			if table == schema.Scans || table == schema.TrendingFormats || table == schema.Missing {
				continue // no answer here has rows of these
			}
			columns := slices.Clone(table.Key)
			if table.Kind == schema.History || table.Kind == schema.Changes {
				columns = append(columns, sinks.ResponseID)
			}
			keys := map[string]bool{}
			for _, row := range l.check(t, table) {
				var key []any
				for _, column := range columns {
					key = append(key, row[column])
				}
				if text := fmt.Sprintf("%q", key); keys[text] {
					t.Errorf("table %s has several rows of %s", table.Name, text)
				} else {
					keys[text] = true
				}
			}
		}
	}
}
