package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// That every filter of the interface can be set under its name is tested where a job is sent whole, in package command.
func TestFiltersAreSentAsParameters(t *testing.T) {
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
	want := params(t, strings.Join([]string{
		"type=short", "averageViewsRatioFrom=3", "averageViewsRatioTo=10.5", "zScoreFrom=-2.5", "viewCountFrom=50000",
		"language=en", "language=de", "durationFrom=60", "durationTo=3600",
		"publishedAtFrom=2026-09-30T22:00:00Z", // midnight in Berlin, in summer
		"publishedAtTo=2026-10-31T22:59:59Z",   // the last second of the day, in winter
		"subscribersCountTo=500000", "channelAvgViewsFrom=0.5", "channelVideoCountFrom=1", "channelVideoCountTo=120",
		"channelId=123456789012345678901234", "channelAvgViewsToSubscribersRatioTo=2", "titlePattern=how+to+*", "referenceId=2024",
		"rpmEstimationFrom=0", "rpmEstimationTo=1", "revenueEstimationFrom=100", "channelMonetizationAdsense=true",
		"channelMonetizationSponsored=false", "classificationQuality=positive", "classificationIsFaceless=true", "excludeKeyword=giveaway",
	}, "&"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// `use` brings filters that a job may change or remove.
func TestJobMayOverrideUsedFilters(t *testing.T) {
	got := search(t, `
filters:
  base: {type: video, z_score: 2.., language: en}
  big: {use: base, view_count: 50000.., language: ~}
  calm: {z_score: ..1}
jobs:
  a: {search: {where: {use: [big, calm], type: ~, view_count: 7..}}}
`)
	want := params(t, "zScoreTo=1&viewCountFrom=7")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Filters may use others many times over without doubling the work each time.
func TestNestedFiltersAreMergedOnce(t *testing.T) {
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

// Anchors, merges and private keys are allowed.
func TestAnchorsAndPrivateKeysAreAllowed(t *testing.T) {
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
		got = append(got, j.Name+" "+asks(t, &j)[0].Query.Params().Get("by")+" "+strings.Repeat("p", j.Pages))
	}
	if want := []string{"a lexical ppp", "b semantic pp"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A byte order mark and Windows line ends make no difference.
func TestWindowsTextFormatIsAccepted(t *testing.T) {
	config := parse(t, "\uFEFFversion: 1\r\nservice: {url: \"sim://\"}\r\njobs:\r\n  a:\r\n    about: x\r\n    search: {query: y}\r\n")
	if got := config.Jobs[0].About; got != "x" {
		t.Errorf("about is %q", got)
	}
}

func TestOnlyARequestChangesItsHash(t *testing.T) {
	of := func(head, job string) string {
		return parse(t, head+"\nversion: 1\nservice: {url: \"sim://\"}\njobs:\n  "+job+"\n").Jobs[0].Request
	}
	first := of("", "a: {search: {query: x, where: {published_at: last 3d}}}")
	for _, same := range []string{
		of("# moved down", "b: {about: renamed, search: {where: {published_at: last 72h}, query: [x]}}"),
		of("filters: {f: {published_at: last 3d}}", "a: {search: {query: x, pages: 1, where: {use: f}}}"),
		of("data: elsewhere", "a: {search: {query: x, where: {published_at: last 3d}}, schedule: '0 7 * * *', jitter: 1m, catch_up: all}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, every: 1h}"),
		of("notify: {me: {webhook: 'https://me.example'}}", "a: {search: {query: x, where: {published_at: last 3d}}, notify: [me]}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, stop_after: 1h, "+
			"budget: {per_run: 2, per_month: 20, max_requests: 10}}"),
	} {
		if same != first {
			t.Error("the same job has another hash")
		}
	}
	for _, other := range []string{
		of("", "a: {search: {query: x, where: {published_at: last 4d}}}"),
		of("timezone: Asia/Tokyo", "a: {search: {query: x, where: {published_at: last 3d}}}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, reuse_for: 1h}"),
		of("", "a: {search: {query: x, where: {published_at: last 3d}}, enrich: {details: {}}}"),
	} {
		if other == first {
			t.Error("another job has the same hash")
		}
	}
}

// Filters and sort of a request are shown with the keys and values of the job file.
func TestParametersAreShownAsInFile(t *testing.T) {
	for _, test := range []struct{ params, filters, sort string }{
		{"", "", ""},
		{"query=tea&sortBy=zScore&sortOrder=desc&zScoreFrom=2", "z_score 2..", "z_score desc"},
		{"query=tea&viewCountTo=5000&language=en&language=de&publishedAtFrom=2026-11-01T00%3A00%3A00Z", "language en, de · view_count ..5000", ""},
		{"by=lexical&query=tea&seed=7&sortBy=views", "by lexical · seed 7", "views"},
		{"zScoreFrom=1&zScoreTo=3&isFaceless=true", "is_faceless true · z_score 1..3", ""},
	} {
		query := outlier.UncheckedQuery(outlier.OpSearch, test.params)
		words, sort := FiltersAndSort(query)
		if filters := strings.Join(words, " · "); filters != test.filters || sort != test.sort {
			t.Errorf("%s: filters %q, sort %q, want %q, %q", test.params, filters, sort, test.filters, test.sort)
		}
	}
}
