package state

import (
	"regexp"
	"strings"
	"testing"
)

// explain is how the database performs a query, a step a line.
func explain(t *testing.T, s *Store, query string) []string {
	t.Helper()
	rows, err := s.db.Query(`EXPLAIN QUERY PLAN `+query, make([]any, arguments(query))...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var id, parent, unused int
	steps, err := collect(rows, func(line *string) []any { return []any{&id, &parent, &unused, line} })
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// arguments is how many a query has.
func arguments(query string) (n int) {
	for _, number := range regexp.MustCompile(`\?(\d?)`).FindAllStringSubmatch(query, -1) {
		if number[1] == "" {
			n++
		} else {
			n = max(n, int(number[1][0]-'0'))
		}
	}
	return n
}

// inOrder are scans that end with their first rows: of an index in the order that is asked for.
var inOrder = regexp.MustCompile(`^SCAN (o|q|queue) USING (COVERING )?INDEX (queue_ready|queue_back_off_ranked)$`)

// TestNothingScansTheQueueOrTheJournal: what is asked before every call, at every redraw, or
// by a command that shows a part of it. Sorting is for what was found, of which there is
// little; each query may sort as often as it is said here.
func TestNothingScansTheQueueOrTheJournal(t *testing.T) {
	s := open(t, t.TempDir())
	all, of := Filter{}, Filter{Job: "a"}
	for name, c := range map[string]struct {
		query string
		sorts int
	}{
		"next call":                     {all.next(), 2}, // the calls whose back-off is over, and the better one of two
		"next call of a job":            {of.next(), 3},  // and of a job the same of what it shares
		"whether a call waits":          {all.pending(), 0},
		"whether a call of a job waits": {of.pending(), 0},
		"next retry":                    {all.retry(), 0},
		"next retry of a job":           {of.retry(), 0},
		"how many wait":                 {queued, 0},
		"how many of a job wait":        {queuedOf, 0},
		"what is known":                 {fresh, 0},
		"first places":                  {all.places(), 2},
		"first places of a job":         {of.places(), 6},
		"last place of a job":           {last(), 6},
		"calls between two places":      {between(), 0},
		"calls in back-off":             {backedOff, 2},
		"tasks at places":               {details, 1},
		"what a job gives up":           {wants("queue"), 0},
		"what a job does not share":     {wants("queue_others"), 0},
		"last search":                   {lastSearched, 0},
		"searches for the same":         {searched, 0},
		"sightings":                     {bringings, 1},
		"calls about an id":             {callsAbout, 0},
		"calls of a page":               {callsOfPage, 0},
	} {
		sorts := 0
		for _, step := range explain(t, s, c.query) {
			if strings.Contains(step, "TEMP B-TREE") {
				sorts++
			}
			for _, table := range []string{"o", "q", "queue", "queue_others", "attempts", "responses", "run_hits", "h", "steps", "a", "r"} {
				if step == "SCAN "+table || strings.HasPrefix(step, "SCAN "+table+" ") && !inOrder.MatchString(step) {
					t.Errorf("%s is looked for by %q in\n%s", name, step, strings.Join(explain(t, s, c.query), "\n"))
				}
			}
		}
		if sorts > c.sorts {
			t.Errorf("%s is sorted %d times, want %d:\n%s", name, sorts, c.sorts, strings.Join(explain(t, s, c.query), "\n"))
		}
	}
}
