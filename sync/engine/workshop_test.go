package engine

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sinks/parquet"
	"outlierd/sinks/warehouse"
	"outlierd/sync/job"
	"outlierd/sync/load"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// workshop is a data folder and a service. To restart, a test closes the engine and opens another one.
type workshop struct {
	*testing.T
	dir     string
	service *simulator.Service
	wire    http.RoundTripper // the service's, unless a test replaces it
	config  *job.Config
	ctx     context.Context
	fake    fakeWarehouse                     // of [workshop.line]
	bare    bool                              // without sinks, which most tests do not need
	single  bool                              // with only the DuckDB sink, for long tests
	asks    bool                              // request the time from the service; else the clock is confirmed
	pacer   func(outlier.Pacer) outlier.Pacer // wraps the pacer; nil for none
	log     *slog.Logger                      // nil for none
	free    func(string) (uint64, error)      // returns the free space of the disk; nil asks the file system
	begin   func()                            // called before each transaction; nil for nothing
}

const testKey = "a-key-for-tests"

// littleRoom is the free space that tests require, in bytes. A part of it is written at each open; with
// the default that would be 32 MiB.
const littleRoom = 1 << 20

// jobsFile is the job that most tests run.
const jobsFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  coffee:
    search:
      query: [home espresso]
      sort: z_score desc
      pages: 2
    enrich:
      channel_videos: {top: 3}
      details: {top: 4}
      comments: {top: 3}
      transcript: {top: 5}
    budget: {per_run: 20}
