package forecast

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/outlier/simulator"
	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// queueOf returns the whole queue of a job.
func queueOf(e *engine.Engine, name string) (all []Waiting, err error) {
	for w, err := range forecasts(e).Queue(name) {
		if err != nil {
			return all, err
		}
		all = append(all, *w)
	}
	return all, nil
}

// workshop is a state folder and a service to run jobs against, without sinks. Opening an
// engine on it, closing it and opening another is what a restart is.
type workshop struct {
	*testing.T
	dir     string
	service *simulator.Service
	wire    http.RoundTripper // the service's, unless a test replaces it
	config  *job.Config
	ctx     context.Context
}

// forecasts returns a Reader as commands have it.
func forecasts(e *engine.Engine) *Reader {
	return &Reader{Reader: e.Facts(), Pace: e.Pace, Key: e.Client.Key.Fingerprint()}
}

const testKey = "a-key-for-tests"

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
func (w *workshop) open() (*engine.Engine, func()) {
	w.Helper()
	folder := filepath.Join(w.data(), "state")
	store, err := state.Open(w.ctx, folder, state.Options{
		Service: w.config.Service.URL, Location: w.config.Timezone, Renews: w.config.Budget.Renews,
	})
	if err != nil {
		w.Fatal(err)
	}
	store.Clock.Confirm()
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
	e := &engine.Engine{
		Config: w.config, Store: store, Pace: limiter,
		Client: &outlier.Client{URL: "http://localhost", Key: key, Pacer: limiter, Transport: w.wire},
	}
	return e, func() {
		if err := store.Close(); err != nil {
			w.Error(err)
		}
	}
}

// run runs the only job once, in an engine of its own.
func (w *workshop) run() (*runs.Run, error) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	return runJob(w.ctx, e, &w.config.Jobs[0], engine.Manual, time.Time{})
}

// mustRun is run for tests that expect the given end.
func (w *workshop) mustRun(want runs.Status) *runs.Run {
	w.Helper()
	row, err := w.run()
	if err != nil || row.Status != want {
		w.Fatalf("run ended as %+v with error %v, want status %s", row, err, want)
	}
	return row
}

// bare runs a test in virtual time.
func bare(t *testing.T, file string, test func(w *workshop)) {
	synctest.Test(t, func(t *testing.T) { test(newWorkshop(t, file)) })
}

type roundTripper func(*http.Request) (*http.Response, error)

// contextFor returns a context that ends after d, as when the process is stopped.
func contextFor(w *workshop, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.ctx, d)
}

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// inspect opens an engine for a function, without performing a run.
func (w *workshop) inspect(look func(e *engine.Engine)) {
	w.Helper()
	e, stop := w.open()
	defer stop()
	look(e)
}

// settle settles an unconfirmed scan as a person would, by whether the service has the scan.
func (w *workshop) settle(intent int64) {
	w.Helper()
	w.inspect(func(e *engine.Engine) {
		var err error
		if ids := w.started(); len(ids) > 0 {
			_, err = e.AdoptScan(w.ctx, ids[0], 0)
		} else {
			_, err = e.Store.Scans.Settle(intent, runs.Scan{State: runs.ScanNotCreated})
		}
		if err != nil {
			w.Fatal(err)
		}
	})
}

// started returns the scans that the service has started, with or without a received answer.
func (w *workshop) started() (ids []string) {
	for _, call := range w.service.Books().Calls {
		if call.Scan != "" {
			ids = append(ids, call.Scan)
		}
	}
	return ids
}

const scanFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  niche:
    scan:
      query: [espresso machine repair]
      poll: 1m..10m
      deadline: 6h
      read: {pages: 3}
    budget: {per_run: 60}
