package job

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/yamltree"
)

// plain compares what Parse gives: zones by name, keys by fingerprint.
var plain = cmp.Options{
	cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
	cmp.Comparer(func(a, b outlier.Key) bool { return a.Fingerprint() == b.Fingerprint() }),
	cmp.AllowUnexported(Secret{}),
	cmpopts.IgnoreUnexported(Config{}, Spec{}, Source{}),
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Config{}, "Warnings", "Fingerprint"),
	cmpopts.IgnoreFields(Spec{}, "Request"),
	cmpopts.IgnoreFields(Terms{}, "Settings"),
}

// sameQuery compares queries as values.
var sameQuery = cmpopts.EquateComparable(outlier.Query{})

// parse is the Config of a text without mistakes.
func parse(t *testing.T, text string) *Config {
	t.Helper()
	config, err := Parse("/etc/outlierd/jobs.yaml", []byte(text), environment)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// head is how the files of these tests begin.
const head = "version: 1\nservice: {url: \"sim://\"}\ntimezone: Europe/Berlin\n"

// noon is when jobs are resolved in these tests.
var noon = time.Date(2026, 11, 21, 11, 30, 0, 0, time.UTC)

// nothingKnown are the inputs of a first run whose SQL finds nothing.
func nothingKnown() Inputs {
	return Inputs{
		Now:   noon,
		Since: func(string) (time.Time, error) { return time.Time{}, nil },
		IDs:   func(string, string) ([]string, error) { return nil, nil },
	}
}

// asks is what a job asks when nothing is known.
func asks(t *testing.T, spec *Spec) []Ask {
	t.Helper()
	got, err := spec.Resolve(nothingKnown())
	if err != nil {
		t.Fatal(err)
	}
	return got.Asks
}

// search is what the first job asks first, in a text that goes on after head.
func search(t *testing.T, body string) url.Values {
	t.Helper()
	return asks(t, &parse(t, head+body).Jobs[0])[0].Query.Params()
}

// params are parameters as they are sent, from a query string.
func params(t *testing.T, encoded string) url.Values {
	t.Helper()
	params, err := url.ParseQuery(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestEveryKeyReachesTheConfig(t *testing.T) {
	got := parse(t, `
version: 1
service:
  url: https://api.example.com/v1/
  key: ${OUTLIERD_KEY}
  limit: 30/10s
  paging: offset
  arrays: comma
  share: 0.25
  max_wait: 2h
  prices: {search: 3, scan_fast: 60}
  allow_http: true
  ca_file: ca.pem
timezone: Europe/Berlin
data: ../data
budget: {per_month: 400, per_day: 60, reserve: 20, renews: on day 31, pace: even, confirm_over: 50}
sinks:
  - parquet: files/parquet
  - duckdb: out.duckdb
lists: {topics: [moka pot, 2024]}
filters: {breakout: {z_score: 2..}}
notify: {me: {webhook: "https://hooks.example.com/1"}}
jobs:
  coffee:
    about: Coffee
    was: espresso
    enabled: false
    schedule: "30 6 * * mon,thu"
    catch_up: all
    reuse_for: 1h
    notify: me
    for_each: {kind: [video, short]}
    search:
      query: {list: topics}
      by: lexical
      sort: average_views_ratio asc
      seed: 7
      where: {use: breakout, view_count: 5.., type: "${kind}"}
      pages: 3
      stop_when: {new_below: 12.5%}
    enrich:
      sort: views
      transcript: {}
      channel_videos: {top: 15, refresh_after: 7d}
    budget: {per_run: 6, per_month: 60, max_requests: 9}
    stop_after: 90m
  tea:
    every: 2w
    search: {query: tea, pages: all, sort: rpm asc}
    budget: {per_run: 10}
sinks_down_after: 2h
retention: {journal: 400d}
privacy: {comment_authors: hash}
daemon: {listen: "[::]:7411", token: "${OUTLIERD_TOKEN}", read_token: "${READ_TOKEN}", reload: signal, ui: off, thumbnails: direct, thumbnails_cache: 1GB, thumbnails_proxy: "http://proxy.example:3128"}
`)
	key, err := outlier.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path: "/etc/outlierd/jobs.yaml",
		Dir:  "/etc/outlierd",
		Service: Service{
			URL: "https://api.example.com/v1", Key: key, Limit: pace.Quota{Requests: 30, Window: 10 * time.Second},
			Paging: PagingOffset, Arrays: outlier.ArraysComma, Share: 0.25, MaxWait: 2 * time.Hour, Prices: outlier.Prices{"search": 3, "scan_fast": 60},
			AllowHTTP: true, CAFile: "/etc/outlierd/ca.pem",
		},
		Timezone: berlin(t),
		Data:     "/etc/data",
		Budget: Budget{
			PerMonth: new(outlier.Credits(400)), PerDay: new(outlier.Credits(60)), Reserve: new(outlier.Credits(20)), Renews: 31,
			Pace: PaceEven, ConfirmOver: new(outlier.Credits(50)),
		},
		Sinks: []Sink{{Kind: SinkParquet, Path: "files/parquet"}, {Kind: SinkDuckDB, Path: "out.duckdb"}}, SinksDownAfter: 2 * time.Hour,
		Retention: 400 * day, CommentAuthors: AuthorsHash,
		Targets: []Target{{
			Name: "me", Kind: TargetWebhook, URL: Secret{new("https://hooks.example.com/1")}, Host: "hooks.example.com", As: AsJSON,
		}},
		Daemon: Daemon{Listen: "[::]:7411", Token: Secret{new(secret + secret)}, ReadToken: Secret{new("read" + secret + secret)}, Reload: ReloadSignal, UI: UIOff, Thumbnails: ThumbnailsDirect,
			ThumbnailsCache: 1e9, ThumbnailsProxy: &url.URL{Scheme: "http", Host: "proxy.example:3128"}},
		Jobs: []Spec{{
			Name: "coffee", Was: "espresso", About: "Coffee", Disabled: true, Schedule: []string{"30 6 * * mon,thu"}, CatchUp: CatchUpAll,
			Verb:   VerbSearch,
			Loops:  []Loop{{"kind", Source{Values: []string{"video", "short"}, At: yamltree.Place{File: "/etc/outlierd/jobs.yaml", Line: 32, Column: 22}}}},
			Notify: []string{"me"},
			Terms: Terms{Pages: 3, NewBelow: 0.125, ReuseFor: time.Hour, Sort: Sort{By: "views"}, StopAfter: 90 * time.Minute, MaxRequests: 9,
				Enrich: []Call{
					{Op: outlier.OpTranscript, RefreshAfter: Once, Value: 3},
					{Op: outlier.OpChannelVideos, Top: 15, RefreshAfter: 7 * day, Value: 5},
				}},
			Budget: JobBudget{PerRun: new(outlier.Credits(6)), PerMonth: new(outlier.Credits(60))},
			At:     yamltree.Place{File: "/etc/outlierd/jobs.yaml", Line: 24, Column: 3},
		}, {
			Name: "tea", Every: 2 * week, CatchUp: CatchUpLatest, Verb: VerbSearch,
			Terms:  Terms{Pages: AllPages, ReuseFor: 6 * time.Hour, Sort: Sort{By: "rpm", Ascending: true}},
			Budget: JobBudget{PerRun: new(outlier.Credits(10))},
			At:     yamltree.Place{File: "/etc/outlierd/jobs.yaml", Line: 47, Column: 3},
		}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	asked := asks(t, &got.Jobs[0])
	for i, kind := range []string{"video", "short"} {
		want := params(t, "query=moka+pot&query=2024&by=lexical&seed=7&sortBy=averageViewsRatio&sortOrder=asc&"+
			"type="+kind+"&zScoreFrom=2&viewCountFrom=5")
		if diff := cmp.Diff(want, asked[i].Query.Params()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestWhatIsNotSaidHasDefaults(t *testing.T) {
	got := parse(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {a: {search: {query: x}}}\n")
	want := &Config{
		Path: "/etc/outlierd/jobs.yaml",
		Dir:  "/etc/outlierd",
		Service: Service{
			URL: Simulator, Limit: pace.Quota{Requests: 600, Window: time.Minute}, Paging: PagingAuto, Arrays: outlier.ArraysRepeat, Share: 1,
		},
		Timezone: time.UTC,
		Data:     "/etc/outlierd/data",
		Budget:   Budget{Renews: 1},
		Sinks:    []Sink{{Kind: SinkDuckDB, Path: "outliers.duckdb"}, {Kind: SinkParquet, Path: "parquet"}}, SinksDownAfter: 30 * time.Minute,
		Daemon: Daemon{UI: UIFull, Reload: ReloadAuto, Thumbnails: ThumbnailsProxy, ThumbnailsCache: 256e6}, CommentAuthors: AuthorsKeep,
		Jobs: []Spec{{
			Name:    "a",
			CatchUp: CatchUpLatest,
			Verb:    VerbSearch,
			Terms:   Terms{Pages: 1, ReuseFor: 6 * time.Hour, Sort: Sort{By: "zScore"}},
			At:      yamltree.Place{File: "/etc/outlierd/jobs.yaml", Line: 3, Column: 8},
		}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// OUTLIERD_DATA overrides the data folder of the job file.
func TestEnvironmentSetsDataFolder(t *testing.T) {
	src := []byte("version: 1\nservice: {url: \"sim://\"}\ndata: here\njobs: {a: {search: {query: x}}}\n")
	for value, want := range map[string]string{
		"":          "/etc/outlierd/here",
		"there":     "/etc/outlierd/there",
		"/srv/data": "/srv/data",
	} {
		config, err := Parse("/etc/outlierd/jobs.yaml", src, func(name string) (string, bool) { return value, name == "OUTLIERD_DATA" })
		if err != nil {
			t.Fatal(err)
		}
		if config.Data != want {
			t.Errorf("OUTLIERD_DATA=%q gives %s, want %s", value, config.Data, want)
		}
	}
}

// A word without quotes takes its type from what is filled in, a quoted one is text.
func TestQuotingDecidesSubstitutedType(t *testing.T) {
	env := func(name string) (string, bool) {
		value, set := map[string]string{"N": "12", "YES": "true", "NULL": "~"}[name]
		return value, set
	}
	config, err := Parse("jobs.yaml", []byte(`
version: 1
service:
  url: sim://
  allow_http: ${YES}
budget:
  per_month: ${N}
jobs:
  a:
    about: ${NULL}
    search:
      query: "${N}"
      pages: ${N}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := *config.Budget.PerMonth; got != 12 || !config.Service.AllowHTTP {
		t.Errorf("per_month is %d, allow_http %v", got, config.Service.AllowHTTP)
	}
	if a := config.Jobs[0]; a.About != "~" || a.Pages != 12 || asks(t, &a)[0].Queries[0] != "12" {
		t.Errorf("the job is %+v", a)
	}
}

func TestKeys(t *testing.T) {
	parse := func(service string) (*Config, error) {
		return Parse("jobs.yaml", []byte("version: 1\nservice: "+service+"\nbudget: {per_month: 9}\njobs: {a: {search: {}}}\n"), environment)
	}
	for _, service := range []string{
		`{url: "https://x.example", key: "${OUTLIERD_KEY}"}`,
		`{url: "https://x.example", key: "${OUTLIERD_KEY:-}"}`,
	} {
		config, err := parse(service)
		if err != nil || config.Service.Key.IsZero() {
			t.Errorf("%s: %v", service, err)
		}
	}
	for _, service := range []string{
		`{url: "sim://", key: "${file:/no/such/file:-}"}`,
		`{url: "sim://", key: ""}`,
	} {
		config, err := parse(service)
		if err != nil || !config.Service.Key.IsZero() {
			t.Errorf("%s: %v", service, err)
		}
	}
	for service, want := range map[string]string{
		`{url: "https://x.example", key: ""}`:                    "the key is empty",
		`{url: "https://x.example", key: "${NONE:-}"}`:           `"${NONE:-}": the key is empty`,
		`{url: "https://x.example", key: abc}`:                   "clear text",
		`{url: "https://x.example", key: 12345}`:                 "clear text",
		`{url: "https://x.example", key: "${NONE:-abc}"}`:        "clear text",
		`{url: "https://x.example", key: "a${OUTLIERD_KEY}"}`:    "clear text",
		`{url: "sim://", key: abc}`:                              "clear text",
		`{url: "sim://", key: "${OUTLIERD_KEY}"}`:                "sim:// takes no key",
		`{url: "https://x.example"}`:                             "key is missing",
		`{url: "http://x.example", key: "${OUTLIERD_KEY}"}`:      "clear text; use https",
		`{url: "https://u:p@x.example", key: "${OUTLIERD_KEY}"}`: "user and password",
	} {
		_, err := parse(service)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s gives %v, want %q", service, err, want)
		}
	}
}
