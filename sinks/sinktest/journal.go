package sinktest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
)

// Tables returns tables of all kinds that are derived from the journal, with keys of one and of two
// columns. Together they have all column types except maps.
func Tables() []*schema.Table {
	return []*schema.Table{
		schema.Outliers, schema.OutliersHistory, schema.ChannelUploads, schema.ChannelsHistory,
		schema.Comments, schema.Transcripts, schema.TranscriptEvents, schema.Scans, schema.TrendingFormats, schema.Missing,
	}
}

// Ops returns two operations tables, one of them with a map.
func Ops() []*schema.Table { return []*schema.Table{schema.OpsRuns, schema.OpsLimits} }

// Row is a row: column → value. Times are time.Time in UTC, lists []any, structs map[string]any, and
// maps map[string]int64. A missing column is NULL.
type Row = map[string]any

// Answer has the decoded rows of one answer of the journal.
type Answer struct {
	ID   int64
	At   time.Time
	Rows map[*schema.Table][]Row
	Gone map[*schema.Table][]Row // identities whose older rows are deleted
}

func answer(id int64, at time.Time) Answer {
	return Answer{id, at, map[*schema.Table][]Row{}, map[*schema.Table][]Row{}}
}

// Journal is a list of answers with the ids 1, 2, 3 …
type Journal []Answer

// Batch returns the rows of the answers (lo, hi]. The caller releases its parts.
func (j Journal) Batch(lo, hi int64) sinks.Batch {
	b := sinks.Batch{Lo: lo, Hi: hi}
	for _, table := range Tables() {
		var rows, gone []Row
		for _, a := range j[lo:hi] {
			rows, gone = append(rows, a.Rows[table]...), append(gone, a.Gone[table]...)
		}
		part := schema.Part{Table: table}
		if len(gone) > 0 {
			part.Gone = Record(identity(table), gone)
		}
		if len(rows) > 0 || part.Gone != nil {
			part.Rows = Record(table.Schema(), rows)
			b.Parts = append(b.Parts, part)
		}
	}
	return b
}

// Only returns a copy of the journal with the rows of these tables only.
func (j Journal) Only(tables ...*schema.Table) Journal {
	less := slices.Clone(j)
	for i, a := range j {
		less[i] = answer(a.ID, a.At)
		for _, table := range tables {
			less[i].Rows[table], less[i].Gone[table] = slices.Clone(a.Rows[table]), a.Gone[table]
		}
	}
	return less
}

// Release releases the parts of a batch.
func Release(b sinks.Batch) {
	for _, part := range b.Parts {
		part.Release()
	}
}

// add adds a row to the answer, with the lineage columns of its table.
func (a *Answer) add(table *schema.Table, row Row) {
	lineage := Row{"_run_id": "run", "_job": "job", sinks.ResponseID: a.ID, sinks.ObservedAt: a.At}
	for name, v := range lineage {
		if table.Schema().HasField(name) {
			row[name] = v
		}
	}
	a.Rows[table] = append(a.Rows[table], row)
}

// identity returns the schema of Gone in [schema.Part].
func identity(table *schema.Table) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range table.Schema().Fields() {
		if slices.Contains(table.Identity(), f.Name) || f.Name == sinks.ResponseID {
			fields = append(fields, f)
		}
	}
	return arrow.NewSchema(fields, nil)
}

// delete deletes the older rows of an identity.
func (a *Answer) delete(table *schema.Table, identity Row) {
	identity[sinks.ResponseID] = a.ID
	a.Gone[table] = append(a.Gone[table], identity)
}

// deleteSome deletes the older rows of random identities without a row in the answer.
func (a *Answer) deleteSome(table *schema.Table, pick func(n int) int) {
	if table != schema.Comments && table != schema.Missing {
		return
	}
	for range pick(3) {
		row := Row{table.Key[0]: keys[pick(len(keys))]}
		if len(table.Identity()) > 1 {
			row[table.Key[1]] = second(table, pick(4))
		}
		same := func(other Row) bool { return key(other, table.Identity()) == key(row, table.Identity()) }
		if !slices.ContainsFunc(a.Rows[table], same) {
			a.delete(table, row)
		}
	}
}

