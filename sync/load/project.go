package load

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sync/journal"
	"outlierd/sync/state"
)

// GapError reports that a sink cannot be built from the journal because answers are missing.
type GapError struct{ After, First int64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("the journal has no answers from %d to %d any more, "+
		"so the rows of these cannot be built from it", e.After+1, e.First-1)
}

// Project writes the answers after a sink's watermark, up to the answer to, as a run does, and calls
// at with the last answer of each batch. It only reads the state, so it also works while another
// process holds it. It does not publish.
func Project(ctx context.Context, from *state.Store, to int64, sink sinks.Sink, at func(id int64)) error {
	lo, err := sink.Watermark(ctx)
	if err != nil || lo >= to {
		return err
	}
	ignore := func(int64, error) {} // the run that received the answer has logged the error
	return project(ctx, from, withoutGaps(from.Journal.After(lo), lo, to), sink, lo, ignore, at)
}

// Replay writes the rows of answers to a new sink, and calls unreadable for those that cannot be
// decoded. ids must ascend. Replay skips answers that are not kept or were pruned; n is the number of
// the others. It only reads the state, and does not publish.
func Replay(ctx context.Context, from *state.Store, ids []int64, sink sinks.Sink,
	unreadable func(id int64, err error)) (n int, err error) {
	counted := func(yield func(*journal.Entry, error) bool) {
		for entry, err := range from.Journal.Each(ids) {
			if n++; !yield(entry, err) {
				return
			}
		}
	}
	err = project(ctx, from, counted, sink, 0, unreadable, func(int64) {})
	return n, err
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

// project writes answers with ascending ids to a sink with the watermark lo.
func project(ctx context.Context, from *state.Store, entries iter.Seq2[*journal.Entry, error], sink sinks.Sink,
	lo int64, unreadable func(id int64, err error), at func(id int64)) error {
	p := projection{sink: sink, decoder: schema.NewDecoder(memory.DefaultAllocator), lo: lo, hi: lo, at: at}
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if !fits(p.decoder, entry) {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		if source, ok := sourceOf(from, slog.New(slog.DiscardHandler), entry); ok {
			if err := p.decoder.Decode(source, entry.Body); err != nil {
				unreadable(entry.ID, err)
			}
		}
		p.hi = entry.ID
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
