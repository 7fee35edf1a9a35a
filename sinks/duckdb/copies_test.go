package duckdb_test

import (
	"errors"
	"fmt"
	"os"
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
	options      warehouse.Options
	file, folder string
	copies       []sinks.Copy
}

func newLine(t *testing.T, tables, ops []*schema.Table) *line {
	dir := t.TempDir()
	l := &line{file: filepath.Join(dir, "outliers.duckdb"), folder: filepath.Join(dir, "parquet")}
	l.options = sinktest.Options(dir)
	l.options.Tables = slices.Concat(tables, ops)
	l.Warehouse = warehouse.New(l.options)
	l.open()
	t.Cleanup(func() { l.Close() })
	return l
}

// open opens the copies.
func (l *line) open() {
	files := parquet.Options{Dir: l.folder}
	l.copies = []sinks.Copy{parquet.New(l.Warehouse, files), duckdb.New(l.Warehouse, l.file, l.options.Temp)}
}

// Close closes the copies and the warehouse.
func (l *line) Close() (err error) {
	for _, c := range l.copies {
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, l.Warehouse.Close())
}

// write writes a batch and publishes it.
func (l *line) write(t *testing.T, b sinks.Batch) {
	t.Helper()
	defer sinktest.Release(b)
	if err := l.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	l.publish(t)
}

