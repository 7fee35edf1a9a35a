package engine

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # What `from` counts
//
// The interface calls `from` the page to fetch, but its kind is known to count items
// instead. Asked for the second page as `from=1`, a service that counts pages brings
// forty other hits; one that counts items brings the first page again, moved by one.
// So the first second page that is bought tells: if half of its hits or more stood on
// page one, items are counted, and that page was wasted: it is kept in the journal, and
// no row is made of it, since its hits were just seen, but for the last one, which comes
// with the next page if a cap leaves room for that. What was learned is remembered for each endpoint, and the configuration may say it from the
// beginning.

// counts is what `from` counts at an endpoint: [job.PagingPage], [job.PagingOffset],
// or "" while nobody knows.
func (e *Engine) counts(op outlier.Operation) (string, error) {
	if said := e.Config.Service.Paging; said == job.PagingPage || said == job.PagingOffset {
		return said, nil
	}
	return e.Store.Paging(op)
}

// countsUnknown reports whether a second page would be a probe.
func (e *Engine) countsUnknown(op outlier.Operation) bool {
	counts, err := e.counts(op)
	return err == nil && counts == ""
}

// countsFor is counts, by what the run itself has learned before all else.
func (r *run) countsFor(op outlier.Operation) (string, error) {
	if learned := r.learned[op]; learned != "" {
		return learned, nil
	}
	return r.counts(op)
}

// from is the parameter for the step's next page.
func (r *run) from(step *state.Step) (int, error) {
	counts, err := r.countsFor(step.Op)
	if err != nil {
		return 0, fmt.Errorf("what does `from` count: %w", err)
	}
	if counts == job.PagingOffset {
		return step.Hits, nil
	}
	return step.Next, nil
}

// probing reports whether the step's next page will tell what `from` counts.
func (r *run) probing(step *state.Step) bool {
	if step.Next != 1 || step.Hits <= 1 || step.Op == outlier.OpTrendingFormats {
		return false
	}
	counts, err := r.countsFor(step.Op)
	return err == nil && counts == ""
}

// learnPaging learns what `from` counts from the first second page. If it is items, the
// page was wasted. One that merely repeats the first page teaches nothing: "". Later runs
// know it too, unless a person has overridden this one.
func (r *run) learnPaging(tx *state.Tx, step *state.Step, page outlier.Page, response int64) (counts string, err error) {
	hits := r.hits(step, page)
	known, err := tx.Sighted(r.row.ID, step.ID, hits)
	if err != nil {
		return "", err
	}
	switch ids := distinct(hits); {
	case known == ids && len(hits) == step.Hits:
		return "", nil
	case 2*known < ids || ids == 0:
		counts = job.PagingPage
	default:
		counts = job.PagingOffset
	}
	if r.plan.teaches() {
		err = tx.LearnPaging(step.Op, counts)
	}
	if err == nil && counts == job.PagingOffset {
		err = tx.SetAside(response)
	}
	return counts, err
}
