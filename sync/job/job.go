// Package job reads jobs.yaml. The result is complete: variables are expanded, filters are merged, and
// all limits are checked. For an invalid file it returns [yamltree.Mistakes]: all mistakes at once, each
// with its line and column, the text of the line and, if there is one, the remedy.
//
// Reading has several steps, and each rule belongs to only one of them:
//
//  1. Package yamltree parses the file into a tree with positions. Included files join it (include.go).
//  2. One walk over the tree checks each value by the JSON Schema, which is the table of all keys: it expands
//     ${VAR} and ${file:…}, checks keys, types, words, and names of other sections, and parses texts by their form
//     (keys.go). A ${name} that may belong to a job's for_each stays a template, and ${command: …} is run later
//     (command.go).
//  3. The values are stored in the fields that are tagged with their keys (keys.go).
//  4. Go checks the meaning: settings (settings.go, notify.go, daemon.go), jobs (jobs.go), what
//     they request (verbs.go, ask.go, where.go, lists.go) and fetch for their hits (enrich.go), what that
//     costs (money.go), and what is allowed but probably a mistake (warnings.go). The limits of
//     parameters are the service's, and are in package outlier.
//
// A step does not read a value that an earlier one has refused, so one mistake gives one message. The
// result is plain data: a [Spec] for each job (spec.go), with templates of its requests (template.go).
// [Spec.Resolve] (resolve.go) adds what is known only when the job runs: the time, files, and results
// of SQL.
package job

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/yamltree"
)

// The values of service.paging: what the service counts with `from`, which the interface describes as a
// page but may be an offset of items.
const (
	PagingAuto   = "auto" // learned from the first second page
	PagingPage   = "page"
	PagingOffset = "offset"
)

// Config is a jobs.yaml without mistakes.
type Config struct {
	Path     string         // of the file, as given
	Dir      string         // absolute path of its folder, to which relative paths refer
	Service  Service        `key:"service"`
	Timezone *time.Location `key:"timezone"` // of schedules, dates, days and billing cycles
	Data     string         `key:"data"`     // absolute path of the data folder
	Budget   Budget         `key:"budget"`
	Sinks    []Sink         `key:"sinks"`

	SinksDownAfter time.Duration `key:"sinks_down_after"` // nothing is bought once no sink has worked for this long

	Retention time.Duration `key:"retention.journal"` // age up to which the journal keeps bodies; 0 for all

	Backup *Backup // that the daemon makes; nil for none

	Tables []Table // of which something is left out, in the order of the file

	Targets []Target // of notifications, in the order of the file
	Alerts  []Alert  // in the order of the file
	Reports []Report // in the order of the file

	Questions []Question // in the order of the file

	Daemon     Daemon     `key:"daemon"`
	Assistants Assistants `key:"mcp"`

	CommentAuthors string `key:"privacy.comment_authors"` // what is stored of them: AuthorsKeep, AuthorsHash or AuthorsDrop

	Include []string `key:"include"` // other files with more jobs, targets and so on

	Jobs     []Spec             // in the order of the file, and of those that it includes
	Warnings []yamltree.Mistake // what is allowed but probably a mistake, in the order of the file

	// Fingerprint identifies the texts of the files and the values of their ${…}.
	Fingerprint string

	// The input, so that [Config.Once] can read it again.
	sources  []source // the file and those that it includes
	files    map[string]*yamltree.File
	needs    needs
	commands bool              // some ${…} is a command
	worded   map[string]string // the settings besides jobs, in the words of the file
	env      func(string) (string, bool)
}

// The values of privacy.comment_authors: what is stored of the authors of comments.
const (
	AuthorsKeep = "keep"
	AuthorsHash = "hash" // hashes of their ids, specific to this data folder
	AuthorsDrop = "drop"
)

// Files names the file, and says how many others it includes.
func (c *Config) Files() string {
	switch n := len(c.sources) - 1; n {
	case 0:
		return c.Path
	case 1:
		return c.Path + " with 1 included file"
	default:
		return fmt.Sprintf("%s with %d included files", c.Path, n)
	}
}

// Job returns the job with this name, or nil.
func (c *Config) Job(name string) *Spec {
	return find(c.Jobs, func(s *Spec) bool { return s.Name == name })
}

// Target returns the target of notifications with this name, or nil.
func (c *Config) Target(name string) *Target {
	return find(c.Targets, func(t *Target) bool { return t.Name == name })
}

// Report returns the report with this name, or nil.
func (c *Config) Report(name string) *Report {
	return find(c.Reports, func(r *Report) bool { return r.Name == name })
}