`

// foreseen returns the current forecast, and what the cycle of January holds.
func (w *workshop) foreseen() (f *Forecast, held outlier.Credits) {
	w.Helper()
	w.inspect(func(e *engine.Engine) {
		var err error
		if f, err = forecasts(e).Forecast(w.ctx); err != nil {
			w.Fatal(err)
		}
		if held, err = e.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeMonth, Period: "2000-01-01"}); err != nil {
			w.Fatal(err)
		}
	})
	return f, held
}

// performed runs jobs by hand, one after another, with overrides, and returns how each run ended.
func (w *workshop) performed(o job.Overrides, names ...string) map[string]runs.Status {
	w.Helper()
	ended := map[string]runs.Status{}
	w.inspect(func(e *engine.Engine) {
		for _, name := range names {
			spec := *w.config.Job(name)
			if !reflect.DeepEqual(o, job.Overrides{}) {
				var err error
				if spec, err = spec.With(o); err != nil {
					w.Fatal(err)
				}
			}
			row, err := runJob(w.ctx, e, &spec, engine.Manual, time.Time{})
			if row == nil {
				w.Fatalf("%s: %v", name, err)
			}
			ended[name] = row.Status
		}
	})
	return ended
}

// serve runs the schedule for a while and returns the runs that began, oldest first.
func (w *workshop) serve(d time.Duration) []runs.Run {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	return w.serveUntil(ctx)
}

// serveUntil runs the schedule until ctx ends.
func (w *workshop) serveUntil(ctx context.Context) []runs.Run {
	w.Helper()
	e, stop := w.open()
	defer stop()
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	e.Serve(ctx)
	rows, err := e.Store.Runs.List("", 0)
	if err != nil {
		w.Fatal(err)
	}
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

// namingFile has a job that names channels, one that keeps what it has for a week, and one
// of videos.
const namingFile = `
version: 1
service: {url: "sim://", limit: 10/min}
lists: {rivals: [%s]}
jobs:
  rivals: {every: 8h, channels: {id: {list: rivals}, fetch: channel_videos}}
  weekly: {every: 8h, channels: {id: {list: rivals}, fetch: channel_videos, refresh_after: 7d}}
  saved: {every: 8h, videos: {id: [%s], fetch: [details, transcript]}}
`

// naming makes the workshop use namingFile, or only one of its jobs, with two channels and a video of the
// service.
func (w *workshop) naming(only string) {
	w.Helper()
	w.use(`{version: 1, service: {url: "sim://", limit: 10/min}, jobs: {one: {search: {query: espresso}}}}`)
	row := w.mustRun(runs.OK)
	var channels []string
	video := ""
	w.inspect(func(e *engine.Engine) {
		hits, err := e.Store.Hits.Best(row.ID, runs.Choice{Most: 40, Desc: true})
		if err != nil {
			w.Fatal(err)
		}
		for _, hit := range hits {
			if !slices.Contains(channels, hit.ChannelID) && len(channels) < 2 {
				channels = append(channels, hit.ChannelID)
			}
			video = hit.VideoID
		}
	})
	w.use(fmt.Sprintf(namingFile, strings.Join(channels, ", "), strconv.Quote(video)))
	if only != "" {
		w.config.Jobs = []job.Spec{*w.config.Job(only)}
	}
}

const sharedFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  a: {search: {query: [home espresso]}, enrich: {details: {}}}
  b: {search: {query: [home espresso]}, enrich: {details: {}, comments: {top: 1}}}
`

const pagesFile = `
version: 1
service: {url: "sim://", limit: 600/min}
budget: {per_month: 400}
jobs:
  one: {search: {query: [home espresso], where: {z_score: 4..}, pages: all}, budget: {per_run: 60}}
`

const day = 24 * time.Hour

// anHour makes scans complete after an hour.
var anHour = simulator.Options{Scans: func(string) []simulator.Phase {
	return []simulator.Phase{simulator.Phase{Status: "Queued", Lasts: 90 * time.Second}, simulator.Phase{Status: "Running", Lasts: 58*time.Minute + 30*time.Second}, simulator.Phase{Status: "Completed"}}
}}

// runJob performs the run of a job for a due time; a zero one is that of a manual run.
func runJob(ctx context.Context, e *engine.Engine, spec *job.Spec, trigger engine.Trigger, due time.Time) (*runs.Run, error) {
	return e.Perform(ctx, &engine.Order{Spec: spec, Trigger: trigger, Due: due})
}
