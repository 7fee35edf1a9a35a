// Package sinks defines what stores the tables: the warehouse, which computes them, and its copies, which
// people read.
//
// The warehouse is a projection of the journal: its content is derived from the journal's answers and the
// decoder alone. Its watermark, the id of the last answer it contains, is committed atomically with the
// rows. So a warehouse that was locked, full, killed or is new catches up by itself, and no answer is
// applied twice. A copy is derived from the warehouse alone.
package sinks

import (
	"context"
	"iter"

	"outlierd/schema"
)

// Columns by which the warehouse decides which rows to keep.
const (
	ResponseID  = "_response_id"
	ObservedAt  = "observed_at"
	FirstSeenAt = "first_seen_at"
	LastSeenAt  = "last_seen_at"
	TimesSeen   = "times_seen"
)

// Batch contains the rows of the answers (Lo, Hi] of the journal.
type Batch struct {
	Lo, Hi int64
	Parts  []schema.Part // at most one per table; rows in the order of the journal
}

// Ops are the changes of the operations tables, which are derived from the state and not from the
// journal. Their rows are numbered by their first column. The state numbers the changes: the number of
// the last one is the version of all tables. Of each changed table a tail is replaced.
type Ops struct {
	Since   int64 // the version that the warehouse has; 0 if all rows are replaced, whatever it has
	Version int64 // the version after the changes

	// From has the first number of the rows of each changed table that Batches replace, by the table's
	// name; 0 replaces all rows.
	From map[string]int64

	// Rows are the new rows. The ids of a table ascend, also from one part to the next. A part is valid until the
	// next one; a warehouse may iterate more than once.
	Rows iter.Seq2[schema.Part, error]
}

// Marks say what a warehouse or a copy holds.
type Marks struct {
	Warehouse string // random id of the warehouse; a rebuilt one has another; "" if nothing is held
	Answers   int64  // the last answer of which all rows are held
	Ops       int64  // version of the operations tables
	Omitted   string // what is left out, as [Omitted.String]
}

// Warehouse is the one place that computes the tables: it folds the rows of answers, replaces rows and
// continues histories. It is used by one goroutine at a time.
type Warehouse interface {
	// Marks are read from the warehouse itself. A new one has an id and no answers.
	Marks(ctx context.Context) (Marks, error)

	// Write stores b durably, in one transaction with the watermark. It refuses a batch whose Lo is not
	// the watermark. After an error the warehouse has all of b or nothing; the caller must read the marks
	// before it tries again. Write does not release b's parts.
	Write(ctx context.Context, b Batch) error

	// WriteOps replaces the tails of the operations tables, in one transaction with their version. Changes that do not
	// follow the warehouse's version are refused, unless they are all rows.
	WriteOps(ctx context.Context, ops *Ops) error

	// Refill replaces what the warehouse has by the rows that a copy has, because the journal no longer has the answers
	// up to least. common returns the last answer of a copy that is also one of the journal; later rows are not taken.
	// After an error it has what it had.
	Refill(ctx context.Context, least int64, common func(has Marks) int64) error

	// Omit deletes what is left out from now on, in addition to what already is, and durably: also rows of
	// answers that are written later. It costs little if that is nothing new.
	Omit(ctx context.Context, more Omitted) error

	// Bytes returns the size on disk, by which publications are limited.
	Bytes() int64

	Close() error
}

// Copy is made from the warehouse and computes nothing. It may be deleted at any time, and is made again
// by the next publication.
type Copy interface {
	// Name is the name in jobs.yaml, in messages and in commands: "duckdb".
	Name() string

	// Shows returns what readers find, as the copy itself says; zero marks if there is no copy yet.
	Shows(ctx context.Context) (Marks, error)

	// Publish makes the copy equal to the warehouse. It costs little if nothing has changed.
	Publish(ctx context.Context) error

	Close() error
}
