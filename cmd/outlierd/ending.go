package main

import (
	"fmt"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

// saturated is where the service's count of hits ends: there may be more.
const saturated = 10_000

// sentence is how a search ended, as a line of a report; "" if it was an ordinary end.
func sentence(e *engine.Ending) string {
	switch {
	case e.Joined != "":
		return fmt.Sprintf("%s: joined scan %s, %s; no credits spent on its start", e.Search, e.Joined, startedBy(e.StartedBy, e.StartedAt))
	case e.Short:
		return fmt.Sprintf("%s: %s; the service counts more than it gave", e.Search, seenOf(e))
	case e.Limited && e.More < 0:
		return fmt.Sprintf("%s: %s; how many more there are is not known", e.Search, count(e.Seen, "hit"))
	case e.Limited:
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, seenOf(e), count(e.More, "credit"))
	case e.Early != "":
		text := fmt.Sprintf("%s: %s after %s", e.Search, e.Early, count(e.Pages, "page"))
		if e.Saved > 0 {
			text += fmt.Sprintf(", %s saved", count(e.Saved, "credit"))
		}
		if e.Total < 0 && e.Pages > 1 {
			text += "; the service does not say how many hits there are"
		}
		return text
	case e.Cut && e.More < 0:
		return fmt.Sprintf("%s: cut after %s; how many more there are is not known", e.Search, count(e.Pages, "page"))
	case e.Cut && e.Pages == 0:
		return fmt.Sprintf("%s: not begun, %s more", e.Search, count(e.More, "credit"))
	case e.Cut && e.Unread > 0:
		return fmt.Sprintf("%s: %s; the rest costs %s", e.Search, seenOf(e), count(e.More, "credit"))
	case e.Cut:
		return fmt.Sprintf("%s: %s, %s more", e.Search, hitsOf(e), count(e.More, "credit"))
	}
	return ""
}

// startedBy says what has started a scan, and when.
func startedBy(name string, at time.Time) string {
	who := "by job " + name
	if isOnce(name) {
		who = "by hand"
	}
	return fmt.Sprintf("started %s on %s", who, at.Format("2006-01-02 15:04 MST"))
}

// hitsOf is how many hits a search has found, of how many, as far as that is known.
func hitsOf(e *engine.Ending) string {
	switch {
	case e.Of < 0:
		return count(e.Hits, "hit") + " so far"
	case e.Of >= saturated:
		return fmt.Sprintf("%d of %d hits or more", e.Hits, e.Of)
	}
	return fmt.Sprintf("%d of %s", e.Hits, count(e.Of, "hit"))
}

// seenOf is how many distinct hits a search has seen, of how many.
func seenOf(e *engine.Ending) string {
	if e.Total >= saturated {
		return fmt.Sprintf("%d of %d hits or more", e.Seen, e.Total)
	}
	return fmt.Sprintf("%d of %s", e.Seen, count(e.Total, "hit"))
}

// endLinesMost is how many searches a report tells of one by one.
const endLinesMost = 10

// endLines are the searches that ended early or were cut, and in one line those for
// which there is no room.
func endLines(all []engine.Ending) []string {
	var lines []string
	var saved, more outlier.Credits
	others, leaving := 0, 0
	for i := range all {
		if all[i].Rest != "" {
			leaving++
		}
	}
	for i := range all {
		line := sentence(&all[i])
		if leaving == 1 && all[i].Rest != "" {
			line += ": " + all[i].Rest
		}
		switch {
		case line == "":
		case len(lines) < endLinesMost:
			lines = append(lines, line)
		default:
			others++
			saved, more = saved+all[i].Saved, more+max(0, all[i].More)
		}
	}
	if others == 0 {
		return lines
	}
	rest := fmt.Sprintf("and %d more such", others)
	if saved > 0 {
		rest += fmt.Sprintf(", %s saved", count(saved, "credit"))
	}
	if more > 0 {
		rest += fmt.Sprintf(", %s more for what was cut", count(more, "credit"))
	}
	return append(lines, rest)
}

// spared is what the run did not have to buy.
func spared(all []engine.Ending) []string {
	pages, fresh, kept := 0, 0, outlier.Credits(0)
	for _, e := range all {
		pages, kept = pages+e.Reused, kept+e.Kept
		if e.Fresh {
			fresh++
		}
	}
	var facts []string
	if pages > 0 {
		facts = append(facts, count(pages, "page")+" from the journal")
	}
	if kept > 0 {
		facts[0] += fmt.Sprintf(", %s saved", count(kept, "credit"))
	}
	if fresh > 0 {
		searches := "searches"
		if fresh == 1 {
			searches = "search"
		}
		facts = append(facts, fmt.Sprintf("%d %s skipped as fresh", fresh, searches))
	}
	return facts
}

// pagings are what the service's `from` was taken to count, of searches of several pages.
func pagings(all []engine.Ending) []string {
	var lines []string
	for _, e := range all {
		line := "paging: `from` counts " + e.Paging + "s"
		if e.Paging == job.PagingOffset {
			line = "paging: `from` counts items"
		}
		if e.Paging != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
