package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/state"
)

// GapError says that a sink cannot be built from the journal alone, as answers are missing
// from its beginning.
type GapError struct{ After, First int64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("the journal has no answers from %d to %d any more, so the rows of these cannot be built from it",
		e.After+1, e.First-1)
}

// Project brings a sink from its watermark up to an answer of the journal, as a run does, and
// calls at with the last answer of each batch. It only reads the state, so that it also works
// beside the process that holds it. What it writes is not published.
func Project(ctx context.Context, from *state.Store, to int64, sink sinks.Sink, at func(id int64)) error {
	lo, err := sink.Watermark(ctx)
	if err != nil || lo >= to {
		return err
	}
	p := projection{sink: sink, decoder: schema.NewDecoder(memory.DefaultAllocator), lo: lo, hi: lo, at: at}
	first := true
	for entry, err := range from.Journal.After(lo) {
		if err != nil {
			return fmt.Errorf("read the journal after %d: %w", p.hi, err)
		}
		if first && entry.ID != lo+1 {
			return &GapError{After: lo, First: entry.ID}
		}
		first = false
		if entry.ID > to {
			break
		}
		source, ok := sourceOf(from, slog.New(slog.DiscardHandler), entry)
		if ok {
			_ = p.decoder.Decode(source, entry.Body) // the run that received it has logged what is wrong with it
		}
		p.hi = entry.ID
		if p.decoder.Bytes() >= batchBytes || p.decoder.Rows() >= batchRows {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	if p.hi != to {
		return &GapError{After: p.hi, First: to + 1}
	}
	return p.flush(ctx)
}

type projection struct {
	sink    sinks.Sink
	decoder *schema.Decoder
	lo, hi  int64 // the answers (lo, hi] are in the decoder
	at      func(id int64)
}

func (p *projection) flush(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil || p.hi == p.lo {
		return err
	}
	batch := sinks.Batch{Lo: p.lo, Hi: p.hi, Parts: p.decoder.Take()}
	defer release(batch.Parts)
	if err := p.sink.Write(ctx, batch); err != nil {
		return fmt.Errorf("write answers %d to %d into sink %s: %w", batch.Lo+1, batch.Hi, p.sink.Name(), err)
	}
	p.lo = p.hi
	p.at(p.hi)
	return nil
}
