package sinktest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
)

// perVideo is the number of rows per video in each table. As in practice, most rows are lines of
// transcripts, and most columns are in tables with few rows.
var perVideo = map[string]int{
	"outliers": 4, "outliers_history": 5, "videos": 1, "videos_history": 2, "comments": 20, "comment_counts": 1,
	"comment_counts_history": 1, "transcripts": 1, "transcript_events": 150, "channel_uploads": 8,
	"channel_uploads_history": 9, "channels": 1, "channels_history": 1, "channel_statistics": 1,
	"channel_statistics_history": 1,
}

// WarehouseAnswer is the approximate size of one answer of [Warehouse] in a DuckDB file, in bytes.
const WarehouseAnswer = 13_000

// Warehouse returns the answers (lo, hi]. Each has all data of one video: about 200 rows in 15 tables.
// All keys are new.
func Warehouse(lo, hi int64) sinks.Batch { return random(lo, hi, perVideo) }

// Hits returns the answers (lo, hi] as search pages of 40 hits each, all of new videos.
func Hits(lo, hi int64) sinks.Batch {
	return random(lo, hi, map[string]int{"outliers": 40, "outliers_history": 40})
}

// random returns answers with a number of rows in each table.
func random(lo, hi int64, each map[string]int) sinks.Batch {
	b := sinks.Batch{Lo: lo, Hi: hi}
	for _, t := range schema.Tables() {
		if n := each[t.Name]; n > 0 {
			b.Parts = append(b.Parts, schema.Part{Table: t, Rows: randomRows(t, lo, hi, n)})
		}
	}
	return b
}

// randomRows returns a record with n rows per answer.
func randomRows(t *schema.Table, lo, hi int64, n int) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(uint64(lo), uint64(len(t.Name))))
	var rows [][]any
	for id := lo + 1; id <= hi; id++ {
		for at := range n {
			var row []any
			for i, f := range t.Schema().Fields() {
				var value any
				switch {
				case f.Name == sinks.ResponseID:
					value = id
				case f.Name == sinks.ObservedAt:
					value = start.Add(time.Duration(id) * time.Second)
				case f.Name == "position":
					value = int64(at)
				case len(t.Key) > 0 && f.Name == t.Key[0] && len(t.Identity()) == 1 && t.Kind != schema.Current:
					value = fmt.Sprintf("vid%08x", id)
				case len(t.Key) > 0 && f.Name == t.Key[0]:
					value = fmt.Sprintf("v%07x%03x", id, at)
				case i < len(t.Columns) && t.Columns[i].JSON:
					value = fmt.Sprintf(`{"n": %d}`, r.IntN(1000))
				case t.Repeats(f.Name) && f.Type.ID() == arrow.STRING:
					value = fmt.Sprintf("%s %d", words[r.IntN(len(words))], r.IntN(20))
				default:
					value = randomValue(f.Type, r)
				}
				row = append(row, value)
			}
			rows = append(rows, row)
		}
	}
	return record(t.Schema(), rows)
}

// randomValue returns a random value of a type that compresses about as well as real ones.
func randomValue(t arrow.DataType, r *rand.Rand) any {
	switch t := t.(type) {
	case *arrow.StringType:
		return sentence(r)
	case *arrow.Int64Type:
		return r.Int64N(1 << 20)
	case *arrow.Float64Type:
		return r.Float64() * 100
	case *arrow.BooleanType:
		return r.IntN(2) == 0
	case *arrow.TimestampType:
		return start.Add(-time.Duration(r.IntN(1e9)) * time.Millisecond)
	case *arrow.StructType:
		var values []any
		for _, f := range t.Fields() {
			values = append(values, randomValue(f.Type, r))
		}
		return values
	}
	return nil
}

var words = strings.Fields("the water has to boil before you add noodles and then we wait for it slowly")

func sentence(r *rand.Rand) string {
	text := make([]byte, 0, 48)
	for range 5 + r.IntN(4) {
		text = append(append(text, words[r.IntN(len(words))]...), ' ')
	}
	return string(fmt.Appendf(text, "%x", r.Uint32()))
}
