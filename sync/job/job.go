// Package job reads jobs.yaml. The result is ready to be acted on: variables are filled
// in, filters are merged, every bound has been checked. A file that cannot be acted on
// gives [yamltree.Mistakes]: all of them at once, each with its line and column, the line
// itself and, where there is one, the remedy.
//
// Reading goes in steps, and each rule lives in one of them only:
//
//  1. package yamltree makes a tree of the file, with places, and fills in ${VAR} and
//     ${file:…}; a ${name} that may be a job's for_each stays a template;
//  2. the JSON Schema judges the shape: keys, types, words (shape.go, jobs.schema.json);
//  3. Go judges the meaning: what is configured (settings.go, notify.go, daemon.go), the jobs (jobs.go), what they
//     ask (verbs.go, ask.go, where.go, lists.go) and fetch for their hits (enrich.go), what
//     that costs (money.go), and what is allowed but probably a mistake (warnings.go). The bounds
//     of parameters are the service's and live in package outlier.
//
// A value that one step has refused is not read by the next, so that one mistake is one
// message. The result is plain data: a [Spec] for each job (spec.go), whose requests are
// templates (template.go). What only a run can know, the time, files and the results of
// SQL, is filled in by [Spec.Resolve] (resolve.go).
package job

import (
	"fmt"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/yamltree"
)

// How the service counts `from`, which the interface calls a page but which may be
// an offset of items: the values of service.paging.
const (
	PagingAuto   = "auto" // to be learned from the first second page
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

	SinksDownAfter time.Duration // once no sink has worked for so long, nothing is bought

	Retention Retention // of the journal

	Targets []Target // of notifications, in the order of the file
	Alerts  []Alert  // in the order of the file

	Questions []Question // in the order of the file

	Daemon Daemon

	CommentAuthors string // what is kept of them: AuthorsKeep, AuthorsHash or AuthorsDrop

	Jobs     []Spec             // in the order of the file
	Warnings []yamltree.Mistake // what is allowed but probably a mistake, in the order of the file

	// Fingerprint tells states of the file apart: its text, and what its ${…} stand for.
	Fingerprint string

	// What was read, so that [Config.Once] can read it again.
	src    []byte
	worded map[string]string // the settings besides jobs as the file words them
	env    func(string) (string, bool)
}

// What is kept of the authors of comments: the values of privacy.comment_authors.
const (
	AuthorsKeep = "keep"
	AuthorsHash = "hash" // their ids, as hashes that only this data folder makes
	AuthorsDrop = "drop"
)

// Job is the job of that name, or nil.
func (c *Config) Job(name string) *Spec {
	for i := range c.Jobs {
		if c.Jobs[i].Name == name {
			return &c.Jobs[i]
		}
	}
	return nil
}

// Service says where the data comes from and how fast.
type Service struct {
	URL       string      // without a trailing slash; "sim://" is the built-in simulator
	Key       outlier.Key // empty for the simulator
	Limit     pace.Quota  // believed until the service's answers teach better
	Paging    string      // PagingAuto, PagingPage or PagingOffset
	Arrays    outlier.Arrays
	Prices    outlier.Prices // those that the file changes
	Share     float64        // of the limit that is ours to use, above 0 and at most 1
	MaxWait   time.Duration  // how long a call may wait for the limit; 0 leaves it to the limiter
	AllowHTTP bool           // permits a key over plain http to another machine
	CAFile    string         // absolute path of a private CA's certificates; "" for the system's
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
	Pace     string           // PaceEven, or "" for first come, first served

	ConfirmOver *outlier.Credits // a person is asked before a run that may cost more
}

// PaceEven is the budget.pace that spreads what is left over the rest of the cycle.
const PaceEven = "even"

// Sink is one place that results go to.
type Sink struct {
	Kind string // SinkDuckDB, SinkParquet or SinkIceberg
	Path string // relative to the data folder and inside it: a file or a folder; "" of a lake

	// Bucket is where the files of a Parquet folder are copied to: s3://bucket,
	// s3://bucket/prefix, or az://container/prefix of Azure; "" is nowhere.
	Bucket string

	Lake *Lake // of a SinkIceberg
}

// Lake is where Iceberg tables are.
type Lake struct {
	Catalog   string // the absolute path of a SQLite file, or an address, which may hold a password
	Warehouse string // an absolute path, s3://bucket/prefix, or what a REST catalog calls it; "" leaves it to that
	Namespace string
}

// Place names the tables of the lake, without a user and a password. Two lakes have different places.
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

// Mistake words what another package found wrong with the file, such as SQL that names
// no table, as all other mistakes are worded.
func (c *Config) Mistake(line, column int, message, hint string) yamltree.Mistake {
	return yamltree.New(c.Path, c.src, withoutKeys).Mistake(line, column, message, hint)
}
