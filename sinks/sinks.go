// Package sinks is the contract of a place that keeps tables.
//
// A sink is a projection of the journal: what it holds follows from the journal's
// answers and the decoder alone. Its watermark, the id of the last answer it
// holds, is part of the same atomic unit as the rows, so a sink that was locked,
// full, killed or is new catches up by itself, and no answer applies twice.
package sinks

import (
	"context"

	"outlierd/schema"
)

// Batch is what the answers (Lo, Hi] of the journal amount to.
type Batch struct {
	Lo, Hi int64
	Parts  []schema.Part // at most one per table; rows in the order of the journal
}

// Ops is the news of one operations table, which follow the state and not the
// journal: rows are numbered by their first column, and a row is either final or
// may still change.
type Ops struct {
	Part schema.Part // rows with an id above the mark that the sink last told, in order of id
	Mark int64       // rows up to this id are final and are not told again
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

	// OpsMark is the id up to which the sink holds final rows of an operations table.
	OpsMark(ctx context.Context, table *schema.Table) (int64, error)

	// Publish lets readers see everything written so far, and ops with it, at once.
	Publish(ctx context.Context, ops []Ops) error

	// Close gives up whatever is held. What was not published stays durable.
	Close() error
}
