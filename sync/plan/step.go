package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
)

// Step is one search of a run, resolved when the run began, and its progress.
type Step struct {
	ID      int64
	Run     string
	Ordinal int
	Query   outlier.Query
	Item    string // the for_each value
	Queries []string
	Seeds   []string
	Window  string // publication dates "2026-11-01..2026-11-14"; either may be missing

	Watermark string // identity of the search; "" if it has none
	Scan      string // id of the scan whose results the step reads; "" for other steps
	Paid      bool   // the scan of the step was paid for, or may have been, and is not read; not stored
	Joined    int64  // intent of the scan that another step has started and this one waits for; 0 if none
	Origin    int64  // the first of the steps that this one continues; 0 if it continues none

	Began   time.Time // service time at which page one was requested; zero before
	Next    int       // the page to take next, 0-based
	Pages   int       // taken
	Hits    int
	NewHits int
	Seen    int             // distinct hits, including those of the steps that this one continues
	Total   int64           // the highest total that the service has reported; -1 while unknown
	Reading string          // what `from` counts, as learned from its pages: "page", "offset", or ""
	Stop    string          // why no further page is taken; "" while open
	Credits outlier.Credits // cost of its attempts from the ledger, including those of unknown outcome
	Unread  int             // of Hits, those that could not be stored
	Reused  int             // pages taken from the journal instead of bought
	Left    int             // pages left when it ended, for whatever reason; -1 if unknown

	outlier.Tries // of its next call
}

// Name returns a readable name of a step's search: its queries or seeds, or else the value of for_each
// or the operation.
func (s *Step) Name() string {
	return cmp.Or(strings.Join(s.Queries, ", "), strings.Join(s.Seeds, ", "), s.Item, string(s.Query.Op()))
}

// Title returns the operation of a step and what it searches for.
func (s *Step) Title() string {
	for _, words := range [][]string{s.Queries, s.Seeds} {
		if len(words) > 0 {
			return fmt.Sprintf("%s %q", s.Query.Op(), words)
		}
	}
	return string(s.Query.Op())
}

// ScanIdentity returns what makes two scans the same: what they search for and how, with the queries in any order.
func ScanIdentity(findBy, mode string, queries []string) string {
	return fmt.Sprintf("%s %s %q", findBy, mode, slices.Sorted(slices.Values(queries)))
}
