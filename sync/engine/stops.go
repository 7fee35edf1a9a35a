package engine

import (
	"outlierd/outlier"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// Why a search ended; kept in ops.searches. Those that a plan itself has are in package plan.
const (
	stopEmpty      = "empty"      // a page without hits
	stopShort      = "short"      // a short page, and the total agrees
	stopRepeated   = "repeated"   // a page without an id that was new to the search
	stopPages      = "pages"      // as many pages as the job wants
	stopKnown      = "known"      // the job's stop_when: hardly an id that was not known
	stopRefused    = "refused"    // the service refused the request itself
	stopMissing    = "missing"    // page one has no hits, and its total counts some
	stopUnreadable = "unreadable" // an answer that is no search answer, or of which no hit can be stored; it stays in the journal
	stopClock      = "clock"      // its dates follow from a clock that was wrong; nothing was sent
	stopTime       = "time"       // the job's stop_after

	stopScanned    = "scanned"     // the scan has ended, and another search reads its results
	stopScanFailed = "scan failed" // as the service says
	stopDeadline   = "deadline"    // the scan had not ended in time; its results can still be read
)

// finals close a search for good: trying again cannot help.
var finals = []string{stopRefused, stopUnreadable, stopClock, stopScanFailed, stopDeadline}

// cutOff are the ends of searches whose rest can be bought; see also [passable].
var cutOff = []string{"", stopPages, stopTime, plan.StopShare}

// passable reports whether a search ended with a page of which no hit could be stored: those
// that follow may be better.
func passable(step *runs.Step) bool { return step.Stop == stopUnreadable && step.Unread > 0 }

// covered are the ends after which a search needs no second look at what it covered:
// the job's watermark moves on.
var covered = []string{stopEmpty, stopShort, stopRepeated, stopPages, stopKnown}

// stopFor closes a step for good when trying again cannot help; every other error
// leaves it open for the next run.
func stopFor(kind outlier.Kind) string {
	switch kind {
	case outlier.Invalid, outlier.NotFound:
		return stopRefused
	case outlier.Malformed:
		return stopUnreadable
	}
	return ""
}

// stopAfter says why the search ends with this page, or "" if it goes on. A total
// alone ends nothing: it saturates, and it is a hint of the service, no promise.
func (r *run) stopAfter(step *runs.Step, at place, page outlier.Page, seen runs.PageHits, ids int) string {
	switch got := len(page.Hits); {
	case step.Op == outlier.OpTrendingFormats:
		return stopPages
	case got == 0 && step.Seen == 0 && page.Total > 0:
		return stopMissing
	case got == 0:
		return stopEmpty
	case unread(page) == got: // another page would be no better
		return stopUnreadable
	case seen.Distinct == 0:
		return stopRepeated
	case int64(got) < sizeOf(page) && at.behind(sizeOf(page))+int64(got) >= page.Total:
		return stopShort
	case step.Next+1 >= r.plan.PagesOf(step.Ordinal):
		return stopPages
	case step.Next > 0 && float64(seen.Fresh) < r.plan.NewBelow*float64(ids):
		return stopKnown
	case r.plan.SharePages != nil && step.Next+1 >= r.plan.LimitOf(step.Ordinal, step.Scan):
		return plan.StopShare
	}
	return ""
}

// sizeOf is how many hits a page could hold: as many as were asked for, or fewer if the
// service says that its pages have fewer.
func sizeOf(page outlier.Page) int64 {
	if page.Size > 0 {
		return min(plan.PageSize, page.Size)
	}
	return plan.PageSize
}
