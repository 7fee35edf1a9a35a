package job

import (
	"maps"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// Spec is one configured job, as plain data. The requests that it makes depend on the time, on files and on
// the state: see [Spec.Resolve].
type Spec struct {
	Name     string `json:"-"`
	Was      string `json:"-" key:"was"`   // its name before it was renamed; it inherits watermarks, caps and queue
	About    string `json:"-" key:"about"` // description for people; "" if there is none
	Disabled bool   `json:"-"`             // it is never due, and no other job starts it

	Schedule []string      `json:"-" key:"schedule"` // cron, five fields or a shorthand such as @daily; it is due when any is
	Every    time.Duration `json:"-" key:"every"`    // 0 for none; never together with Schedule
	Auto     bool          `json:",omitempty"`       // what a run buys is decided each day; see package plan
	AtLeast  time.Duration `json:"-"`                // with Auto: within which each topic is searched
	CatchUp  CatchUp       `json:"-" key:"catch_up"`
	Jitter   time.Duration `json:"-" key:"jitter"` // maximum delay of a run after its due time; see [Spec.Begins]
	After    string        `json:"-" key:"after"`  // the job whose published pages start this one; "" for none

	Verb       Verb
	Loops      []Loop        // for_each, in the order of the file
	SeedsFresh time.Duration // the same seeds are not bought again before; 0 for no limit, or without seeds
	Tags       []string      `json:"-" key:"tags"` // of groups of jobs, for command lines
	Budget     JobBudget     `json:"-" key:"budget"`
	Notify     []string      `json:"-" key:"notify"` // names of the file's notify

	Terms

	At yamltree.Place `json:"-"` // where the job stands

	// Request is a hash of what a run of the job asks for: of the fields that JSON has. It decides which unfinished
	// run an overridden one resumes. It does not depend on when the job is due, whom it notifies, its caps and
	// stop_after, how its scans are polled, and where the files of its lists are.
	Request string `json:"-"`

	Rest string `json:"-"` // the run that left what this one buys; see [Spec.RestOf]

	ask    template
	wanted *template      // which of the hits Enrich applies to; nil for all
	times  []cronTimes    // of Schedule
	quiet  quietHours     // in which no due time is
	zone   *time.Location // of windows

	once    *OneOff // the one-off request; see [Spec.Asked]
	changes *Overrides
}

// Terms are what a run keeps of its job when it begins, whatever becomes of the file.
type Terms struct {
	Settings map[string]string `json:"settings,omitempty"` // the job in the words of the file

	// Pages is the maximum of a search or of a scan's results; AllPages; 0 if the verb has none. A page with a share of
	// new ids below NewBelow is the last one. An answer younger than ReuseFor to an identical paid request is reused.
	Pages    int           `json:"pages,omitempty"`
	NewBelow float64       `json:"new_below,omitempty"`
	ReuseFor time.Duration `json:"reuse_for,omitempty" key:"reuse_for"`

	Scan  *Scan  `json:"scan,omitempty"`  // of a scan
	Fetch []Call `json:"fetch,omitempty"` // of channels and videos, in the order of the file

	Enrich []Call `json:"enrich,omitempty"` // what to fetch for the hits, in the order of the file
	Sort          // which hits are best, if Enrich takes only the top

	// StopAfter ends the run, but not its queue. MaxRequests includes free requests. 0 is no limit.
	StopAfter   time.Duration `json:"stop_after,omitempty" key:"stop_after"`
	MaxRequests int           `json:"max_requests,omitempty" key:"budget.max_requests"`

	// Of a run that a person overrides, which does not show what the file says; see [Spec.With].
	Overridden bool   `json:"overridden,omitempty"`
	Flags      string `json:"flags,omitempty"`       // of the command, as typed
	MoveCursor bool   `json:"move_cursor,omitempty"` // it moves cursors all the same
	Again      bool   `json:"again,omitempty"`       // it buys a scan even if the same one is live
	Backfill   *Dates `json:"backfill,omitempty"`    // the dates of a backfill; nil for other runs
}

// A Verb is what a job does. Its text is the key in jobs.yaml.
type Verb string

// The verbs. Every job has exactly one.
const (
	VerbSearch          Verb = "search"
	VerbRelated         Verb = "related"
	VerbScan            Verb = "scan"
	VerbChannels        Verb = "channels"
	VerbVideos          Verb = "videos"
	VerbFindChannels    Verb = "find_channels"
	VerbTrendingFormats Verb = "trending_formats"
)

// CatchUp says which missed due times run late.
type CatchUp string

// The values of catch_up.
const (
	CatchUpLatest CatchUp = "latest" // the last one; the default
	CatchUpAll    CatchUp = "all"    // each of them
	CatchUpNone   CatchUp = "none"   // none of them
)

// AllPages is the number of pages for `pages: all`: only the results and the budget limit it.
const AllPages = math.MaxInt32

// Loop is one name of for_each with its values.
type Loop struct {
	Name   string
	Source Source
}

// Source is where a list comes from. Exactly one of Values, File and SQL is set.
type Source struct {
	Values []string
	File   string         `json:"-"`          // absolute path of a text file with one value per line, or of a table if Field is set
	Name   string         `json:"-"`          // File for messages: quoted, as it is written
	Field  string         `json:",omitempty"` // the column of the table
	SQL    string         // a query of the user's tables
	At     yamltree.Place `json:"-"`

	nodes []*yamltree.Node // of Values, if they are in the job file
}

// Scan has the settings of a scan apart from what it searches for.
type Scan struct {
	Mode             string        `key:"mode"` // fast or standard, which determines the price
	PollMin, PollMax time.Duration // pause between two polls, at first and at most
	Deadline         time.Duration `key:"deadline"` // how long to wait for the scan
}

// Pages returns how many pages of a scan's results are wanted, at most the given number: the mode limits
// the number of outliers (interface, Limits, Scan thresholds).
func (s Scan) Pages(most int) int {
	outliers := 1000
	if s.Mode == outlier.ModeStandard {
		outliers = 2500
	}
	return min(most, (outliers+outlier.MaxSize-1)/outlier.MaxSize)
}

// Price returns the price of starting the scan, and the price of reading at most the given number of pages
// of its results, each of which costs as much as a page of a search.
func (s Scan) Price(prices outlier.Prices, most int) (start, reading outlier.Credits) {
	page := prices.Of(outlier.OpSearch, "")
	return prices.Of(outlier.OpStartScan, s.Mode), outlier.Credits(s.Pages(most)) * page
}

// JobBudget has the caps of one job. A nil amount is no cap.
type JobBudget struct {
	PerRun   *outlier.Credits `key:"per_run"`
	PerMonth *outlier.Credits `key:"per_month"`

	// MaxCredits is a cap that a person sets for one run, beside PerRun.
	MaxCredits *outlier.Credits `json:"-"`
}

// Sort is an order of hits by one of the values that the service sorts by (interface, GET
// /search/outliers, sortBy; for channels the order of their search).
type Sort struct {
	By        string `json:"sort,omitempty"` // "views", "zScore", …
	Ascending bool   `json:"ascending,omitempty"`
}

// SQL returns the SQL queries of the job, so that they can be tested before anything is spent.
func (s *Spec) SQL() []Query {
	var all []Query
	add := func(from Source, column string) {
		if from.SQL != "" {
			all = append(all, Query{from.SQL, column, from.At})
		}
	}
	for _, loop := range s.Loops {
		add(loop.Source, "")
	}
	for _, name := range slices.Sorted(maps.Keys(s.ask.From)) {
		add(s.ask.From[name], s.ask.sqlColumn(name))
	}
	return all
}

// Query is one SQL query of a job.
type Query struct {
	SQL      string
	IDColumn string // the column with the values; "" for the first one
	At       yamltree.Place
}

// SinceLastSuccess reports whether the job searches from where its last success began, which its
// cursors record.
func (s *Spec) SinceLastSuccess() bool {
	return s.ask.Window.Since || s.ask.Read != nil && s.ask.Read.Window.Since
}

// strengths are the orders that begin with the strongest hits, whenever they were published.
var strengths = []string{"views", "zScore", "averageViewsRatio", "revenue", "rpm"}

// StrongestAgain returns the order of a search for the strongest hits of a window that overlaps with that of the run
// before: it buys the same hits again. It returns "" for other jobs.
func (c *Config) StrongestAgain(spec *Spec) string {
	between := c.ScheduledBy(spec).shortestInterval()
	overlaps := spec.ask.Window.Since || between > 0 && spec.ask.Window.Last > between
	by := spec.ask.requestedSort()
	if spec.Verb != VerbSearch || !overlaps || by.Ascending || !slices.Contains(strengths, by.By) {
		return ""
	}
	return snakeCase(by.By) + " desc"
}
