package job

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/outlier/pace"
)

// plain compares what Parse gives: zones by name, keys by fingerprint.
var plain = cmp.Options{
	cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }),
	cmp.Comparer(func(a, b outlier.Key) bool { return a.Fingerprint() == b.Fingerprint() }),
	cmpopts.IgnoreUnexported(Config{}, Spec{}),
	cmpopts.IgnoreFields(Config{}, "Warnings"),
	cmpopts.IgnoreFields(Spec{}, "Hash"),
}

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
	return asks(t, &parse(t, head+body).Jobs[0])[0].Params
}

// params are the parameters of a search as they are sent.
func params(s outlier.Search) url.Values { return outlier.Params(s.Fields()) }

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
			Paging: PagingOffset, Arrays: outlier.ArraysComma, Share: 0.25, MaxWait: 10 * time.Minute, Prices: outlier.Prices{"search": 3, "scan_fast": 60},
			AllowHTTP: true, CAFile: "/etc/outlierd/ca.pem",
		},
		Timezone: berlin(t),
		Data:     "/etc/data",
		Budget: Budget{
			PerMonth: new(outlier.Credits(400)), PerDay: new(outlier.Credits(60)), Reserve: new(outlier.Credits(20)), Renews: 31,
			Pace: PaceEven, ConfirmOver: new(outlier.Credits(50)),
		},
		Sinks: []Sink{{SinkParquet, "files/parquet"}, {SinkDuckDB, "out.duckdb"}},
		Jobs: []Spec{{
			Name: "coffee", Was: "espresso", About: "Coffee", Disabled: true, Schedule: "30 6 * * mon,thu", CatchUp: CatchUpAll,
			Verb:     VerbSearch,
			Loops:    []Loop{{"kind", Source{Values: []string{"video", "short"}, Line: 31, Column: 22}}},
			Pages:    3,
			NewBelow: 0.125,
			ReuseFor: time.Hour,
			Notify:   []string{"me"},
			Enrich: []Enrich{
				{Op: outlier.OpTranscript},
				{Op: outlier.OpChannelVideos, Top: 15, RefreshAfter: 7 * day},
			},
			EnrichSort: Sort{By: "views"},
			Budget:     JobBudget{PerRun: new(outlier.Credits(6)), PerMonth: new(outlier.Credits(60)), MaxRequests: 9},
			StopAfter:  90 * time.Minute,
			Line:       23, Column: 3,
		}, {
			Name: "tea", Every: 2 * week, CatchUp: CatchUpLatest, Verb: VerbSearch, Pages: AllPages, ReuseFor: 6 * time.Hour,
			EnrichSort: Sort{By: "rpm", Ascending: true},
			Budget:     JobBudget{PerRun: new(outlier.Credits(10))},
			Line:       46, Column: 3,
		}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	asked := asks(t, &got.Jobs[0])
	for i, kind := range []string{"video", "short"} {
		want := params(outlier.Search{
			Query: []string{"moka pot", "2024"}, By: "lexical", Seed: "7", SortBy: "averageViewsRatio", SortOrder: "asc",
			Filters: outlier.Filters{
				Type:      kind,
				ZScore:    outlier.Range[float64]{From: new(2.0)},
				ViewCount: outlier.Range[int64]{From: new(int64(5))},
			},
		})
		if diff := cmp.Diff(want, asked[i].Params); diff != "" {
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
			URL: Simulator, Limit: pace.Quota{Requests: 10, Window: time.Minute}, Paging: PagingAuto, Arrays: outlier.ArraysRepeat, Share: 1, MaxWait: 10 * time.Minute,
		},
		Timezone: time.UTC,
		Data:     "/etc/outlierd/data",
		Budget:   Budget{Renews: 1},
		Sinks:    []Sink{{SinkDuckDB, "outliers.duckdb"}, {SinkParquet, "parquet"}},
		Jobs: []Spec{{
			Name:       "a",
			CatchUp:    CatchUpLatest,
			Verb:       VerbSearch,
			Pages:      1,
			ReuseFor:   6 * time.Hour,
			EnrichSort: Sort{By: "zScore"},
			Line:       3, Column: 8,
		}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheDataFolderMayComeFromTheEnvironment(t *testing.T) {
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

// Every filter of the interface can be set under its name in the file.
func TestEveryFilterIsRead(t *testing.T) {
	got := search(t, `
jobs:
  a:
    search:
      where:
        type: short
        average_views_ratio: 3..10.5
        z_score: -2.5..
        view_count: 50000..
        language: [en, de]
        duration: 60..3600
        published_at: 2026-10-01..2026-10-31
        subscribers_count: ..500000
        channel_avg_views: 0.5..
        channel_video_count: 1..120
        channel_id: 123456789012345678901234
        channel_avg_views_to_subscribers_ratio: ..2
        title_pattern: how to *
        reference_id: 2024
        rpm_estimation: 0..1
        revenue_estimation: 100..
        channel_monetization_adsense: true
        channel_monetization_sponsored: false
        classification_quality: positive
        classification_is_faceless: True
        exclude_keyword: giveaway
`)
	from := time.Date(2026, 9, 30, 22, 0, 0, 0, time.UTC)  // midnight in Berlin, in summer
	to := time.Date(2026, 10, 31, 22, 59, 59, 0, time.UTC) // the last second of the day, in winter
	want := outlier.Search{Filters: outlier.Filters{
		Type:                              "short",
		AverageViewsRatio:                 outlier.Range[float64]{From: new(3.0), To: new(10.5)},
		ZScore:                            outlier.Range[float64]{From: new(-2.5)},
		ViewCount:                         outlier.Range[int64]{From: new(int64(50000))},
		Language:                          []string{"en", "de"},
		Duration:                          outlier.Range[int64]{From: new(int64(60)), To: new(int64(3600))},
		PublishedAt:                       outlier.Range[time.Time]{From: &from, To: &to},
		SubscribersCount:                  outlier.Range[int64]{To: new(int64(500000))},
		ChannelAvgViews:                   outlier.Range[float64]{From: new(0.5)},
		ChannelVideoCount:                 outlier.Range[int64]{From: new(int64(1)), To: new(int64(120))},
		ChannelID:                         "123456789012345678901234",
		ChannelAvgViewsToSubscribersRatio: outlier.Range[float64]{To: new(2.0)},
		TitlePattern:                      "how to *",
		ReferenceID:                       "2024",
		RPMEstimation:                     outlier.Range[float64]{From: new(0.0), To: new(1.0)},
		RevenueEstimation:                 outlier.Range[float64]{From: new(100.0)},
		ChannelMonetizationAdsense:        new(true),
		ChannelMonetizationSponsored:      new(false),
		ClassificationQuality:             "positive",
		ClassificationIsFaceless:          new(true),
		ExcludeKeyword:                    []string{"giveaway"},
	}}
	if diff := cmp.Diff(params(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, f := range want.Fields()[5:] { // behind query, seed, sortBy, sortOrder and by
		if p := snake(f.Name); cmp.Equal(f.Value, zero(f.Value)) {
			t.Errorf("%s is missing in this test", p)
		}
	}
}

// zero is a pointer to the zero value of what v points to.
func zero(v any) any {
	switch v.(type) {
	case *string:
		return new(string)
	case *[]string:
		return new([]string)
	case **bool:
		return new(*bool)
	case *outlier.Range[int64]:
		return new(outlier.Range[int64])
	case *outlier.Range[float64]:
		return new(outlier.Range[float64])
	}
	return new(outlier.Range[time.Time])
}

func TestUseBringsFiltersThatAJobMayChangeAndRemove(t *testing.T) {
	got := search(t, `
filters:
  base: {type: video, z_score: 2.., language: en}
  big: {use: base, view_count: 50000.., language: ~}
  calm: {z_score: ..1}
jobs:
  a: {search: {where: {use: [big, calm], type: ~, view_count: 7..}}}
`)
	want := outlier.Search{Filters: outlier.Filters{
		ZScore:    outlier.Range[float64]{To: new(1.0)},
		ViewCount: outlier.Range[int64]{From: new(int64(7))},
	}}
	if diff := cmp.Diff(params(want), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Filters may use others many times over without doubling the work each time.
func TestFiltersThatUseEachOtherManyTimesAreMergedOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("filters:\n  f: {z_score: 2..}\n")
	for i := 1; i < 60; i++ {
		f := "f" + strings.Repeat("f", i)
		b.WriteString("  " + f + ": {use: [" + f[1:] + ", " + f[1:] + "]}\n")
	}
	b.WriteString("jobs: {a: {search: {where: {use: " + strings.Repeat("f", 60) + "}}}}\n")
	if got := search(t, b.String()); got.Get("zScoreFrom") != "2" {
		t.Errorf("the filter did not arrive: %v", got)
	}
}

func TestWindowsBeginAtMidnight(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"last 30d", "2026-10-21T22:00:00Z"}, // summer time then, winter time now
		{"last  2w", "2026-11-06T23:00:00Z"},
		{"last 1h", "2026-11-20T23:00:00Z"},
		{"last 13h", "2026-11-19T23:00:00Z"},
	} {
		got := search(t, "jobs: {a: {search: {where: {published_at: "+c.words+"}}}}\n")
		if got.Has("publishedAtTo") || got.Get("publishedAtFrom") != c.want {
			t.Errorf("%s begins at %v, want %s", c.words, got["publishedAtFrom"], c.want)
		}
	}
}

func TestTextsStayTexts(t *testing.T) {
	got := search(t, `
lists: {years: [2024, 007, 1e9, "x"]}
jobs:
  a: {search: {query: {list: years}, where: {exclude_keyword: [0012, 1.50, no, on]}}}
`)
	if want := []string{"2024", "007", "1e9", "x"}; !slices.Equal(got["query"], want) {
		t.Errorf("query is %q, want %q", got["query"], want)
	}
	if want := []string{"0012", "1.50", "no", "on"}; !slices.Equal(got["excludeKeyword"], want) {
		t.Errorf("exclude_keyword is %q, want %q", got["excludeKeyword"], want)
	}
}

func TestAnchorsMergesAndPrivateKeysAreAllowed(t *testing.T) {
	config := parse(t, `
version: 1
service: {url: "sim://"}
x-common: &common {pages: 2, by: lexical}
jobs:
  x-not-a-job: {whatever: 1}
  a: {x-note: mine, search: {<<: *common, query: x, pages: 3}}
  b: {search: {<<: [{by: semantic}, *common], query: y}}
`)
	var got []string
	for _, j := range config.Jobs {
		got = append(got, j.Name+" "+asks(t, &j)[0].Params.Get("by")+" "+strings.Repeat("p", j.Pages))
	}
	if want := []string{"a lexical ppp", "b semantic pp"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAByteOrderMarkAndWindowsLineEndsDoNotMatter(t *testing.T) {
	config := parse(t, "\uFEFFversion: 1\r\nservice: {url: \"sim://\"}\r\njobs:\r\n  a:\r\n    about: x\r\n    search: {query: y}\r\n")
	if got := config.Jobs[0].About; got != "x" {
		t.Errorf("about is %q", got)
	}
}

func TestAHashChangesExactlyWithWhatAJobDoes(t *testing.T) {
	of := func(head, job string) string {
		return parse(t, head+"\nversion: 1\nservice: {url: \"sim://\"}\njobs:\n  "+job+"\n").Jobs[0].Hash
	}
	first := of("", "a: {search: {query: x, where: {published_at: last 3d}}}")
	for _, same := range []string{
		of("# moved down", "b: {about: renamed, search: {where: {published_at: last 72h}, query: [x]}}"),
		of("filters: {f: {published_at: last 3d}}", "a: {search: {query: x, pages: 1, where: {use: f}}}"),
	} {
		if same != first {
			t.Error("the same job has another hash")
		}
	}
	for _, other := range []string{
		of("", "a: {search: {query: x, where: {published_at: last 4d}}}"),
		of("timezone: Asia/Tokyo", "a: {search: {query: x, where: {published_at: last 3d}}}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, every: 1h}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, budget: {per_run: 2}}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, enrich: {details: {}}}"),
	} {
		if other == first {
			t.Error("another job has the same hash")
		}
	}
}
