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

// Batch is what the answers (Lo, Hi] of the journal amount to.
type Batch struct {
	Lo, Hi int64
	Parts  []schema.Part // at most one per table; rows in the order of the journal
}

// Ops is the news of the operations tables, which follow the state and not the journal.
// Their rows are numbered by their first column, and any row may change at any time. The
// state numbers the changes: the number of the last one is the version of all tables.
type Ops struct {
	Since   int64 // the version that the sink has
	Version int64 // the version that it has once it holds the news
	All     bool  // the news are all rows that there are; what the sink has beside them goes

	// Batches are the rows that have changed, each of which takes the place of the one
	// with its number. The ids of a table ascend, also from one batch to the next. A
	// batch is valid until the next one is asked for; a sink may ask for all of them again.
	Batches iter.Seq2[OpsBatch, error]
}

// OpsBatch is some of the news.
type OpsBatch struct {
	Parts []schema.Part // at most one per table
	Last  bool          // no other batch follows
}

// Sink keeps tables. It is used by one goroutine at a time.
type Sink interface {
	// Name is the sink's name in jobs.yaml, in messages and in commands: "duckdb".
	Name() string

	// Watermark is the journal id up to which the sink holds everything; 0 for a
	// new sink. It is read from the sink itself.
	Watermark(ctx context.Context) (int64, error)

	// Write makes b durable, whole, before it returns nil. A batch whose Lo is not
	// the sink's watermark is refused. After an error the sink holds all of b or
	// nothing of it; the caller asks Watermark before it tries again.
	// Write does not release b's parts.
	Write(ctx context.Context, b Batch) error

	// OpsVersion is the version of the operations tables that the sink holds; 0 for a
	// new sink.
	OpsVersion(ctx context.Context) (int64, error)

	// Publish lets readers see everything written so far, and ops with it; nil is no
	// news. News that are not of all rows and do not follow the sink's version are
	// refused. After an error the sink may hold some of the news, but not their version,
	// so that it is told them again.
	Publish(ctx context.Context, ops *Ops) error

	// Close gives up whatever is held. What was not published stays durable.
	Close() error
}

// Adopter is a sink whose current tables can be replaced, as when their rows come from another sink.
type Adopter interface {
	Sink

	// Adopt puts rows in the place of all rows of a Current or Children table, in the columns of
	// [schema.Table.Stored], and leaves the watermark as it is. Nothing of the table may wait to be
	// published. each gives the rows.
	Adopt(ctx context.Context, t *schema.Table, each func(put func(arrow.RecordBatch) error) error) error
}
