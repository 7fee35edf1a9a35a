package load

import (
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

// hasRoom reports whether an answer may join the batch. Its rows take at least about as much memory as its body, and those
// of a large one ten times as much, so a large answer is loaded alone.
func (b *batch) hasRoom(entry *journal.Entry) bool {
	return b.hi == b.lo || b.decoder.Rows() < batchRows && b.decoder.Bytes()+len(entry.Body) <= batchBytes
}

// fill adds answers until the batch is full or there are no more. For each that may have rows, decoded gets the error if
// it is unreadable, and has none.
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
