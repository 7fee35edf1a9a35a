// Package job reads jobs.yaml. What comes out is ready to be acted on: variables are
// filled in, filters are merged, every bound has been checked. What cannot be acted
// on comes out as [Mistakes]: all of them at once, each with its line and column,
// the line itself and, where there is one, the remedy.
//
// Reading is a pipeline of layers, and each rule lives in one of them only:
//
//  1. size, depth and aliases are bounded, before anything is built (yaml.go);
//  2. YAML becomes a tree that knows its positions (yaml.go, node.go);
//  3. ${VAR} and ${file:…} are filled in, scalar by scalar (expand.go);
//  4. the JSON Schema judges the shape: keys, types, words (shape.go, jobs.schema.json);
//  5. Go judges the meaning: names, dates, schedules, money (build.go, spec.go, where.go).
//     The bounds of filters are the service's and live in package outlier.
//
// A value that one layer has refused is not looked at by the next, so that one
// mistake is one message.
package job

import (
	"cmp"
	"math"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
)

// AllPages is the number of pages of a search that only its results and the job's
// budget end: `pages: all`.
const AllPages = math.MaxInt32

// How the service counts `from`, which the interface calls a page but which may be
// an offset of items: the values of service.paging.
const (
	PagingPage   = "page"
	PagingOffset = "offset"
)

// Config is a whole jobs.yaml without mistakes.
type Config struct {
	Path     string // of the file, as it was given
	Dir      string // its folder, absolute: what relative paths are relative to
	Service  Service
	Timezone *time.Location // of schedules, dates and the turn of days and cycles
	Data     string         // the data folder, absolute
	Budget   Budget
	Sinks    []Sink
	Jobs     []Spec // in the order of the file
}

// Service says where the data comes from and how fast.
type Service struct {
	URL       string      // without a trailing slash; "sim://" is the built-in simulator
	Key       outlier.Key // empty for the simulator
	Limit     pace.Quota  // believed until the service's answers teach better
	Paging    string      // PagingPage or PagingOffset
	AllowHTTP bool        // permits a key over plain http to another machine
	CAFile    string      // absolute path of a private CA's certificates; "" for the system's
}

// Simulated reports whether the data comes from the built-in simulator, which costs
// nothing and needs no key.
func (s Service) Simulated() bool { return s.URL == Simulator }

// Simulator is the service.url of the built-in simulator.
const Simulator = "sim://"

// Budget is what all jobs together may spend. A nil amount is no cap.
type Budget struct {
	PerMonth *outlier.Credits // per billing cycle; nil only for the simulator
	PerDay   *outlier.Credits
	Reserve  *outlier.Credits // the part of PerMonth that only `run --use-reserve` touches
	Renews   int              // the day of the month on which a cycle begins, 1 to 31
}

// Sink is one place that results go to.
type Sink struct {
	Kind string // SinkDuckDB or SinkParquet
	Path string // relative to the data folder and inside it: a file or a folder
}

// The kinds of sinks.
const (
	SinkDuckDB  = "duckdb"
	SinkParquet = "parquet"
)

// Spec is one job as it is configured. It is plain data: two specs that would do the
// same have the same Hash.
type Spec struct {
	Name     string
	About    string        // for people; "" if nothing is said
	Schedule string        // cron, five fields or @daily and the like; "" if none
	Every    time.Duration // 0 if none; never together with Schedule

	Search     *Search // what to buy
	Enrich     []Enrich
	EnrichSort Sort // which hits come first when Enrich takes only the top
	Budget     JobBudget
	StopAfter  time.Duration // ends the run, not its queue; 0 if nothing does

	Line, Column int    // where the job stands in the file
	Hash         string // of everything above but Name, About and position, in hexadecimal
}

// JobBudget is what one job may spend. A nil amount is no cap.
type JobBudget struct {
	PerRun, PerMonth *outlier.Credits
}

// Search is a search as a job states it: a template, in which a window such as
// "last 30d" has yet to become dates.
type Search struct {
	Template  outlier.Search // everything but Published
	Pages     int            // at most so many; AllPages if the job does not say
	Published Window         // zero if published_at is absent or already dates in Template
}

// Window is a stretch of time that ends now.
type Window struct {
	Last time.Duration
	Zone *time.Location // whose midnights bound it; nil is UTC
}

// Resolve is the search to send when the time is now. A window begins at the
// midnight before, so that a search repeated within a day is the same request, which
// the service answers from its cache for nothing (interface, Credit rules 1).
func (s *Search) Resolve(now time.Time) outlier.Search {
	search := s.Template
	if s.Published.Last > 0 {
		search.PublishedAt.From = new(s.Published.begin(now).UTC())
	}
	return search
}

// begin counts whole days by the calendar, so that a change of the clocks within the
// window does not move its first day.
func (w Window) begin(now time.Time) time.Time {
	zone := cmp.Or(w.Zone, time.UTC)
	days := int(w.Last / (24 * time.Hour))
	year, month, day := now.In(zone).AddDate(0, 0, -days).Add(-(w.Last % (24 * time.Hour))).Date()
	return clock(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), zone)
}

// Enrich is one kind of free data to fetch for the hits of a run.
type Enrich struct {
	Op           outlier.Operation
	Top          int           // for so many of the best hits; 0 for all
	RefreshAfter time.Duration // how old an answer may be; 0 for the operation's default
}

// Sort is an order of hits, by one of the values that the service sorts by
// (interface, GET /search/outliers, sortBy).
type Sort struct {
	By        string // "views", "zScore", …
	Ascending bool
}
