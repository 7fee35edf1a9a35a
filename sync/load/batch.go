package load

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/journal"
	"outlierd/sync/state"
)

// A batch has at most this size. The cost of a batch in DuckDB is mostly fixed, so fewer and larger ones are
// cheaper; the limits keep memory small. Batches are written before publishing only: the journal makes an
// answer durable, and readers see it when it is published.
const (
	batchBytes = 8 << 20
	batchRows  = 60_000
)

// batch has the rows of the answers (lo, hi] of the journal, which the warehouse gets next.
type batch struct {
	from    *state.Store
	decoder *schema.Decoder
	lo, hi  int64
}

// batchAfter returns the empty batch after an answer.
func batchAfter(from *state.Store, id int64) *batch {
	return &batch{from, schema.NewDecoder(memory.DefaultAllocator), id, id}
}

// hasRoom reports whether an answer may join the batch. Its rows take at least about as much memory as its body, and
// those of a large one ten times as much, so a large answer is loaded alone.
func (b *batch) hasRoom(entry *journal.Entry) bool {
	return b.hi == b.lo || b.decoder.Rows() < batchRows && b.decoder.Bytes()+len(entry.Body) <= batchBytes
}

// fill adds answers until the batch is full or there are no more. For each that may have rows, decoded gets the error
// if it is unreadable, and has none.
func (b *batch) fill(entries iter.Seq2[*journal.Entry, error], decoded func(e *journal.Entry, unreadable error)) error {
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if !b.hasRoom(entry) {
			return nil
		}
		source, hasRows, err := sourceOf(b.from, entry)
		if err != nil {
			return err
		}
		if hasRows {
			decoded(entry, b.decoder.Decode(source, entry.Body))
		}
		b.hi = entry.ID
	}
	return nil
}

// writeTo writes the batch, of which nothing is left then, also after an error. It returns the number of rows by table.
func (b *batch) writeTo(ctx context.Context, into sinks.Warehouse) (rows map[string]int64, err error) {
	all := sinks.Batch{Lo: b.lo, Hi: b.hi, Parts: b.decoder.Take()}
	defer func() {
		for _, part := range all.Parts {
			part.Release()
		}
	}()
	if err := into.Write(ctx, all); err != nil {
		return nil, fmt.Errorf("write answers %d to %d into the warehouse: %w", b.lo+1, b.hi, err)
	}
	b.lo, rows = b.hi, map[string]int64{}
	for _, part := range all.Parts {
		rows[part.Table.Name] += part.Rows.NumRows()
	}
	return rows, nil
}

// gapError reports that a warehouse cannot be built from the journal because answers are missing.
func gapError(after, first int64) error {
	return fmt.Errorf("the journal has no answers from %d to %d any more, so the rows of these cannot be built from it",
		after+1, first-1)
}

// Project writes the answers after a warehouse's watermark, up to the answer to, as a run does, and calls
// at with the last answer of each batch. It only reads the state, so it also works while another process
// holds it.
func Project(ctx context.Context, from *state.Store, to int64, into sinks.Warehouse, at func(id int64)) error {
	marks, err := into.Marks(ctx)
	if err != nil || marks.Answers >= to {
		return err
	}
	b := batchAfter(from, marks.Answers)
	for b.hi < to {
		decoded := func(*journal.Entry, error) {} // the run that received the answer has logged the error
		err := b.fill(withoutGaps(from.Journal.After(b.hi), b.hi, to), decoded)
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			_, err = b.writeTo(ctx, into)
		}
		if err != nil {
			return err
		}
		at(b.hi)
	}
	return nil
}

// withoutGaps yields the answers (lo, to], and ends with an error if some are missing.
func withoutGaps(entries iter.Seq2[*journal.Entry, error], lo, to int64) iter.Seq2[*journal.Entry, error] {
	return func(yield func(*journal.Entry, error) bool) {
		last := lo
		for entry, err := range entries {
			if err == nil && (entry.ID > to || last == lo && entry.ID > lo+1) {
				err = gapError(last, min(entry.ID, to+1))
			}
			if !yield(entry, err) || err != nil || entry.ID == to {
				return
			}
			last = entry.ID
		}
		yield(nil, gapError(last, to+1))
	}
}
