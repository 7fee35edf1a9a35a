package plan

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// Stored is what a run keeps of its job in addition to the steps. It is written when the run
// begins and read when it resumes, so an edit of the file never changes a run that has begun.
type Stored struct {
	job.Terms // Pages is 1 if the verb has none

	UseReserve bool `json:"use_reserve,omitempty"` // it may spend the budget's reserve

	MaxCredits *outlier.Credits `json:"max_credits,omitempty"` // a cap that a person has set for as long as it goes on
	PerMonth   *outlier.Credits `json:"per_month,omitempty"`   // of its job when the run began

	// Unsure is the time that was assumed when the job was resolved, if the service had not
	// confirmed it.
	Unsure time.Time `json:"unsure,omitzero"`

	// EnrichWhere selects the hits for which something is fetched; see [Stored.HitParams].
	EnrichWhere string `json:"enrich_where,omitempty"`

	// Cap is the worst case when the run began, including lost answers. Most is the worst case
	// without per_run, which may be raised meanwhile.
	Cap  outlier.Credits `json:"cap"`
	Most outlier.Credits `json:"most,omitempty"`

	Auto *Auto `json:"auto,omitempty"` // what `schedule: auto` has decided

	Share *outlier.Credits `json:"share,omitempty"` // of the month, if it is less than the searches cost

	// Ends are the numbers of pages at which the steps end, by ordinal, in a run that buys what
	// another run left.
	Ends map[int]int `json:"ends,omitempty"`

	// For a watch: the ids about which Fetch asks. Since is its due time, or its start if a person began it.
	IDs   []string  `json:"ids,omitempty"`
	Since time.Time `json:"since,omitzero"`

	// Unknown are the channels of its lists whose ids are not known, as in [job.Resolved]: the run does not
	// ask for them, and ends as partial.
	Unknown []string `json:"unknown,omitempty"`

	// For scans, by the step's ordinal: those to be joined, as of the run's beginning, and how the results of each are
	// read.
	Joins map[int]string `json:"joins,omitempty"`
	Reads map[int]string `json:"reads,omitempty"` // parameters of a search, without the scan's id
}

// JudgedAt returns the time for which a watch decides what is fresh: now for a run that has not begun.
func (f *Stored) JudgedAt(now time.Time) time.Time { return cmp.Or(f.Since, now) }

// FreshSince returns the earliest time at which an answer for a watch must have been received to
// be fresh. It is relative to the due time, so that a resumed run asks for no more than before.
func (f *Stored) FreshSince(call job.Call, now time.Time) time.Time {
	return job.FreshSince(f.JudgedAt(now), call.RefreshAfter)
}

// Teaches reports whether the run moves the job's cursors and learns for later runs. A run that a
// person has overridden does so only if they ask for it.
func (f *Stored) Teaches() bool { return !f.Overridden || f.MoveCursor }

// BuyRest changes the plan of a run to that of a run that buys what it left; flags are those of
// the command that does so.
func (f *Stored) BuyRest(flags string) {
	f.Flags, f.Ends = flags, map[int]int{}
	f.Share, f.NewBelow, f.Auto = nil, 0, nil // the person wants all of it
	f.Again = false
	f.Unknown = nil // the run that left pages has named them
	f.Fetch, f.IDs, f.Scan, f.Joins, f.Reads = nil, nil, nil, nil, nil
	f.Unsure = time.Time{}
}

// CapFor returns the maximum that the run may hold, in credits: its worst case, or the job's
// per_run if that is less. A per_run that was changed since the run began applies at once. A person may have set
// less for this run.
func (f *Stored) CapFor(own job.JobBudget) outlier.Credits {
	most := f.Cap
	if own.PerRun != nil {
		most = min(*own.PerRun, f.Most)
	}
	for _, cap := range []*outlier.Credits{f.Share, own.MaxCredits} {
		if cap != nil {
			most = min(most, *cap)
		}
	}
	return most
}

// PagesOf returns the maximum number of pages of a step's search: the job's, or in a run that buys
// what another run left, the number in Ends, which includes the pages already taken.
func (f *Stored) PagesOf(ordinal int) int {
	if f.Ends != nil {
		return f.Ends[ordinal]
	}
	return f.Pages
}

// MostPages returns the largest number of pages of any search of the run.
func (f *Stored) MostPages() int {
	most := f.Pages
	if f.Ends != nil {
		most = 0
	}
	for _, end := range f.Ends {
		most = max(most, end)
	}
	return most
}

// ReadPages returns the maximum number of pages of each scan's results that the run reads.
func (f *Stored) ReadPages() int { return f.Scan.Pages(f.Pages) }

// HitParams returns the parameters of the [outlier.HitFilter] that selects hits; empty for all
// hits.
func (f *Stored) HitParams() url.Values {
	params, _ := url.ParseQuery(f.EnrichWhere) // it was encoded by us
	return params
}

// ReadOf returns the search that reads the results of a step's scan, without the scan's id.
func (f *Stored) ReadOf(ordinal int) outlier.Query {
	return outlier.UncheckedQuery(outlier.OpSearch, f.Reads[ordinal])
}

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
	Credits outlier.Credits `json:"credits"`               // cost of its attempts, also of unknown outcome
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
