package job

import (
	"maps"
	"math"
	"slices"
	"time"

	"outlierd/outlier"
)

// Spec is one job as it is configured. It is plain data: two specs that would do the
// same have the same Hash. What exactly it asks for depends on the time, on files and
// on what is known already: [Spec.Resolve] tells.
type Spec struct {
	Name     string
	Was      string // its name before it was renamed: whose watermark, caps and queue it inherits
	About    string // for people; "" if the file has none
	Disabled bool   // neither due by itself nor fired by another job

	Schedule string        // cron, five fields or @daily and the like; "" if none
	Every    time.Duration // 0 if none; never together with Schedule
	CatchUp  CatchUp
	Jitter   time.Duration `json:",omitempty"` // by which a run may begin later than it is due; see [Spec.Begins]
	After    string        // the job whose published pages fire this one; "" if none does

	Verb       Verb
	Loops      []Loop        // for_each, in the order of the file
	Pages      int           // at most, of a search or of a scan's results; AllPages; 0 if the verb has none
	NewBelow   float64       // a page with a smaller share of new ids is the last one; 0 for no such rule
	ReuseFor   time.Duration // an identical paid answer that is younger is used again; 0 for never
	SeedsFresh time.Duration // the same seeds are not bought again before; 0 for never or a verb without seeds
	Scan       *Scan         // of a scan
	Fetch      []Enrich      // of channels and videos, in the order of the file
	Enrich     []Enrich      // to fetch for the hits, in the order of the file
	EnrichSort Sort          // which hits come first when Enrich takes only the top
	Budget     JobBudget
	StopAfter  time.Duration // ends the run, not its queue; 0 if nothing does
	Notify     []string      // names of the file's notify

	Line, Column int    // where the job stands in the file
	Hash         string // of what it does, in hexadecimal: not of Name, Was, About, Disabled and position
	Flags        string `json:"-"`          // by which a person has overridden it, as they are typed
	MoveCursor   bool   `json:"-"`          // although it is overridden; see [Overrides]
	Again        bool   `json:",omitempty"` // this once a scan is bought even if one of the same is live
	Dates        *Dates `json:",omitempty"` // of a backfill; nil for all other runs
	Overridden   bool   `json:"-"`          // by a person, for this once; see [Spec.With]

	ask    template
	wanted *template         // which of the hits Enrich is for; nil for all
	times  times             // of Schedule, parsed when the file is read
	zone   *time.Location    // of windows
	worded map[string]string // the job as the file words it; see [Known]

	once     *OneOff // how a person asked for it; see [Spec.Asked]
	changes  *Overrides
	backfill *Backfill
}

// Verb names what a job does. Its text is the key in jobs.yaml.
type Verb string

// The verbs; every job has one.
const (
	VerbSearch          Verb = "search"
	VerbRelated         Verb = "related"
	VerbScan            Verb = "scan"
	VerbChannels        Verb = "channels"
	VerbVideos          Verb = "videos"
	VerbFindChannels    Verb = "find_channels"
	VerbTrendingFormats Verb = "trending_formats"
)

// CatchUp says what becomes of due times that passed while no process ran.
type CatchUp string

// The ways of catching up.
const (
	CatchUpLatest CatchUp = "latest" // the last one runs late; the default
	CatchUpAll    CatchUp = "all"    // each runs late
	CatchUpNone   CatchUp = "none"   // none runs
)

// AllPages is the number of pages of a search that only its results and the job's
// budget end: `pages: all`.
const AllPages = math.MaxInt32

// Loop gives one ${name} its values.
type Loop struct {
	Name   string
	Source Source
}

// Source is where a list comes from: exactly one of Values, File and SQL is set.
type Source struct {
	Values       []string
	File         string // absolute path of a text with one value per line, or of a table if Field is set
	Field        string `json:",omitempty"` // the column of a table of comma-separated values
	SQL          string // over the user's own tables
	Line, Column int    `json:"-"` // where it stands in the file
}

// Scan is what steers a scan besides what it scans for.
type Scan struct {
	Mode             string        // fast or standard, which decides about the price
	PollMin, PollMax time.Duration // between two looks at its status, backing off from the one to the other
	Deadline         time.Duration // after which it is not waited for any longer
}

// Pages is how many pages a scan's results can have of which at most so many are
// wanted: its mode decides how many outliers it ends at (interface, Limits, Scan
// thresholds).
func (s Scan) Pages(most int) int {
	outliers := 1000
	if s.Mode == outlier.ModeStandard {
		outliers = 2500
	}
	return min(most, (outliers+outlier.MaxSize-1)/outlier.MaxSize)
}

// Price is what starting the scan costs, and what reading its results of which at most so
// many pages are wanted: each is a page of a search.
func (s Scan) Price(prices outlier.Prices, most int) (start, reading outlier.Credits) {
	page := prices.Of(outlier.OpSearch, "")
	return prices.Of(outlier.OpStartScan, s.Mode), outlier.Credits(s.Pages(most)) * page
}

// JobBudget is what one job may spend. A nil amount is no cap.
type JobBudget struct {
	PerRun, PerMonth *outlier.Credits
	MaxRequests      int // in one run, free ones included; 0 for no cap
}

// Enrich is one kind of free data to fetch: for the hits of a run, or for the ids of
// a job of channels or videos.
type Enrich struct {
	Op           outlier.Operation
	Top          int           // for so many of the best hits; 0 for all
	RefreshAfter time.Duration // how old an answer may be; 0 for the operation's default
	Value        int           // what a call is worth beside others; 0 for the operation's default
	TopPerItem   int           `json:",omitempty"` // for so many of each search, of which Top counts; 0 for all
}

// Sort is an order of hits, by one of the values that the service sorts by
// (interface, GET /search/outliers, sortBy; for channels the order of their search).
type Sort struct {
	By        string // "views", "zScore", …
	Ascending bool
}

// SQL lists every SQL of the job, so that it can be tried before anything is spent.
func (s *Spec) SQL() []Query {
	var all []Query
	add := func(from Source, column string) {
		if from.SQL != "" {
			all = append(all, Query{from.SQL, column, from.Line, from.Column})
		}
	}
	for _, loop := range s.Loops {
		add(loop.Source, "")
	}
	for _, name := range slices.Sorted(maps.Keys(s.ask.From)) {
		add(s.ask.From[name], s.ask.column(name))
	}
	return all
}

// Query is one SQL of a job, and what is wanted of it.
type Query struct {
	SQL          string
	IDColumn     string // the column that has the values; "" for the first, whatever its name
	Line, Column int    // where it stands in the file
}

// SinceLastSuccess reports whether the job searches from where its last success began, which is
// what its cursors are for.
func (s *Spec) SinceLastSuccess() bool {
	return s.ask.Window.Since || s.ask.Read != nil && s.ask.Read.Window.Since
}

// PublishedAt is the job's published_at as the file has it; "" if it has none, and where a
// person has overridden it.
func (s *Spec) PublishedAt() string {
	if s.ask.Read != nil {
		return s.ask.Read.published
	}
	return s.ask.published
}
