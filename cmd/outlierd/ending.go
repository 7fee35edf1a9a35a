package main

import (
	"fmt"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// # How searches end
//
// A search that stops before the job's last page has saved what those pages would
// have cost. One that a cap, an error or the clock ended has left pages that somebody
// may still want, and that cost as much. A page that the journal had was not paid for,
// and neither was a search for what resembles seeds that were bought lately.

// ending is how one search of a run ended.
type ending struct {
	name   string
	pages  int    // taken
	most   int    // that the job wants; job.AllPages for as many as there are
	early  string // why the search ended before that; "" if it did not
	cut    bool   // it was ended by something else
	fresh  bool   // nothing was sent: the same seeds were bought lately
	hits   int
	of     int64           // hits that could be had; -1 if nobody knows
	reused int             // pages that the journal had
	kept   outlier.Credits // that these would have cost
	saved  outlier.Credits // by ending early
	more   outlier.Credits // for what a cut left; -1 if nobody knows
}

// early says of each end that came by itself why it came. The keys are those of
// column stop of ops.searches.
var early = map[string]string{
	"empty":    "there was nothing more",
	"short":    "there was nothing more",
	"repeated": "a page brought only what had come before",
	"known":    "hardly anything was new",
}

// What the interface lets a page hold, and where the service's count of hits ends.
const (
	pageSize  = 40
	saturated = 10_000
)

// endings works out how the searches of a run ended, each of which may take so many
// pages at most. The start of a scan is no search; the reading of its results is.
func endings(steps []state.Step, pages int, prices outlier.Prices) []ending {
	var all []ending
	for i := range steps {
		if steps[i].Op != outlier.OpStartScan {
			all = append(all, endingOf(&steps[i], pages, prices.Of(outlier.PageRequest(steps[i].Op, nil))))
		}
	}
	return all
}

func endingOf(s *state.Step, pages int, price outlier.Credits) ending {
	e := ending{
		name: searchName(*s), pages: s.Pages, most: pages, hits: s.Hits, of: reachable(s, pages),
		reused: s.Reused, kept: outlier.Credits(s.Reused) * price,
	}
	why, itself := early[s.Stop]
	switch {
	case s.Stop == "fresh":
		e.fresh = true
	case itself && s.Pages < pages:
		e.early, e.saved = why, outlier.Credits(untaken(s, pages))*price
	case s.Stop == "" && s.Left != 0, s.Stop == "time" && s.Left != 0:
		e.cut, e.more = true, -1
		if s.Left > 0 {
			e.more = outlier.Credits(s.Left) * price
		}
	}
	return e
}

// untaken is how many pages a search left that ended by itself: all that the job
// wanted, or if that is without end, those of which the service knew.
func untaken(s *state.Step, pages int) int {
	if pages != job.AllPages {
		return pages - s.Pages
	}
	if s.Stop != "known" {
		return 0
	}
	return max(0, (int(s.Total)-s.Hits+pageSize-1)/pageSize)
}

// reachable is how many hits the job could have had: those that there are, as far as
// its pages go. It is -1 while the service has not said how many there are.
func reachable(s *state.Step, pages int) int64 {
	if s.Total < 0 || pages == job.AllPages {
		return s.Total
	}
	return min(s.Total, int64(pages)*pageSize)
}

// String is the ending as a line of a report; "" if it was an ordinary one.
func (e *ending) String() string {
	switch {
	case e.early != "":
		line := fmt.Sprintf("%s: %s after %s", e.name, e.early, count(e.pages, "page"))
		if e.saved > 0 {
			line += fmt.Sprintf(", %s saved", count(e.saved, "credit"))
		}
		return line
	case e.cut && e.more < 0:
		return fmt.Sprintf("%s: cut after %s; how many more there are is not known", e.name, count(e.pages, "page"))
	case e.cut && e.of < 0:
		return fmt.Sprintf("%s: not begun, %s more", e.name, count(e.more, "credit"))
	case e.cut:
		return fmt.Sprintf("%s: %d of %s, %s more", e.name, e.hits, hitsOf(e.of), count(e.more, "credit"))
	}
	return ""
}

func hitsOf(n int64) string {
	if n >= saturated {
		return fmt.Sprintf("%d hits or more", n)
	}
	return count(n, "hit")
}

// endLinesMost is how many searches a report tells of one by one.
const endLinesMost = 10

// endLines are the searches that ended early or were cut, and in one line those for
// which there is no room.
func endLines(all []ending) []string {
	var lines []string
	var saved, more outlier.Credits
	others := 0
	for i := range all {
		line := all[i].String()
		switch {
		case line == "":
		case len(lines) < endLinesMost:
			lines = append(lines, line)
		default:
			others++
			saved, more = saved+all[i].saved, more+max(0, all[i].more)
		}
	}
	if others > 0 {
		lines = append(lines, fmt.Sprintf("and %d more such: %s saved, %s more for what was cut",
			others, count(saved, "credit"), count(more, "credit")))
	}
	return lines
}

// spared is what the run did not have to buy.
func spared(all []ending) []string {
	pages, fresh, kept := 0, 0, outlier.Credits(0)
	for _, e := range all {
		pages, kept = pages+e.reused, kept+e.kept
		if e.fresh {
			fresh++
		}
	}
	var facts []string
	if pages > 0 {
		facts = append(facts, fmt.Sprintf("%s from the journal, %s saved", count(pages, "page"), count(kept, "credit")))
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
