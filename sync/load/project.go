package load

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"outlierd/sinks"
	"outlierd/sync/journal"
	"outlierd/sync/state"
)

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
