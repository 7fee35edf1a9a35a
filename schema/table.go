package schema

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/outlier"
)

// Kind says how a sink keeps a table.
type Kind int

const (
	// Current holds one row per key, the last observation. The sink adds the
	// columns first_seen_at, last_seen_at and times_seen (see CurrentSchema).
	Current Kind = iota
	// History is append-only and holds every observation.
	History
	// Children hold the rows of a parent; a new observation of the parent
	// replaces all of them. Key[0] is the parent's id.
	Children
	// Once is append-only and written once per key (transcripts, which are
	// fetched once); should a key come again, the sink replaces its rows.
	Once
	// Log is append-only.
	Log
)

// Column is one line of a table: its name, its type, where in the JSON its value
// stands, and what it means.
type Column struct {
	Name    string
	Type    arrow.DataType
	Path    string // dotted path below the row's object; "" if the value is not in the JSON
	Comment string
	JSON    bool // text that holds JSON: type JSON in DuckDB
}

// Table is the one declaration from which the Arrow schema, both sinks' DDL, the
// decoding and the reference in docs/tables.md follow.
type Table struct {
	Name    string // as in design: "outliers", "outliers_history", "ops.runs"
	Kind    Kind
	Key     []string // columns that identify a row of a Current, Children or Once table
	Columns []Column
	Comment string
}

// Part is rows of one table. The receiver of a Part releases its Rows.
type Part struct {
	Table *Table
	Rows  arrow.RecordBatch
}

// Source is what the journal knows about an answer and its rows cannot say
// themselves: lineage, and the search that brought the hits.
type Source struct {
	Response   int64 // journal id
	Run        string
	Job        string
	ObservedAt time.Time

	Op       outlier.Operation
	Entity   string   // the id a data endpoint was asked about
	Kind     string   // source of hits: "search", "related" or "scan"
	Queries  []string // of a search
	Seeds    []string // of a related search
	Item     string   // the for_each value
	Page     int      // 0-based page of the search
	RankBase int      // hits of the search before this page
	ScanID   string

	Missing bool      // the service has no such thing: a row of table "missing", no body is decoded
	Status  int       // HTTP status, for table "missing"
	RetryAt time.Time // when a missing thing is asked for again
}