func (l *line) publish(t *testing.T) {
	t.Helper()
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
	for _, answers := range []int{1, len(repeating)} {
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
			b := sinks.Batch{Lo: int64(lo), Hi: int64(hi), Parts: d.Take()}
			err := l.Write(t.Context(), b)
			sinktest.Release(b)
			if err != nil {
				t.Fatal(err)
			}
		}
		l.publish(t)
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

// TestLostWarehouseIsRefilled: the journal no longer has the answers, so the rows come from a copy, also those that
// later answers continue.
func TestLostWarehouseIsRefilled(t *testing.T) {
	for _, name := range []string{"file", "folder"} {
		t.Run(name, func(t *testing.T) {
			l, j := newLine(t, sinktest.Tables(), sinktest.Ops()), sinktest.Sample(40)
			l.write(t, j.Batch(0, 20))
			l.write(t, j.Batch(20, 30))
			l.lose(t, l.older(name))
			if err := l.Refill(t.Context(), 31, upTo(31)); err == nil || !strings.Contains(err.Error(), "up to 30") {
				t.Errorf("refill with more than the copy has: %v", err)
			}
			if err := l.Refill(t.Context(), 30, upTo(29)); err == nil || !strings.Contains(err.Error(), "up to 29") {
				t.Errorf("refill from a copy whose last answer is another one: %v", err)
			}
			if err := l.Refill(t.Context(), 30, upTo(30)); err != nil {
				t.Fatal(err)
			}
			l.write(t, j.Batch(30, 40))
			for _, table := range sinktest.Tables() {
				want, got := j.Want(table, 40), l.check(t, table)
				for _, row := range append(want, got...) { // rows that were deleted and come back begin anew
					delete(row, schema.FirstResponseID)
				}
				if diff := sinktest.Diff(want, got); diff != "" {
					t.Errorf("table %s (-want +got):\n%s", table.Name, diff)
				}
			}
		})
	}
}

// TestRefillKeepsFirstSightings: histories that the job file cuts short no longer say when a key was first seen.
func TestRefillKeepsFirstSightings(t *testing.T) {
	for _, name := range []string{"file", "folder"} {
		t.Run(name, func(t *testing.T) {
			hits := []*schema.Table{schema.Outliers, schema.OutliersHistory}
			l, j := newLine(t, hits, nil), sinktest.Sample(40).Only(hits...)
			l.write(t, j.Batch(0, 20))
			if err := l.Omit(t.Context(), sinks.Omitted{UpTo: map[string]int64{"outliers_history": 15}}); err != nil {
				t.Fatal(err)
			}
			l.write(t, j.Batch(20, 40))
			l.lose(t, l.older(name))
			if err := l.Refill(t.Context(), 20, upTo(40)); err != nil {
				t.Fatal(err)
			}
			has, err := l.Marks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.write(t, j.Batch(has.Answers, 40))
			want, got := j.Want(schema.Outliers, 40), l.check(t, schema.Outliers)
			if diff := sinktest.Diff(want, got); diff != "" {
				t.Errorf("table outliers (-want +got):\n%s", diff)
			}
		})
	}
}

// upTo says that all copies have the answers of the journal up to one.
func upTo(answer int64) func(sinks.Marks) int64 {
	return func(sinks.Marks) int64 { return answer }
}

// older returns one of the copies.
func (l *line) older(name string) warehouse.Older {
	if name == "file" {
		return warehouse.Published(l.file)
	}
	return parquet.Older(l.folder, l.options.Tables)
}

// lose removes the warehouse. A new one, which can be refilled from copies, takes its place.
func (l *line) lose(t *testing.T, refilledFrom ...warehouse.Older) {
	t.Helper()
	if err := errors.Join(l.Close(), os.Remove(l.options.Path)); err != nil {
		t.Fatal(err)
	}
	l.options.Older = refilledFrom
	l.Warehouse = warehouse.New(l.options)
	l.open()
}

// TestChangedPartsRefillNothing: rows that somebody edited are not those of paid answers. The next copy is taken.
func TestChangedPartsRefillNothing(t *testing.T) {
	l, j := newLine(t, sinktest.Tables(), sinktest.Ops()), sinktest.Sample(10)
	l.write(t, j.Batch(0, 10))
	parts, err := filepath.Glob(filepath.Join(l.folder, schema.Outliers.Name, "*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("parts %v, %v", parts, err)
	}
	text, err := os.ReadFile(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2]++
	if err := errors.Join(os.Remove(parts[0]), os.WriteFile(parts[0], text, 0o644)); err != nil {
		t.Fatal(err)
	}
	l.lose(t, l.older("folder"))
	if err := l.Refill(t.Context(), 10, upTo(10)); err == nil || !strings.Contains(err.Error(), filepath.Base(parts[0])+" is damaged") {
		t.Errorf("refill from a changed part: %v", err)
	}
	if has, err := l.Marks(t.Context()); err != nil || has.Answers != 0 {
		t.Errorf("the warehouse has %+v, %v", has, err)
	}
	l.lose(t, l.older("folder"), l.older("file"))
	if err := l.Refill(t.Context(), 10, upTo(10)); err != nil {
		t.Error(err)
	}
}

// TestChangedFileRefillsNothing, and a damaged one: neither has the rows of paid answers, nor is the warehouse to
// blame.
func TestChangedFileRefillsNothing(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string) error{
		"it was changed": func(t *testing.T, path string) error {
			_, err := startDuckDB(t).Exec(t.Context(), "ATTACH "+database.Text(path)+" AS f; UPDATE f.outliers SET title = 'x'; DETACH f")
			return err
		},
		"is damaged": func(_ *testing.T, path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				text[len(text)-100_000]++
				err = os.WriteFile(path, text, 0o644)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, j := newLine(t, sinktest.Tables(), sinktest.Ops()), sinktest.Sample(10)
			l.write(t, j.Batch(0, 5))
			older, err := os.ReadFile(l.options.Path)
			if err != nil {
				t.Fatal(err)
			}
			l.write(t, j.Batch(5, 10))
			l.lose(t, l.older("file"))
			if err := errors.Join(os.Chmod(l.file, 0o644), change(t, l.file), os.WriteFile(l.options.Path, older, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := l.Refill(t.Context(), 10, upTo(10)); err == nil || !strings.Contains(err.Error(), l.file) || !strings.Contains(err.Error(), name) {
				t.Errorf("refill from a changed file: %v", err)
			}
			if has, err := l.Marks(t.Context()); err != nil || has.Answers != 5 {
				t.Errorf("the warehouse has %+v, %v", has, err)
			}
			l.lose(t, l.older("file"), l.older("folder"))
			if err := l.Refill(t.Context(), 10, upTo(10)); err != nil {
				t.Error(err)
			}
		})
	}
}
