// Package schema declares the tables: their columns, the path of every value in the service's JSON,
// and the conversion of answers to Arrow records.
//
// A table is data, one line per column. The Arrow field, the DDL of the sinks, the decoding
// ([Decoder]) and the reference ([Markdown]) are derived from that line.
package schema

import (
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/outlier"
)

// Kind says how a sink stores a table.
type Kind int

const (
	// Current holds one row per key, the last observation. The sink adds the columns first_seen_at,
	// last_seen_at and times_seen, and for some tables a value from an earlier day (see
	// [Table.Stored]).
	Current Kind = iota
	// History is append-only and contains every observation: one row per key and answer.
	History
	// Changes is a History without repetitions: a row is stored only if it is the first of its key,
	// or if at least one of [Table.Columns] differs (null equals null) from the last stored row of
	// the key. Lineage is not compared.
	Changes
	// Children are the rows of a parent; a new observation of the parent replaces all of them, even
	// if it has none. Key[0] is the parent's id.
	Children
	// Once is append-only, for entities that are fetched once; if Key[0] is fetched again, the sink
	// replaces all of its rows.
	Once
	// Log is append-only.
	Log
)

// String returns the kind's name in the reference.
func (k Kind) String() string {
	return [...]string{"current", "history", "changes", "children", "once", "log"}[k]
}

// Column is one line of a table: its name, its type, the path of its value in the JSON, and its
// meaning.
type Column struct {
	Name string
	Type arrow.DataType

	// Path is dotted and starts at the row's object: "snippet.title". With "../" in front it starts
	// at the parent row's object, with "/" at the whole answer. It is "" if the value is not in the
	// JSON.
	Path    string
	Comment string
	JSON    bool // text that holds JSON: type JSON in DuckDB

	bare string // the find_by of scans in which a plain number may stand for the object around the value; "" for none

	// How to produce a value without a path; if it is nil, it is the source's of that name, see [Source.values].
	computed func(s *Source, r *row, of []any) any // from the other values of its row
	of       []string                              // the columns that computed reads
}

// Place is the location of rows in the answers of an operation: the path of an object, or with "[]"
// of the elements of an array, below another place's row or the top. "" is the answer itself, and
// "*[]" the elements of an answer of any shape.
type Place struct {
	Op   outlier.Operation
	Path string
}

// Table is the declaration from which the Arrow schema, the sinks' DDL, the decoding and the
// reference in docs/tables.md are derived.
type Table struct {
	Name    string // as in design: "outliers", "outliers_history", "ops.runs"
	Kind    Kind
	Key     []string // columns that identify a row, except in a Log
	Columns []Column // without lineage
	Comment string
	Rows    []Place // locations of the rows; empty for projections, "missing" and ops
	History *Table  // for a Current table: the table of every observation; nil if there is none
	Of      *Table  // the table of which it is a projection with some of the columns; nil for most
	Grows   string  // for a Current table: the BIGINT column whose growth it shows; "" if none

	lineage []Column
	schema  func() *arrow.Schema
	stored  func() *arrow.Schema
}

// define completes a declaration with the lineage columns at the end.
func define(t Table, lineage []Column) *Table {
	t.lineage = lineage
	t.schema = sync.OnceValue(func() *arrow.Schema { return schemaOf(t.Columns, lineage) })
	t.stored = sync.OnceValue(func() *arrow.Schema { return schemaOf(t.All()) })
	return &t
}

// defineCurrent defines the table with the last row of each key of a history. grows is its [Table.Grows].
func (t *Table) defineCurrent(name, grows string, columns []Column, comment string) *Table {
	return define(Table{Name: name, Kind: Current, Key: t.Key, Columns: columns, Comment: comment, History: t, Grows: grows}, t.lineage)
}

// CommentKey is the key of a column's comment in the metadata of its Arrow field.
const CommentKey = "comment"

func schemaOf(columns ...[]Column) *arrow.Schema {
	var fields []arrow.Field
	for _, c := range slices.Concat(columns...) {
		comment := arrow.NewMetadata([]string{CommentKey}, []string{c.Comment})
		fields = append(fields, arrow.Field{Name: c.Name, Type: c.Type, Nullable: true, Metadata: comment})
	}
	return arrow.NewSchema(fields, nil)
}

// Schema returns the schema of decoded rows: the declared columns and the lineage.
func (t *Table) Schema() *arrow.Schema { return t.schema() }

// Stored returns the schema in a sink: [Table.Schema] and the columns that the warehouse computes. Rows that are
// replaced have the number of the first answer about their identity, rows of operations tables their version (see
// [Table.Placing]). A Current table also has first_seen_at and last_seen_at (the first and last observed_at of the key)
// and times_seen (the number of observations). A table with [Table.Grows] also has previous_seen_at and
// previous_<column>, from the last observation before the UTC day on which the key was last observed. Several searches
// of one run, which return the same number, are thus one step of growth. The columns are NULL until there is such a
// step.
func (t *Table) Stored() *arrow.Schema { return t.stored() }

// FileName returns the table's folder name in Parquet: "ops_runs" for "ops.runs".
func (t *Table) FileName() string { return strings.ReplaceAll(t.Name, ".", "_") }

// Identity returns the columns by which rows replace one another: all stored rows with the same
// values are deleted when a later answer has these values. It is nil for append-only tables.
func (t *Table) Identity() []string {
	switch t.Kind {
	case Current:
		return t.Key
	case Children, Once:
		return t.Key[:1]
	}
	return nil
}

// repeating are the text columns with few distinct values, unlike titles, URLs and texts.
var repeating = []string{
	"_run_id", "_job", "kind", "language", "default_language", "default_audio_language", "category_id", "quality",
	"source", "item", "queries", "seeds", "scan_id", "content_kind", "find_by", "mode", "endpoint", "reason",
	"channel_id", "channel_title", "channel_handle",
	"run_id", "job", "trigger", "status", "operation", "outcome", "day", "month", "stop_reason", "config_hash",
}

// Repeats reports whether a text column has few distinct values, so that a sink should use a
// dictionary. A parent's id repeats in all rows of its children.
func (t *Table) Repeats(column string) bool {
	if len(t.Key) > 1 && column == t.Key[0] {
		return true
	}
	return slices.Contains(repeating, column) && !slices.Equal(t.Key, []string{column})
}

// Part is rows of one table. The receiver of a Part releases it.
type Part struct {
	Table *Table
	From  *Table            // the table for which the rows were decoded; nil for Table
	Rows  arrow.RecordBatch // with the columns of From

	// Gone are identities ([Table.Identity]), each with the _response_id of an answer that deletes
	// their older rows without adding any: a video no longer has comments, or a missing entity was
	// found. It is nil if there are none.
	Gone arrow.RecordBatch
}

// Release releases the records of a part.
func (p Part) Release() {
	p.Rows.Release()
	if p.Gone != nil {
		p.Gone.Release()
	}
}
