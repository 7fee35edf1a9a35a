package engine

import (
	"time"

	"outlierd/outlier"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// stopFor returns how a step ends after an error that a retry cannot help; "" leaves the step open for the
// next run.
func stopFor(kind outlier.Kind) string {
	switch kind {
	case outlier.Invalid, outlier.NotFound:
		return runs.StopRefused
	case outlier.Malformed:
		return runs.StopUnreadable
	}
	return ""
}

// decideStop returns why the search ends with this page, or "" if it continues. A total alone does not
// end it, because the service's totals saturate and are only estimates.
func decideStop(of *plan.Stored, step *runs.Step, at place, page outlier.Page, seen runs.PageHits, ids int) string {
	switch got := len(page.Hits); {
	case step.Query.Op() == outlier.OpTrendingFormats:
		return runs.StopPages
	case isMissing(step, at, page):
		return runs.StopMissing
	case got == 0:
		return runs.StopEmpty
	case unread(page) == got: // more pages would not be better
		return runs.StopUnreadable
	case seen.Distinct == 0:
		return runs.StopRepeated
	case int64(got) < sizeOf(page) && at.behind(sizeOf(page))+int64(got) >= page.Total:
		return runs.StopShort
	case int64(got) < sizeOf(page) && of.Auto != nil: // the total is wrong
		return runs.StopShort
	case step.Next+1 >= of.PagesOf(step.Ordinal):
		return runs.StopPages
	case step.Next > 0 && float64(seen.Fresh) < of.NewBelow*float64(ids):
		return runs.StopKnown
	}
	return ""
}

// noteOldest notes how far back a search has reached.
func noteOldest(step *runs.Step, page outlier.Page) {
	for _, hit := range page.Hits {
		if published, ok := hit.SortValue("publishedAt"); ok && published > 0 {
			at := time.Unix(int64(published), 0)
			if step.Oldest.IsZero() || at.Before(step.Oldest) {
				step.Oldest = at
			}
		}
	}
}

// isMissing reports whether a page is empty although the service counts hits at its place.
func isMissing(step *runs.Step, at place, page outlier.Page) bool {
	total := page.Total
	if total <= 0 {
		total = step.Total // an empty answer may have no count, or none of its hits
	}
	return len(page.Hits) == 0 && at.behind(sizeOf(page)) < total
}

// sizeOf returns how many hits a page could have: the requested number, or fewer if the service says that
// its pages are smaller.
func sizeOf(page outlier.Page) int64 {
	if page.Size > 0 {
		return min(outlier.MaxSize, page.Size)
	}
	return outlier.MaxSize
}
