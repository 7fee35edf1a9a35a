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
// returns the first page moved by one. The configuration may say which it is. Otherwise the reading is
// learned for each endpoint from how much a page repeats of page one: see [readingOfPage].
//
// A page that only the other reading explains does not belong to its search. It stays in the journal
// without rows: its hits come again with the pages that are requested by the other reading. This
// happens at most once in a search. A later contradiction does not end the search, and shows in how
// much of the total it has seen.

// readingOf returns what `from` counts for a step: what its pages have shown, or those of another search of
// the run, or else what is believed; "" if unknown.
func readingOf(known *facts.Reader, steps []runs.Step, step *runs.Step) (string, error) {
	if said := facts.ConfiguredPaging(known.Config); said != "" {
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
	p, err := known.Store.Learned.Paging(step.Query.Op())
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

// nextPlace returns the place of a step's next page. steps are those of the run. While the reading is unknown,
// `from` counts pages.
func nextPlace(known *facts.Reader, steps []runs.Step, step *runs.Step) (place, error) {
	reading, err := readingOf(known, steps, step)
	if err != nil || reading != job.PagingOffset {
		return place{step.Next, reading}, err
	}
	unread, err := known.Store.Steps.Unread(step)
	return place{step.Seen + unread, reading}, err
}

// learnPaging learns from a page what `from` counts, and reports whether the page belongs to the
// search. If not, it sets step to continue by the other reading. What it learns is recorded for later
// runs unless this run has overrides.
func (a applier) learnPaging(tx *store.Tx, of *runs.Run, step *runs.Step, at place, page outlier.Page) (keep bool, err error) {
	if at.from == 0 || step.Reading == job.PagingOffset || facts.ConfiguredPaging(a.engine.Config) != "" || unread(page)+forgotten(page) > 0 {
		return true, nil
	}
	if at.reading == job.PagingOffset {
		return unlearnPaging(tx, of, step, page)
	}
	first, err := runs.FirstPage(tx, step)
	if err != nil {
		return false, err
	}
	reading, proven := readingOfPage(first, page, at.from)
	worthATry := at.reading == "" && (page.Total < 0 || page.Total > int64(step.Seen))
	contradicts := step.Reading != "" && step.Reading != reading
	if reading == "" || contradicts || !proven && !worthATry {
		return true, nil
	}
	if proven && of.Plan.Teaches() {
		err = journal.LearnPaging(tx, step.Query.Op(), reading)
	}
	step.Reading = reading
	if err != nil || reading == job.PagingPage {
		return true, err
	}
	step.Total = max(step.Total, page.Total)
	return false, nil
}

// readingOfPage returns the reading that a page shows which was requested for a small `from`, and whether
// that proves it; "" for none. If `from` counts items, the page repeats page one, whose ids are first, except
// for the first hits; if it counts pages, it repeats next to nothing. A page that repeats all of page one
// may come from a service that ignores `from`.
func readingOfPage(first []string, page outlier.Page, from int) (reading string, proven bool) {
	if len(page.Hits) == 0 || 2*from > len(first) {
		return "", false
	}
	repeated := 0
	for _, hit := range page.Hits {
		if slices.Contains(first, idOf(hit)) {
			repeated++
		}
	}
	if 2*repeated < len(first) {
		return job.PagingPage, true
	}
	return job.PagingOffset, repeated <= len(first)-from
}

// unlearnPaging checks a page of a search that relies on an earlier one which has shown that `from` counts
// items. If the page is empty although there are more hits, the service counts pages now: the search goes on
// with page two. That does not explain an empty page after others with hits, unless there are so many hits
// that these were pages far behind.
func unlearnPaging(tx *store.Tx, of *runs.Run, step *runs.Step, page outlier.Page) (keep bool, err error) {
	isFirst := step.Pages == 1 || page.Total > outlier.MaxSize*outlier.MaxSize
	if len(page.Hits) > 0 || page.Total <= int64(step.Seen) || !isFirst {
		return true, nil
	}
	if of.Plan.Teaches() {
		err = journal.UnlearnPaging(tx, step.Query.Op())
	}
	step.Reading, step.Next, step.Total = job.PagingPage, 1, max(step.Total, page.Total)
	return false, err
}

// idOf returns the id of a hit: that of the video, or of the channel that was found.
func idOf(hit outlier.Hit) string { return cmp.Or(hit.VideoID, hit.ChannelID) }
