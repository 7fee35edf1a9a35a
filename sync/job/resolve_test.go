package job

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// one is the only job of a text that goes on after head.
func one(t *testing.T, body string) *Spec {
	t.Helper()
	return &parse(t, head+"jobs: {a: {"+body+"}}\n").Jobs[0]
}

func TestTheDesignedFileParsesAndResolves(t *testing.T) {
	config, err := Load("testdata/design.yaml", nothingSet)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	var warned []string
	for _, w := range config.Warnings {
		warned = append(warned, w.Message)
	}
	wantWarned := []string{"sinks.compact: has no effect yet", "daemon.log: has no effect yet"}
	if diff := cmp.Diff(wantWarned, warned); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	in := nothingKnown()
	in.IDs = func(_, column string) ([]string, error) {
		if column != "video_id" {
			t.Errorf("SQL is asked for the column %s", column)
		}
		return []string{"dQw4w9WgXcQ", "abcdefghijk", "dQw4w9WgXcQ"}, nil
	}
	var got []string
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		resolved, err := spec.Resolve(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range resolved.Asks {
			got = append(got, fmt.Sprintf("%s %s %s %s", spec.Name, ask.Query.Op(), ask.Query.Encode(), ask.Watermark))
			if ask.Query.Op() == outlier.OpStartScan {
				got = append(got, fmt.Sprintf("%s reads %s %s", spec.Name, ask.Read.Op(), ask.Read.Encode()))
			}
		}
		if len(resolved.IDs) > 0 {
			got = append(got, fmt.Sprintf("%s %s %v", spec.Name, resolved.IDs, spec.Fetch))
		}
	}
	golden(t, "testdata/design.golden", strings.Join(got, "\n")+"\n")
}

