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
	ID      int64         `json:"-"`
	Run     string        `json:"-"`
	Ordinal int           `json:"-"`
	Query   outlier.Query `json:"-"`
	Item    string        `json:"item,omitempty"` // the for_each value
	Queries []string      `json:"queries,omitempty"`
	Seeds   []string      `json:"seeds,omitempty"`
	Window  string        `json:"window,omitempty"` // publication dates "2026-11-01..2026-11-14"; either may be missing

	Watermark string `json:"-"`                 // identity of the search; "" if it has none
	Scan      string `json:"scan_id,omitempty"` // id of the scan whose results the step reads; "" for other steps
	Paid      bool   `json:"-"`                 // the scan of the step was paid for, or may have been, and is not read; not stored
	Joined    int64  `json:"-"`                 // intent of the scan that another step has started and this one waits for; 0 if none
	Origin    int64  `json:"-"`                 // the first of the steps that this one continues; 0 if it continues none

	Began   time.Time       `json:"began_at,omitzero"` // service time at which page one was requested; zero before
	Next    int             `json:"-"`                 // the page to take next, 0-based
	Pages   int             `json:"pages"`             // taken
	Hits    int             `json:"hits"`
	Oldest  time.Time       `json:"-"` // publication of its oldest hit; zero if unknown
	NewHits int             `json:"new_hits"`
	Seen    int             `json:"seen"`                  // distinct hits, including those of the steps that this one continues
	Total   int64           `json:"total"`                 // the highest total that the service has reported; -1 while unknown
	Reading string          `json:"-"`                     // what `from` counts, as learned from its pages: "page", "offset", or ""
	Stop    string          `json:"stop_reason,omitempty"` // why no further page is taken; "" while open
	Credits outlier.Credits `json:"credits"`               // cost of its attempts from the ledger, including those of unknown outcome
	Unread  int             `json:"-"`                     // of Hits, those that could not be stored
	Reused  int             `json:"reused"`                // pages taken from the journal instead of bought
	Left    int             `json:"left_pages"`            // pages left when it ended, for whatever reason; -1 if unknown

	// Problem says why the run goes on without the step, which stays open unless it has a Stop; "" if it does not.
	// Capped is set if a cap, the credits or the clock keep it from being bought.
	Problem string `json:"-"`
	Capped  bool   `json:"-"`

	outlier.Tries `json:"-"` // of its next call
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