`

// searchFile is that job without data calls.
var searchFile, _, _ = strings.Cut(jobsFile, "    enrich:\n")

func newWorkshop(t *testing.T, file string) *workshop {
	t.Helper()
	w := &workshop{T: t, dir: t.TempDir(), ctx: t.Context()}
	w.renew(simulator.Options{})
	w.use(file)
	return w
}

// renew replaces the service.
func (w *workshop) renew(o simulator.Options) {
	o.Seed, o.Key = cmp.Or(o.Seed, 1), testKey
	w.service = simulator.New(o)
	w.wire = w.service.Transport()
	if o.Freeze {
		w.wire = slow{w.wire, 0} // a date that stands still would differ ever more from the local clock
	}
}

// use replaces the job file.
func (w *workshop) use(file string) {
	w.Helper()
	none := func(string) (string, bool) { return "", false }
	config, err := job.Parse(filepath.Join(w.dir, "jobs.yaml"), []byte(file), none)
	if err != nil {
		w.Fatal(err)
	}
	w.config = config
}

// data returns the data folder.
func (w *workshop) data() string { return filepath.Join(w.dir, "data") }

// open starts an engine; the returned function stops it.
func (w *workshop) open() (*Engine, func()) {
	w.Helper()
	folder := filepath.Join(w.data(), "state")
	if err := prepare(w.data()); err != nil {
		w.Fatal(err)
	}
	store, err := state.Open(w.ctx, folder, state.Options{
		Service: w.config.Service.URL, Location: w.config.Timezone, Renews: w.config.Budget.Renews,
		Options: store.Options{MinFree: littleRoom, FreeSpace: w.free, Begin: w.begin}, Apply: (&Engine{Config: w.config, Log: w.log}).Apply,
	})
	if err != nil {
		w.Fatal(err)
	}
	if err := store.DB.Execute("PRAGMA synchronous = off"); err != nil { // tests kill processes, not machines
		w.Fatal(err)
	}
	if !w.asks {
		store.Clock.Confirm()
	}
	limiter, err := pace.Open(w.config.Service.Limit, pace.Options{
		Path: filepath.Join(folder, "pace.json"), Share: w.config.Service.Share, MaxWait: w.config.Service.MaxWait,
	})
	if err != nil {
		w.Fatal(err)
	}
	key, err := outlier.NewKey(testKey)
	if err != nil {
		w.Fatal(err)
	}
	e := &Engine{
		Config: w.config, Store: store, Pace: limiter, IDs: w.seeds, Log: w.log,
		Client: &outlier.Client{URL: "http://localhost", Key: key, Pacer: limiter, Transport: w.wire},
	}
	if w.pacer != nil {
		e.Client.Pacer = w.pacer(limiter)
	}
	closers := []func() error{store.Close}
	if !w.bare {
		closers = append(closers, w.openSinks(e, folder)...)
	}
	slices.Reverse(closers)
	return e, func() {
		for _, stop := range closers {
			if err := stop(); err != nil {
				w.Error(err)
			}
		}
	}
}

// openSinks opens the warehouse and both copies for the engine and returns functions that close them.
func (w *workshop) openSinks(e *Engine, folder string) []func() error {
	w.Helper()
	rows := warehouse.New(warehouse.Options{
		Path: filepath.Join(folder, warehouse.Name), Older: []warehouse.Older{warehouse.Published(w.duckdb())},
		Temp: filepath.Join(folder, "tmp"), Tables: schema.AllTables(),
	})
	file := duckdb.New(rows, w.duckdb(), filepath.Join(folder, "tmp"))
	e.Line = load.Line{Warehouse: rows, Copies: []sinks.Copy{file}}
	if w.single {
		return []func() error{rows.Close, file.Close}
	}
	files := parquet.New(rows, parquet.Options{Dir: filepath.Join(w.data(), "parquet")})
	e.Line.Copies = append(e.Line.Copies, files)
	return []func() error{rows.Close, file.Close, files.Close}
}

// seeds runs the SQL of jobs on the published file, at the virtual time.
func (w *workshop) seeds(ctx context.Context, sql, column string) ([]string, error) {
	sql = strings.ReplaceAll(sql, "now()", time.Now().UTC().Format("timestamptz '2006-01-02 15:04:05Z'"))
	return query.Process{}.Query(ctx, query.IDs{Path: w.duckdb(), Column: column, Zone: w.config.Timezone}, sql)
}

func (w *workshop) duckdb() string { return filepath.Join(w.data(), "outliers.duckdb") }

// run runs the only job once, in an engine of its own.
func (w *workshop) run() (*runs.Run, error) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	return e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
}

// mustRun is run, and fails the test if the run ends in another way.
func (w *workshop) mustRun(want runs.Status) *runs.Run {
	w.Helper()
	row, err := w.run()
	if err != nil || row.Status != want {
		w.Fatalf("run ended as %+v with error %v, want status %s", row, err, want)
	}
	return row
}

// count queries the published file for one number.
func (w *workshop) count(sql string) (n int) {
	w.Helper()
	for _, values := range w.ask(sql) {
		switch v := values[0].(type) {
		case int64:
			n = int(v)
		case int32:
			n = int(v)
		default:
			w.Fatalf("%s: the answer %v is not a number", sql, v)
		}
	}
	return n
}

// rows returns the rows of a query of the published file, as text.
func (w *workshop) rows(sql string) (all []string) {
	w.Helper()
	for _, values := range w.ask(sql) {
		row := make([]any, len(values))
		for i, v := range values {
			row[i] = v
		}
		all = append(all, fmt.Sprint(row...))
	}
	return all
}

// ask queries the published file.
func (w *workshop) ask(sql string) [][]driver.Value {
	w.Helper()
	reader.Lock()
	defer reader.Unlock()
	_, err := reader.Exec(w.ctx, fmt.Sprintf("ATTACH %s AS outliers (READ_ONLY); USE outliers", database.Text(w.duckdb())))
	var rows [][]driver.Value
	if err == nil {
		rows, err = reader.Query(w.ctx, sql)
		_, closed := reader.Exec(w.ctx, "USE memory; DETACH outliers")
		err = errors.Join(err, closed)
	}
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, file string, test func(w *workshop)) {
	synctest.Test(t, func(t *testing.T) { test(newWorkshop(t, file)) })
}

// bare is a bubble without sinks, for tests of the ledger and of the service's calls.
func bare(t *testing.T, file string, test func(w *workshop)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t, file)
		w.bare = true
		test(w)
	})
}

// single is a bubble with only the DuckDB sink, for tests of its tables. Other tests compare both
// sinks.
func single(t *testing.T, file string, test func(w *workshop)) {
	bubble(t, file, func(w *workshop) {
		w.single = true
		test(w)
	})
}

// calls returns how often the service was called.
func (w *workshop) calls(op outlier.Operation) int { return w.service.Books().Operations[op].Calls }

// spent returns the credits that the service has charged.
func (w *workshop) spent() outlier.Credits { return w.service.Books().Total.Spent() }

// afterPages passes searches on to the service, and answers other calls itself.
func afterPages(wire http.RoundTripper, answer func() *http.Response) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/search/") {
			return wire.RoundTrip(r)
		}
		connect(r)
		return answer(), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// contextFor returns a context that ends after d, as when the process is stopped.
func contextFor(w *workshop, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.ctx, d)
}

// Run performs spec for a due time; a zero one is that of a manual run.
func (e *Engine) Run(ctx context.Context, spec *job.Spec, trigger Trigger, due time.Time) (*runs.Run, error) {
	return e.Perform(ctx, &Order{Spec: spec, Trigger: trigger, Due: due})
}

// see records jobs in the state, so that they are due from now on.
func (w *workshop) see(e *Engine, names ...string) {
	w.Helper()
	for _, name := range names {
		if err := e.Store.Schedule.SetNoted(name, time.Now()); err != nil {
			w.Fatal(err)
		}
	}
}