// Generate returns a journal of n answers in which keys and parents are repeated often. pick returns a
// number in [0, n).
func Generate(n int, pick func(n int) int) Journal {
	var j Journal
	for i := range n {
		a := answer(int64(i+1), start.Add(time.Duration(i)*7*time.Minute))
		tables := Tables()
		if pick(8) == 0 {
			tables = nil // an answer without rows moves the watermark alone
		}
		for _, table := range tables {
			parent := keys[pick(len(keys))]
			for k := range pick(4) {
				row := rowVariant(table, pick(4))
				if identity := table.Identity(); len(identity) == len(table.Key) || identity == nil {
					parent = keys[pick(len(keys))]
				}
				row[table.Key[0]] = parent
				if len(table.Key) > 1 {
					row[table.Key[1]] = second(table, k)
				}
				a.add(table, row)
			}
			a.deleteSome(table, pick)
		}
		j = append(j, a)
	}
	return j
}

// Sample returns a pseudo-random journal of n answers, which depends on n only.
func Sample(n int) Journal {
	return Generate(n, rand.New(rand.NewPCG(1, uint64(n))).IntN)
}

// start is the time of the first answer, late enough that a journal of twenty answers spans two dates.
var start = time.Date(2026, 3, 1, 23, 0, 0, 123_000, time.UTC)

// keys are ids, some of them hostile, since ids come from the service.
var keys = []any{"v1", "v2", "it's", `"; DROP TABLE outliers; --`, "nul\x00", "🎬"}

func second(table *schema.Table, k int) any {
	if at := table.Schema().FieldIndices(table.Key[1])[0]; table.Schema().Field(at).Type.ID() == arrow.INT64 {
		return int64(k)
	}
	return keys[k]
}

// rowVariant returns a row with a value in every column, which depends on n only.
func rowVariant(table *schema.Table, n int) Row {
	row := Row{}
	for i, c := range table.Columns {
		pool := values(c.Type)
		if c.JSON {
			pool = documents
		}
		if v := pool[(n*5+i)%len(pool)]; v != nil {
			row[c.Name] = v
		}
	}
	return row
}

var (
	texts = []any{"plain", nil, "", "it's \"quoted\"", "'; drop table outliers; --", "nul\x00inside",
		"🎬👩‍👩‍👧 漢字 \u202eright to left", "line\nbreak\ttab\\", "%s {} $1 NULL", strings.Repeat("long ", 2000)}
	documents = []any{`{}`, nil, `{"a'b": [1, 2.5, null, "🎬"]}`, `"text"`, `[{"x": "\u0000"}]`}
	integers  = []any{int64(0), nil, int64(-1), int64(1<<53 + 1), int64(math.MaxInt64), int64(math.MinInt64)}
	numbers   = []any{0.0, nil, -1.5, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1)}
	booleans  = []any{true, nil, false}
	times     = []any{time.UnixMicro(0).UTC(), nil, time.Date(1899, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		time.Date(2100, 2, 28, 1, 2, 3, 4_000, time.UTC)}
)

// values returns test values of a type, including null.
func values(t arrow.DataType) []any {
	switch t := t.(type) {
	case *arrow.StringType:
		return texts
	case *arrow.Int64Type:
		return integers
	case *arrow.Float64Type:
		return numbers
	case *arrow.BooleanType:
		return booleans
	case *arrow.TimestampType:
		return times
	case *arrow.MapType:
		return []any{map[string]int64{}, nil, map[string]int64{"a": 1, "it's": -2}}
	case *arrow.ListType:
		pool := values(t.Elem())
		return []any{[]any{}, nil, slices.Clone(pool), []any{pool[0]}}
	case *arrow.StructType:
		empty, full := Row{}, Row{}
		for i, f := range t.Fields() {
			pool := values(f.Type)
			empty[f.Name], full[f.Name] = nil, pool[(i+2)%len(pool)]
		}
		return []any{full, nil, empty}
	}
	panic(fmt.Sprintf("sinktest: no values of type %v", t))
}

// Record converts rows to an Arrow record.
func Record(to *arrow.Schema, rows []Row) arrow.RecordBatch {
	var all [][]any
	for _, row := range rows {
		all = append(all, ordered(to.Fields(), row))
	}
	return record(to, all)
}

func record(to *arrow.Schema, rows [][]any) arrow.RecordBatch {
	batch, err := schema.NewRecord(to, rows)
	if err != nil {
		panic(err)
	}
	return batch
}

// ordered returns the values of a row as package schema wants them: in the order of the columns.
func ordered(fields []arrow.Field, row Row) (values []any) {
	for _, f := range fields {
		values = append(values, orderedValue(f.Type, row[f.Name]))
	}
	return values
}

func orderedValue(t arrow.DataType, v any) any {
	switch v := v.(type) {
	case Row:
		return ordered(t.(*arrow.StructType).Fields(), v)
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, orderedValue(t.(*arrow.ListType).Elem(), e))
		}
		return list
	}
	return v
}
