// Package sinks defines the interface of sinks, which store the tables.
//
// A sink is a projection of the journal: its content is derived from the journal's answers and the
// decoder alone. Its watermark, the id of the last answer it contains, is committed atomically with
// the rows. So a sink that was locked, full, killed or is new catches up by itself, and no answer
// is applied twice.
package sinks

import (
	"context"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
)

// Batch contains the rows of the answers (Lo, Hi] of the journal.
type Batch struct {
	Lo, Hi int64
	Parts  []schema.Part // at most one per table; rows in the order of the journal
}

// Ops are the changes of the operations tables, which are derived from the state and not from the
// journal. Their rows are numbered by their first column, and any row may change at any time. The
// state numbers the changes: the number of the last one is the version of all tables.
type Ops struct {
	Since   int64 // the version that the sink has
	Version int64 // the version after the changes
	All     bool  // the changes are all existing rows; other rows of the sink are deleted

	// Batches are the changed rows, each of which replaces the row with its number. The ids of a
	// table ascend, also from one batch to the next. A batch is valid until the next one; a sink
	// may iterate more than once.
	Batches iter.Seq2[OpsBatch, error]
}

// OpsBatch is a part of the changes.
type OpsBatch struct {
	Parts []schema.Part // at most one per table
	Last  bool          // no other batch follows
}

// Sink stores tables. It is used by one goroutine at a time.
type Sink interface {
	// Name is the sink's name in jobs.yaml, in messages and in commands: "duckdb".
	Name() string

	// Watermark returns the id of the last answer of which the sink contains all rows; 0 for a new
	// sink. It is read from the sink itself.
	Watermark(ctx context.Context) (int64, error)

	// Write stores b durably and atomically before it returns nil. It refuses a batch whose Lo is
	// not the sink's watermark. After an error the sink contains all of b or nothing; the caller
	// must call Watermark before it tries again. Write does not release b's parts.
	Write(ctx context.Context, b Batch) error

	// OpsVersion returns the version of the operations tables in the sink; 0 for a new sink.
	OpsVersion(ctx context.Context) (int64, error)

	// Publish makes everything written so far visible to readers, together with ops; nil means no
	// changes. Changes that are not all rows and do not follow the sink's version are refused.
	// After an error the sink may have some of the changes, but not their version, so that they are
	// sent again.
	Publish(ctx context.Context, ops *Ops) error

	// Close releases all resources. Unpublished rows stay durable.
	Close() error
}

// Adopter is a sink whose current tables can be replaced, such as by rows of another sink.
type Adopter interface {
	Sink

	// Adopt replaces all rows of a Current or Children table, in the columns of
	// [schema.Table.Stored], and leaves the watermark unchanged. The table must have no unpublished
	// rows. each yields the rows.
	Adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error
}
