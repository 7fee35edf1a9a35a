package engine

import (
	"cmp"
	"fmt"
	"slices"

	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// # What `from` counts
//
// The interface calls `from` the page to fetch, but its kind is known to count items
// instead. Asked for the second page as `from=1`, a service that counts pages brings
// forty other hits; one that counts items brings the first page again, moved by one.
// The configuration may say which it is. Otherwise each endpoint's reading is learned, and
// only from what cannot come about in another way: see [evidenceOf]. Videos that arrive or
// vanish between two pages prove nothing.
//
// A page that only the other reading explains is no page of its search. It stays in the
// journal, and no row is made of it: its hits come again with the pages that are asked for
// by the other reading. That happens once in a search; what contradicts it after that does
// not end the search, and shows in how much of the total it has seen.

// saturated is where `pagination.total` stops counting: from there on it proves nothing.
const saturated = 10_000

// What can show what `from` counts.
const (
	evidenceEcho  = "an echoed `from`"
	evidencePages = "two whole pages"
	evidenceTotal = "`total`"
)

// counts is what `from` counts for a step: what its pages have shown, or those of another
// search of the run, or else what is believed; "" if it is not known.
func (e *Engine) counts(steps []runs.Step, step *runs.Step) (string, error) {
	if said := facts.ConfiguredPaging(e.Config); said != "" {
		return said, nil
	}
	if step.Reading != "" {
		return step.Reading, nil
	}
	for i := range steps {
		if steps[i].Query.Op() == step.Query.Op() && steps[i].Reading != "" {
			return steps[i].Reading, nil
		}
	}
	p, err := e.Facts().Paging(step.Query.Op())
	if err != nil {
		return "", fmt.Errorf("what does `from` count: %w", err)
	}
	return p.Reading, nil
}

// A place is where a page is asked for, and by which reading of `from`, "" if it is not known.
type place struct {
	from    int
	reading string
}

// behind is how many items stand before a page of so many.
func (p place) behind(size int64) int64 {
	if p.reading == job.PagingOffset {
		return int64(p.from)
	}
	return int64(p.from) * size
}

// place is that of the next page of a step, which is one of a run's. While nothing is known,
// pages are counted.
func (e *Engine) place(steps []runs.Step, step *runs.Step) (place, error) {
	reading, err := e.counts(steps, step)
	if err != nil || reading != job.PagingOffset {
		return place{step.Next, reading}, err
	}
	unread, err := e.Store.Runs.Unread(step)
	return place{step.Seen + unread, reading}, err
}

// heed learns from a page what `from` counts, and reports whether it is the page of the
// search that it was asked for as. If not, step is what goes on by the other reading. Later
// runs learn it too, unless a person has overridden this one.
func (r *run) heed(tx *store.Tx, step *runs.Step, at place, page outlier.Page) (keep bool, err error) {
	if at.from == 0 || facts.ConfiguredPaging(r.engine.Config) != "" || unread(page)+forgotten(page) > 0 {
		return true, nil
	}
	var first []string
	if at.from < outlier.MaxSize {
		if first, err = runs.FirstPage(tx, step); err != nil {
			return false, err
		}
	}
	known, err := runs.Sighted(tx, step, r.hits(step, page))
	if err != nil {
		return false, err
	}
	shown := evidenceOf(first, known, page, at.from)
	using := cmp.Or(at.reading, job.PagingPage)
	switch {
	case shown.reading == "" || step.Reading != "" && step.Reading != shown.reading:
		return true, nil // it shows nothing, or something else than the search has shown before
	case shown.by != "":
		if r.plan.Teaches() {
			err = journal.LearnPaging(tx, step.Query.Op(), shown.reading, shown.by)
		}
	case shown.reading == job.PagingPage && using == job.PagingOffset: // an empty page
		if r.plan.Teaches() {
			err = journal.UnlearnPaging(tx, step.Query.Op())
		}
	case shown.reading == job.PagingOffset && at.reading == "" &&
		(page.Total < 0 || page.Total > int64(step.Seen)):
		// Nothing is known, and there is more to be had: it is worth a try.
	default:
		return true, nil
	}
	if step.Reading = shown.reading; err != nil || using == shown.reading {
		return true, err
	}
	step.Total = max(step.Total, page.Total)
	if step.Reading == job.PagingPage {
		step.Next = 1 // what came before from elsewhere is not the pages in between
	}
	return false, nil
}

// Evidence is which reading of `from` a page speaks for, and what proves it. Without proof
// it only makes the reading worth a try.
type evidence struct {
	reading string
	by      string
}

// evidenceOf compares the page that came for `from` with what each reading predicts. first
// are the ids of page one, or none where that is too far away to overlap; known is how many
// hits of the page the search had seen before.
//
// These prove a reading: an echoed `from` that is the asked one converted by the page size;
// two whole pages that are the same list moved by `from`, or that share hardly an id; and a
// number of hits that follows from `total` by one reading alone. An empty page is no proof,
// since a total may count what cannot be had. Nor is one that repeats many hits in another
// order or number, since videos come and go.
func evidenceOf(first []string, known int, page outlier.Page, from int) evidence {
	size := outlier.MaxSize
	if page.Size > 0 && page.Size < outlier.MaxSize {
		size = int(page.Size)
	}
	ids := make([]string, 0, len(page.Hits))
	for _, hit := range page.Hits {
		ids = append(ids, idOf(hit))
	}
	overlaps := len(first)-from >= (size+1)/2 // by the reading as items
	whole := len(first) == size && len(ids) == size && size > 1
	byPages, byItems := predicted(page.Total, from*size, size), predicted(page.Total, from, size)
	switch {
	case size > 1 && page.From == int64(from*size):
		return evidence{job.PagingPage, evidenceEcho}
	case size > 1 && page.From > 0 && page.From*int64(size) == int64(from):
		return evidence{job.PagingOffset, evidenceEcho}
	case overlaps && whole && slices.Equal(ids[:len(first)-from], first[from:]):
		return evidence{job.PagingOffset, evidencePages}
	case overlaps && whole && 4*known <= len(ids):
		return evidence{job.PagingPage, evidencePages}
	case len(ids) == byPages && len(ids) != byItems && len(ids) == 0:
		return evidence{reading: job.PagingPage}
	case len(ids) == byPages && len(ids) != byItems:
		return evidence{job.PagingPage, evidenceTotal}
	case len(ids) == byItems && len(ids) != byPages && overlaps == (2*known >= len(ids)):
		return evidence{job.PagingOffset, evidenceTotal}
	case overlaps && len(ids) > 1 && 2*known >= len(ids):
		return evidence{reading: job.PagingOffset}
	}
	return evidence{}
}

// predicted is how many hits a page has that begins behind so many; -1 if total does not
// say.
func predicted(total int64, behind, size int) int {
	if total < 0 || total >= saturated {
		return -1
	}
	return int(min(max(total-int64(behind), 0), int64(size)))
}

// idOf is the id that a hit goes by: the video's, or that of the channel which was found.
func idOf(hit outlier.Hit) string { return cmp.Or(hit.VideoID, hit.ChannelID) }
