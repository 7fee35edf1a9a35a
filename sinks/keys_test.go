//go:build duckdb_arrow

package sinks_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/parquet"
	"outlierd/sinks/sinktest"
)

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

// TestSameAsPreviousComparesAdjacentRows: null equals only null, and not the empty text.
func TestSameAsPreviousComparesAdjacentRows(t *testing.T) {
	var rows []sinktest.Row
	for _, id := range []any{nil, nil, "", "", nil, "a", "a", "ab"} {
		for _, position := range []any{nil, int64(1), int64(1), int64(2), nil, nil} {
			rows = append(rows, sinktest.Row{"video_id": id, "position": position})
		}
	}
	record := sinktest.Record(schema.TranscriptEvents.Schema(), rows)
	defer record.Release()
	for _, names := range [][]string{{"video_id"}, {"position"}, {"video_id", "position"}} {
		keys, before := sinks.KeysOf(record, names), ""
		for i := range rows {
			key := string(keys.At(i))
			if got, want := keys.SameAsPrevious(i), i > 0 && key == before; got != want {
				t.Errorf("%v of row %d are again those of the row before: %v, want %v", names, i, got, want)
			}
			before = key
		}
	}
}

// TestKeysAreUniqueForRepeatedItems: a key has one row, in histories one row per answer,
// although answers list items twice.
func TestKeysAreUniqueForRepeatedItems(t *testing.T) {
	for _, answers := range []int{1, 3, len(repeating)} {
		dir := t.TempDir()
		published, folder := filepath.Join(dir, "outliers.duckdb"), filepath.Join(dir, "parquet")
		file, err := duckdb.Open(t.Context(), duckdb.Options{
			Private: filepath.Join(dir, "warehouse.duckdb"), Published: published, Temp: filepath.Join(dir, "tmp"),
			Tables: schema.Tables(), Ops: schema.OpsTables(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files, err := parquet.Open(parquet.Options{Dir: folder, Tables: schema.Tables(), Ops: schema.OpsTables()})
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		load(t, answers, file, files)

		db, err := sql.Open("duckdb", published+"?access_mode=READ_ONLY&threads=1")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, table := range schema.Tables() {
			if table == schema.Scans || table == schema.TrendingFormats || table == schema.Missing {
				continue // no answer here has rows of these
			}
			in := fmt.Sprintf("read_parquet('%s/%s/**/*.parquet')", folder, table.FileName())
			sameRows(t, db, table, in)
			for _, from := range []string{table.Name, in} {
				unique(t, db, table, from)
			}
		}
	}
}

func unique(t *testing.T, db *sql.DB, table *schema.Table, from string) {
	t.Helper()
	key := slices.Clone(table.Key)
	if table.Kind == schema.History || table.Kind == schema.Changes {
		key = append(key, sinks.ResponseID)
	}
	var rows, keys int
	query := fmt.Sprintf("SELECT count(*), count(DISTINCT (%s)) FROM %s", strings.Join(key, ", "), from)
	if err := db.QueryRowContext(t.Context(), query).Scan(&rows, &keys); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if rows != keys {
		t.Errorf("%s: %d rows have %d keys", from, rows, keys)
	}
}

// load decodes the answers in repeating, writes them in batches of the given number of answers, and
// publishes.
func load(t *testing.T, answers int, all ...sinks.Sink) {
	t.Helper()
	d := schema.NewDecoder(memory.DefaultAllocator)
	for lo := 0; lo < len(repeating); lo += answers {
		hi := min(lo+answers, len(repeating))
		for i, a := range repeating[lo:hi] {
			source := schema.Source{Response: int64(lo + i + 1), Run: "run", Job: "job", Op: a.op, Entity: a.id, Kind: "search",
				ObservedAt: time.Date(2026, 3, 1, 12, lo+i, 0, 0, time.UTC)}
			if err := d.Decode(source, []byte(a.body)); err != nil {
				t.Fatal(err)
			}
		}
		batch := sinks.Batch{Lo: int64(lo), Hi: int64(hi), Parts: d.Take()}
		for _, s := range all {
			if err := s.Write(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		sinktest.Release(batch)
	}
	for _, s := range all {
		publish(t, s, 1)
	}
}
