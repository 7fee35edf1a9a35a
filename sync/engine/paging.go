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
// The interface describes `from` as the page to fetch, but services of this kind are known to count items
// instead. For `from=1`, a service that counts pages returns forty other hits; one that counts items
// returns the first page moved by one. The configuration may say which it is. Otherwise the
// reading is learned for each endpoint, and only from evidence that has no other explanation: see
// [evidenceOf]. Videos that appear or disappear between two pages prove nothing.
//
// A page that only the other reading explains does not belong to its search. It stays in the journal
// without rows: its hits come again with the pages that are requested by the other reading. This
// happens at most once in a search. A later contradiction does not end the search, and shows in how
// much of the total it has seen.

// saturated is where `pagination.total` stops counting: from there on it proves nothing.
const saturated = 10_000

// The kinds of evidence for what `from` counts.
const (
	evidenceEcho  = "an echoed `from`"
	evidencePages = "two whole pages"
	evidenceTotal = "`total`"
)

// readingOf returns what `from` counts for a step: what its pages have shown, or those of another search of
// the run, or else what is believed; "" if unknown.
func (e *Engine) readingOf(steps []runs.Step, step *runs.Step) (string, error) {
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
		return "", fmt.Errorf("read what `from` counts: %w", err)
	}
	return p.Reading, nil
}

// A place is where a page starts, and the reading of `from` that was used, "" if it is not known.
type place struct {
	from    int
	reading string
}

// behind returns the number of items before a page of the given size.
func (p place) behind(size int64) int64 {
	if p.reading == job.PagingOffset {
		return int64(p.from)
	}
	return int64(p.from) * size
}

// place returns the place of a step's next page. steps are those of the run. While the reading is unknown,
// `from` counts pages.
func (e *Engine) place(steps []runs.Step, step *runs.Step) (place, error) {
	reading, err := e.readingOf(steps, step)
	if err != nil || reading != job.PagingOffset {
		return place{step.Next, reading}, err
	}
	unread, err := e.Store.Runs.Unread(step)
	return place{step.Seen + unread, reading}, err
}

// learnPaging learns from a page what `from` counts, and reports whether the page belongs to the
// search. If not, it sets step to continue by the other reading. What it learns is recorded for later
// runs unless this run has overrides.
func (r *run) learnPaging(tx *store.Tx, step *runs.Step, at place, page outlier.Page) (keep bool, err error) {
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
		return true, nil // no evidence, or it contradicts what the search has shown before
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
		// The reading is unknown and there are more hits, so it is worth a try.
	default:
		return true, nil
	}
	if step.Reading = shown.reading; err != nil || using == shown.reading {
		return true, err
	}
	step.Total = max(step.Total, page.Total)
	if step.Reading == job.PagingPage {
		step.Next = 1 // the pages received so far are not those in between
	}
	return false, nil
}

// Evidence is the reading of `from` that a page supports, and what proves it. Without proof, the
// reading is only worth a try.
type evidence struct {
	reading string
	by      string
}

// evidenceOf compares the page received for `from` with what each reading predicts. first are the ids of
// page one, or nil if that is too far away to overlap; known is the number of hits of the page that
// the search had seen before.
//
// Proof of a reading is an echoed `from` that is the requested one converted by the page size; two full
// pages that are the same list moved by `from`, or that share hardly any id; or a number of hits that
// follows from `total` by one reading only. An empty page is no proof, because a total may count hits
// that cannot be fetched. A page that repeats many hits in another order or number is no proof
// either, because videos come and go.
func evidenceOf(first []string, known int, page outlier.Page, from int) evidence {
	size := outlier.MaxSize
	if page.Size > 0 && page.Size < outlier.MaxSize {
		size = int(page.Size)
	}
	ids := make([]string, 0, len(page.Hits))
	for _, hit := range page.Hits {
		ids = append(ids, idOf(hit))
	}
	overlaps := len(first)-from >= (size+1)/2 // if `from` counts items
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

// predicted returns how many hits a page has that starts after the given number of hits; -1 if total
// does not say.
func predicted(total int64, behind, size int) int {
	if total < 0 || total >= saturated {
		return -1
	}
	return int(min(max(total-int64(behind), 0), int64(size)))
}

// idOf returns the id of a hit: that of the video, or of the channel that was found.
func idOf(hit outlier.Hit) string { return cmp.Or(hit.VideoID, hit.ChannelID) }
