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

// GapError reports that a warehouse cannot be built from the journal because answers are missing.
type GapError struct{ After, First int64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("the journal has no answers from %d to %d any more, "+
		"so the rows of these cannot be built from it", e.After+1, e.First-1)
}

// Project writes the answers after a warehouse's watermark, up to the answer to, as a run does, and calls
// at with the last answer of each batch. It only reads the state, so it also works while another process
// holds it.
func Project(ctx context.Context, from *state.Store, to int64, into sinks.Warehouse, at func(id int64)) error {
	marks, err := into.Marks(ctx)
	if err != nil || marks.Answers >= to {
		return err
	}
	p := projection{into: into, decoder: schema.NewDecoder(memory.DefaultAllocator), lo: marks.Answers, hi: marks.Answers, at: at}
	for entry, err := range withoutGaps(from.Journal.After(p.lo), p.lo, to) {
		if err != nil {
			return err
		}
		if !fitsBatch(p.decoder, entry) {
			if err := p.flushRows(ctx); err != nil {
				return err
			}
		}
		source, ok, err := sourceOf(from, entry)
		if err != nil {
			return err
		}
		if ok {
			_ = p.decoder.Decode(source, entry.Body) // the run that received the answer has logged the error
		}
		p.hi = entry.ID
	}
	return p.flushRows(ctx)
}

// withoutGaps yields the answers (lo, to], and ends with a [*GapError] if some are missing.
func withoutGaps(entries iter.Seq2[*journal.Entry, error], lo, to int64) iter.Seq2[*journal.Entry, error] {
	return func(yield func(*journal.Entry, error) bool) {
		last := lo
		for entry, err := range entries {
			switch {
			case err != nil:
				err = fmt.Errorf("read the journal after %d: %w", last, err)
			case last == lo && entry.ID != lo+1:
				err = &GapError{After: lo, First: entry.ID}
			case entry.ID > to:
				err = &GapError{After: last, First: to + 1}
			default:
				last = entry.ID
			}
			if !yield(entry, err) || err != nil || last == to {
				return
			}
		}
		yield(nil, &GapError{After: last, First: to + 1})
	}
}

type projection struct {
	into    sinks.Warehouse
	decoder *schema.Decoder
	lo, hi  int64 // the answers (lo, hi] are in the decoder
	at      func(id int64)
}

func (p *projection) flushRows(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil || p.hi == p.lo {
		return err
	}
	batch := sinks.Batch{Lo: p.lo, Hi: p.hi, Parts: p.decoder.Take()}
	defer releaseParts(batch.Parts)
	if err := p.into.Write(ctx, batch); err != nil {
		return fmt.Errorf("write answers %d to %d into the warehouse: %w", batch.Lo+1, batch.Hi, err)
	}
	p.lo = p.hi
	p.at(p.hi)
	return nil
}