// find returns the first member of a list that is the wanted one, or nil.
func find[T any](all []T, isWanted func(*T) bool) *T {
	for i := range all {
		if isWanted(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Tags returns the tags of all jobs, in alphabetical order.
func (c *Config) Tags() []string {
	var all []string
	for i := range c.Jobs {
		all = append(all, c.Jobs[i].Tags...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Service has the service's address, key, limits and prices.
type Service struct {
	URL       string         `key:"url"`    // without a trailing slash; "sim://" is the built-in simulator
	Key       outlier.Key    `key:"key"`    // empty for the simulator
	Limit     pace.Quota     `key:"limit"`  // until the service's answers show another one
	Paging    string         `key:"paging"` // PagingAuto, PagingPage or PagingOffset
	Arrays    outlier.Arrays `key:"arrays"`
	Prices    outlier.Prices `key:"prices"`     // only those that the file sets
	Share     float64        `key:"share"`      // share of the limit to use, in (0, 1]
	MaxWait   time.Duration  `key:"max_wait"`   // maximum wait for the rate limit; 0 for the limiter's default
	AllowHTTP bool           `key:"allow_http"` // allows a key over plain HTTP to another machine
	CAFile    string         `key:"ca_file"`    // absolute path of a private CA's certificates; "" for the system's
}

// Simulated reports whether the service is the built-in simulator, which costs nothing and needs no key.
func (s Service) Simulated() bool { return s.URL == Simulator }

// Simulator is the service.url of the built-in simulator.
const Simulator = "sim://"

// Budget has the caps of all jobs together. A nil amount is no cap.
type Budget struct {
	PerMonth *outlier.Credits `key:"per_month"` // per billing cycle; nil only for the simulator
	PerDay   *outlier.Credits `key:"per_day"`
	Reserve  *outlier.Credits `key:"reserve"` // part of PerMonth that only `run --use-reserve` may spend
	Renews   int              `key:"renews"`  // day of the month on which a cycle begins, 1 to 31
	Pace     string           `key:"pace"`    // PaceEven, or "" for first come, first served
	ByHand   *outlier.Credits `key:"by_hand"` // of PerMonth for one-off requests, which no job buys

	ConfirmOver *outlier.Credits `key:"confirm_over"` // ask before a run that may cost more
}

// Scheduled returns what runs that do not use the reserve may hold in a billing cycle; nil for no cap.
func (b *Budget) Scheduled() *outlier.Credits {
	if b.PerMonth == nil || b.Reserve == nil {
		return b.PerMonth
	}
	return new(*b.PerMonth - *b.Reserve)
}

// PaceEven is the budget.pace that spreads what is left over the rest of the cycle.
const PaceEven = "even"

// Sink is one destination of the tables.
type Sink struct {
	Kind string // SinkDuckDB, SinkParquet or SinkIceberg
	Path string // a file or folder relative to the data folder and inside it; "" for a lake

	// Bucket is where the files of a Parquet folder are copied to: s3://bucket, s3://bucket/prefix, or
	// az://container/prefix on Azure; "" for nowhere.
	Bucket string

	Lake *Lake // only for SinkIceberg
}

// Lake is the location of Iceberg tables.
type Lake struct {
	Catalog   string `key:"catalog"`   // absolute path of a SQLite file, or an address, which may contain a password
	Warehouse string `key:"warehouse"` // an absolute path, s3://bucket/prefix, or a REST catalog's name; "" for its default
	Namespace string `key:"namespace"`
}

// Place returns an identifier of the lake without user and password. It differs between lakes.
func (l *Lake) Place() string {
	catalog := l.Catalog
	if u, err := url.Parse(catalog); err == nil && u.Scheme != "" {
		query := u.Query()
		query.Del("user")
		query.Del("password")
		u.User, u.RawQuery = nil, query.Encode()
		catalog = u.String()
	}
	return fmt.Sprintf("namespace %s of the lake %s", l.Namespace, catalog)
}

// parquetFolder is the folder of a Parquet sink whose files are copied to a bucket.
const parquetFolder = "parquet"

// The kinds of sinks.
const (
	SinkDuckDB  = "duckdb"
	SinkParquet = "parquet"
	SinkIceberg = "iceberg"
)

// Mistake returns a mistake that another package has found in the file, such as SQL that refers to an
// unknown table, in the form of all other mistakes.
func (c *Config) Mistake(at yamltree.Place, message, hint string) yamltree.Mistake {
	file := c.files[at.File]
	if file == nil { // the command line
		file = yamltree.New(at.File, nil, withoutKeys)
	}
	return file.Mistake(at.Line, at.Column, message, hint)
}