// for_each makes one search for every combination of its values, in the order of the file.
func TestForEachFollowsFileOrder(t *testing.T) {
	spec := one(t, `for_each: {topic: [tea, mate], lang: [en, de]}, search: {query: ["${topic}", "best ${topic}"], where: {language: "${lang}"}}`)
	var got []string
	for _, ask := range asks(t, spec) {
		got = append(got, ask.Item+": "+strings.Join(ask.Queries, ", ")+" in "+ask.Query.Params().Get("language"))
	}
	want := []string{"tea / en: tea, best tea in en", "tea / de: tea, best tea in de", "mate / en: mate, best mate in en", "mate / de: mate, best mate in de"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Each combination of the values of for_each is one search with a watermark of its own.
func TestForEachMakesCrossProduct(t *testing.T) {
	word := rapid.StringMatching(`[a-z$ {}é#:,]{0,6}[a-z]`)
	rapid.Check(t, func(r *rapid.T) {
		var names, loops []string
		want := 1
		for i := range rapid.IntRange(1, 3).Draw(r, "names") {
			values := rapid.SliceOfNDistinct(word, 1, 4, strings.TrimSpace).Draw(r, "values")
			text, err := json.Marshal(values)
			if err != nil {
				r.Fatal(err)
			}
			name := "v" + strings.Repeat("v", i)
			names = append(names, "${"+name+"}")
			loops = append(loops, name+": "+strings.ReplaceAll(string(text), "${", "$${"))
			want *= len(values)
		}
		body := fmt.Sprintf("for_each: {%s}, search: {query: %q}", strings.Join(loops, ", "), strings.Join(names, " / "))
		got := asks(t, one(t, body))
		marks := map[string]bool{}
		for _, ask := range got {
			marks[ask.Watermark] = true
			if ask.Queries[0] != ask.Item {
				r.Fatalf("%s asks for %q, its values are %q", body, ask.Queries[0], ask.Item)
			}
		}
		if len(got) != want || len(marks) != want {
			r.Fatalf("%s makes %d requests with %d watermarks, want %d", body, len(got), len(marks), want)
		}
	})
}

// A list of queries is one request, whereas each value of for_each is another.
func TestListIsOneRequest(t *testing.T) {
	if got := asks(t, one(t, "search: {query: [a, b, c]}")); len(got) != 1 {
		t.Errorf("a list of three queries makes %d requests", len(got))
	}
	if got := asks(t, one(t, `for_each: {q: [a, b, a]}, search: {query: "${q}"}`)); len(got) != 2 {
		t.Errorf("two values of for_each make %d requests", len(got))
	}
}

// Whatever a value holds, it arrives as it is, and so does the text around it.
func TestValuesAreSubstitutedVerbatim(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab$${}{:-é ")))
	rapid.Check(t, func(t *rapid.T) {
		before, value, other := text.Draw(t, "before"), text.Draw(t, "value"), text.Draw(t, "other")
		pattern := yamltree.Escape(before) + "${topic}" + yamltree.Escape(before) + "${b}"
		want := before + value + before + other
		if got := yamltree.Fill(pattern, []string{"topic", value, "b", other}); got != want {
			t.Fatalf("%q is filled in as %q, want %q", pattern, got, want)
		}
		if got := yamltree.Fill(yamltree.Escape(value), nil); got != value {
			t.Fatalf("%q becomes %q", value, got)
		}
	})
}

func TestTemplatesMeetVariablesAndEscapes(t *testing.T) {
	env := func(name string) (string, bool) { return "$5 ${t} $", name == "PRICE" }
	config, err := Parse("jobs.yaml", []byte(head+`
jobs: {a: {for_each: {t: ["${PRICE}", "$${t}"]}, search: {query: ["$${t} ${t}", "${PRICE}${t}", "$${t}", "${PRICE}"]}}}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	got := asks(t, &config.Jobs[0])
	want := [][]string{
		{"${t} $5 ${t} $", "$5 ${t} $$5 ${t} $", "${t}", "$5 ${t} $"},
		{"${t} ${t}", "$5 ${t} $${t}", "${t}", "$5 ${t} $"},
	}
	for i := range want {
		if diff := cmp.Diff(withoutRepeats(want[i]), got[i].Queries); diff != "" {
			t.Errorf("value %d (-want +got)\n%s", i, diff)
		}
	}
}

// A filter may have templates, which each job that uses it fills in with its own values.
func TestFilterTemplatesUseJobValues(t *testing.T) {
	config := parse(t, head+`
filters:
  titled: {title_pattern: "${word} * here", z_score: 2..}
  unused: {title_pattern: "${nobody} *"}
jobs:
  a: {for_each: {word: [how, why]}, search: {where: {use: titled}}}
  b: {for_each: {word: [when]}, related: {title: x, where: {use: titled}}}
`)
	var got []string
	for i := range config.Jobs {
		for _, ask := range asks(t, &config.Jobs[i]) {
			got = append(got, ask.Query.Params().Get("titlePattern"))
		}
	}
	if want := []string{"how * here", "why * here", "when * here"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheWindowSinceTheLastSuccess(t *testing.T) {
	last := time.Date(2026, 11, 19, 5, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		words, known, fresh string
	}{
		{"since last success", "2026-11-04T23:00:00Z", "2026-10-21T22:00:00Z"},
		{"since last success, overlap 2d, first 90d", "2026-11-16T23:00:00Z", "2026-08-22T22:00:00Z"},
		{"since last success,overlap 12h , first 1w", "2026-11-17T23:00:00Z", "2026-11-13T23:00:00Z"},
		{"since  last success, overlap 1d", "2026-11-17T23:00:00Z", "2026-10-21T22:00:00Z"},
	} {
		spec := one(t, `search: {query: tea, where: {published_at: "`+c.words+`"}}`)
		in := nothingKnown()
		if got := must(t, spec, in).Asks[0].Query.Params().Get("publishedAtFrom"); got != c.fresh {
			t.Errorf("%s begins afresh at %s, want %s", c.words, got, c.fresh)
		}
		in.Since = func(watermark string) (time.Time, error) {
			if watermark != `{"operation":"search","of":{"query":["tea"]}}` {
				t.Errorf("the watermark is %s", watermark)
			}
			return last, nil
		}
		if got := must(t, spec, in).Asks[0].Query.Params().Get("publishedAtFrom"); got != c.known {
			t.Errorf("%s goes on at %s, want %s", c.words, got, c.known)
		}
	}
}

func must(t *testing.T, spec *Spec, in Inputs) Resolved {
	t.Helper()
	got, err := spec.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Two runs within one day send the same request, which is answered from the cache.
func TestWindowsAreTheSameAllDay(t *testing.T) {
	spec := one(t, `search: {where: {published_at: last 3d}}`)
	morning, evening := nothingKnown(), nothingKnown()
	morning.Now = time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC) // midnight in Berlin
	evening.Now = time.Date(2026, 11, 21, 22, 59, 59, 0, time.UTC)
	if diff := cmp.Diff(must(t, spec, morning).Asks[0].Query.Params(), must(t, spec, evening).Asks[0].Query.Params()); diff != "" {
		t.Errorf("(-morning +evening)\n%s", diff)
	}
}

// A watermark belongs to the operation, its query or seeds and its for_each values, not to filters.
func TestWatermarkIgnoresFilters(t *testing.T) {
	mark := func(body string) string { return asks(t, one(t, body))[0].Watermark }
	first := mark("search: {query: [tea, mate]}")
	for _, same := range []string{
		"search: {query: [mate, tea], where: {z_score: 2..}, sort: views, pages: 7, by: lexical}",
		`search: {query: [tea, mate], where: {published_at: "since last success"}}, every: 1h`,
	} {
		if got := mark(same); got != first {
			t.Errorf("%s has the watermark %s, want %s", same, got, first)
		}
	}
	seen := map[string]string{first: "the first"}
	for _, other := range []string{
		"search: {query: tea}",
		"find_channels: {query: [tea, mate]}",
		"scan: {query: [tea, mate]}",
		`for_each: {kind: [video]}, search: {query: [tea, mate], where: {type: "${kind}"}}`,
		"related: {title: [tea, mate]}",
		"related: {video_id: dQw4w9WgXcQ}",
		"related: {thumbnail_video_id: dQw4w9WgXcQ}",
		"find_channels: {related_to: UC1234567890abcdefghijkl}",
		"scan: {channel_id: UC1234567890abcdefghijkl}",
	} {
		got := mark(other)
		if seen[got] != "" {
			t.Errorf("%s has the watermark of %s", other, seen[got])
		}
		seen[got] = other
	}
}

// A scan is read by a search of its own, with its own filters, sort and pages.
func TestScanReadsResultsBySearch(t *testing.T) {
	spec := one(t, `for_each: {t: [tea]}, scan: {channel_id: ["https://video.example/channel/UC1234567890abcdefghijkl", UC1234567890abcdefghijkl], mode: standard,
    poll: 2m..5m, deadline: 6h, read: {where: {title_pattern: "${t} *", published_at: "since last success"}, sort: views asc, pages: all, stop_when: {new_below: 5%}}}, budget: {per_run: 226}`)
	if diff := cmp.Diff(&Scan{Mode: "standard", PollMin: 2 * time.Minute, PollMax: 5 * time.Minute, Deadline: 6 * time.Hour}, spec.Scan); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if spec.Pages != AllPages || spec.NewBelow != 0.05 || spec.Sort != (Sort{"views", true}) {
		t.Errorf("the reading takes %d pages down to %v by %v", spec.Pages, spec.NewBelow, spec.Sort)
	}
	mark := `{"operation":"start_scan","of":{"channel_id":["UC1234567890abcdefghijkl"]},"for_each":["tea"]}`
	start := url.Values{"findBy": {"channels"}, "mode": {"standard"}, "query": {"UC1234567890abcdefghijkl"}}
	read := url.Values{"titlePattern": {"tea *"}, "publishedAtFrom": {"2026-10-21T22:00:00Z"}, "sortBy": {"views"}, "sortOrder": {"asc"}}
	want := []Ask{{
		Query: outlier.UncheckedQuery(outlier.OpStartScan, start.Encode()),
		Read:  outlier.UncheckedQuery(outlier.OpSearch, read.Encode()),
		Item:  "tea", Watermark: mark, Seeds: []string{"UC1234567890abcdefghijkl"},
	}}
	if diff := cmp.Diff(want, asks(t, spec), sameQuery); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// find_channels searches by a query, or for channels related to its seeds.
func TestFindChannelsTakesQueryOrSeeds(t *testing.T) {
	query := asks(t, one(t, `find_channels: {query: tea, seed: 7, sort: found_at, where: {subscribers: 100.., content_kind: long-form, monetization_adsense: true, published_at: last 30d}}`))[0]
	want := url.Values{"query": {"tea"}, "seed": {"7"}, "sortBy": {"foundAt"}, "sortOrder": {"desc"}, "subscribersFrom": {"100"},
		"contentKind": {"long-form"}, "monetizationAdsense": {"true"}, "publishedAtFrom": {"2026-10-21T22:00:00Z"}}
	if diff := cmp.Diff(want, query.Query.Params()); diff != "" || query.Query.Op() != outlier.OpFindChannels {
		t.Errorf("%s (-want +got)\n%s", query.Query.Op(), diff)
	}
	kin := asks(t, one(t, `find_channels: {related_to: video.example/channel/UC1234567890abcdefghijkl, where: {exclude_niche: [gaming]}}`))[0]
	want = url.Values{"relatedChannelId": {"UC1234567890abcdefghijkl"}, "excludeNiche": {"gaming"}}
	if diff := cmp.Diff(want, kin.Query.Params()); diff != "" || kin.Query.Op() != outlier.OpFindRelatedChannels || len(kin.Queries) > 0 || len(kin.Seeds) != 1 {
		t.Errorf("%s of %v (-want +got)\n%s", kin.Query.Op(), kin.Seeds, diff)
	}
}

// The interface lists null among the values of seed, and a query string has no form for
// it: it is the absence of one.
func TestNullSeedIsOmitted(t *testing.T) {
	for _, job := range []string{"search: {query: tea, seed: ~}", "find_channels: {query: tea, seed: null}", "find_channels: {related_to: UC1234567890abcdefghijkl, seed: ~}"} {
		if got := asks(t, one(t, job))[0].Query.Params(); got.Has("seed") {
			t.Errorf("%s asks for %v", job, got)
		}
	}
}

// The parameters of trending_formats are sent as the file has them.
func TestTrendingFormatsParametersStayVerbatim(t *testing.T) {
	got := asks(t, one(t, `for_each: {of: [a]}, trending_formats: {niche: ["${of}", b], minViews: 1.50, live: true, x-note: no, contentKind: short}`))[0]
	want := url.Values{"niche": {"a", "b"}, "minViews": {"1.50"}, "live": {"true"}, "contentKind": {"short"}}
	if diff := cmp.Diff(want, got.Query.Params()); diff != "" || got.Query.Op() != outlier.OpTrendingFormats {
		t.Errorf("%s (-want +got)\n%s", got.Query.Op(), diff)
	}
	if got := asks(t, one(t, "trending_formats: {}")); len(got) != 1 {
		t.Errorf("without parameters there are %d requests", len(got))
	}
}

// TestFileValuesAreCheckedWhereUsed, also where a scan's results are read, which would fail after the scan
// was paid for.
func TestFileValuesAreCheckedWhereUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "languages.txt"), []byte("en # first\nenglish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{
		`scan: {query: tea, read: {where: {language: ["${l}"]}}}`,
		`search: {query: tea, where: {language: ["${l}"]}}`,
	} {
		config, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(head+"jobs:\n  one: {for_each: {l: {file: languages.txt}}, "+verb+"}\n"), nothingSet)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Jobs[0].Resolve(nothingKnown())
		if err == nil || !strings.Contains(err.Error(), `language: with l = "english" from line 2 of "languages.txt": must be an ISO 639-1 code`) {
			t.Errorf("%s got %v", verb, err)
		}
	}
}

// A mistake with several values shows those of files, but only the names of those from the environment.
func TestMistakesShowOnlyFileValues(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "languages.txt"), []byte("en\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(head+`jobs:
  one: {for_each: {code: ["${SECRET}"], l: {file: languages.txt}}, search: {where: {language: "${code}${l}"}}}
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	_, failed := config.Jobs[0].Resolve(nothingKnown())
	for _, err := range []error{failed, config.CheckLists(nothingKnown())} {
		if err == nil || strings.Contains(err.Error(), secret) ||
			!strings.Contains(err.Error(), `with code = "${SECRET}" and l = "en" from line 1 of "languages.txt": the text is not valid here`) {
			t.Errorf("got %v", err)
		}
	}
}
