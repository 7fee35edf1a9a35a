package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

func TestOverridesChangeOneRun(t *testing.T) {
	spec := one(t, `for_each: {topic: [tea, mate], lang: [en, de]}, enrich: {details: {}},
    search: {query: "${topic}", pages: 3, where: {language: "${lang}", published_at: 2026-01-01..2026-01-31}}`)
	before := *spec
	got, err := spec.With(Overrides{Pages: 7, Since: 48 * time.Hour, NoEnrich: true, Again: true, Set: map[string]string{"topic": "a $ ${lang}"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Pages != 7 || got.Enrich != nil || got.ReuseFor != 0 || got.Request == spec.Request || !got.Overridden {
		t.Errorf("got %+v", got)
	}
	asked := asks(t, &got)
	if len(asked) != 2 {
		t.Fatalf("there are %d requests", len(asked))
	}
	if q := asked[1].Query.Params(); q.Get("query") != "a $ ${lang}" || q.Get("language") != "de" ||
		q.Get("publishedAtFrom") != "2026-11-18T23:00:00Z" || q.Has("publishedAtTo") {
		t.Errorf("the second asks for %v", q)
	}
	if diff := cmp.Diff(before, *spec, plain); diff != "" || len(asks(t, spec)) != 4 || !asks(t, spec)[0].Query.Params().Has("publishedAtTo") {
		t.Errorf("the job itself has changed\n%s", diff)
	}
	for _, o := range []Overrides{{}, {Pages: 3}} {
		if same, err := spec.With(o); err != nil || same.Request != spec.Request || same.Overridden {
			t.Errorf("%+v changes nothing, and the hash is %s (%v), not %s, overridden: %t", o, same.Request, err, spec.Request, same.Overridden)
		}
	}
}

func TestOverridesApplyToScanReading(t *testing.T) {
	spec := one(t, `scan: {query: tea, read: {where: {published_at: last 1d}}}`)
	got, err := spec.With(Overrides{Pages: 2, Since: 3 * day})
	if err != nil {
		t.Fatal(err)
	}
	if from := asks(t, &got)[0].Read.Params().Get("publishedAtFrom"); got.Pages != 2 || from != "2026-11-17T23:00:00Z" {
		t.Errorf("%d pages are read from %s on", got.Pages, from)
	}
	if from := asks(t, spec)[0].Read.Params().Get("publishedAtFrom"); from != "2026-11-19T23:00:00Z" {
		t.Errorf("the job itself now reads from %s on", from)
	}
}

// An override that does not apply is refused with the values that do.
func TestInapplicableOverridesAreExplained(t *testing.T) {
	const search = `for_each: {topic: [tea], kind: [video]}, search: {query: "${topic}", where: {type: "${kind}"}}`
	for _, c := range []struct {
		body string
		o    Overrides
		want string
	}{
		{"videos: {id: dQw4w9WgXcQ}", Overrides{Pages: 2}, "job a: --pages does not apply to videos"},
		{"trending_formats: {}", Overrides{Pages: 2}, "--pages does not apply to trending_formats"},
		{search, Overrides{Pages: -1}, "--pages must be from 1 to 1000000, got -1"},
		{search, Overrides{Pages: 1_000_001}, "--pages must be from 1 to 1000000, got 1000001"},
		{"channels: {id: UC1234567890abcdefghijkl}", Overrides{Since: day}, "channels has no published_at"},
		{"trending_formats: {}", Overrides{Since: day}, "trending_formats has no published_at"},
		{search, Overrides{Since: -day}, "--since must be positive, got -1d"},
		{search, Overrides{Set: map[string]string{"topik": "x"}}, "--set topik: for_each has topic, kind"},
		{search, Overrides{Set: map[string]string{"kind": " "}}, "--set kind: the value is empty"},
		{"search: {}", Overrides{Set: map[string]string{"topic": "x"}}, "the job has no for_each"},
	} {
		if _, err := one(t, c.body).With(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %+v gives %v, want %q", c.body, c.o, err, c.want)
		}
	}
	got, err := one(t, search).With(Overrides{Set: map[string]string{"kind": "reel"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Resolve(nothingKnown()); err == nil || !strings.Contains(err.Error(), `type: with kind = "reel": must be one of video, short`) {
		t.Errorf("a value that does not fit gives %v", err)
	}
}

// A one-off job may use the lists and filters of the job file.
func TestOneOffJobUsesFileDefinitions(t *testing.T) {
	config := parse(t, head+`
lists: {topics: [tea, mate]}
filters: {breakout: {z_score: 2.., type: video}}
defaults: {enrich: {details: {}}, budget: {per_run: 2}}
jobs: {search: {search: {query: other}}}
`)
	spec, err := config.Once(OneOff{Keys: Keys{"search.query.list": {"topics"}, "search.where.use": {"breakout"}, "search.where.type": {"short"},
		"search.where.title_pattern": {"a ${b} *"}, "enrich.comments": nil, "enrich.comments.top": {"1"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Spec{
		Name: "once:search", CatchUp: CatchUpLatest, Verb: VerbSearch, At: yamltree.Place{File: "command line", Line: 1, Column: 1},
		Terms: Terms{Pages: 1, ReuseFor: 6 * time.Hour, Sort: Sort{By: "zScore"},
			Enrich: []Call{{Op: outlier.OpComments, Top: 1, RefreshAfter: 2 * day, Value: 2}}},
	}
	if diff := cmp.Diff(want, spec, plain); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	asked := asks(t, spec)[0].Query.Params()
	if got := asked["query"]; !slices.Equal(got, []string{"tea", "mate"}) || asked.Get("type") != "short" || asked.Get("zScoreFrom") != "2" || asked.Get("titlePattern") != "a ${b} *" {
		t.Errorf("it asks for %v", asked)
	}
	if len(config.Jobs) != 1 {
		t.Error("the file has got another job")
	}
}

func TestEveryVerbSupportsOneOffJobs(t *testing.T) {
	config := parse(t, head+"jobs: {a: {search: {}}}\n")
	for verb, keys := range map[Verb]Keys{
		VerbSearch:          {"search.query": {"~"}},
		VerbRelated:         {"related.video_id": {"https://video.example/watch?v=dQw4w9WgXcQ"}},
		VerbScan:            {"scan.query": {"x"}},
		VerbChannels:        {"channels.id": {"UC1234567890abcdefghijkl"}},
		VerbVideos:          {"videos.id": {"dQw4w9WgXcQ"}, "videos.fetch": {"comments"}},
		VerbFindChannels:    {"find_channels.query": {"x"}},
		VerbTrendingFormats: {"trending_formats": nil, "trending_formats.a.b": {"7", "007", "~"}},
	} {
		spec, err := config.Once(OneOff{Keys: keys})
		if err != nil {
			t.Errorf("%s: %v", verb, err)
			continue
		}
		got := must(t, spec, nothingKnown())
		if spec.Verb != verb || spec.Name != "once:"+string(verb) || len(got.Asks)+len(got.IDs) != 1 {
			t.Errorf("%s is %+v and asks %+v", verb, spec, got)
		}
		if verb == VerbTrendingFormats && !slices.Equal(got.Asks[0].Query.Params()["a.b"], []string{"7", "007", "~"}) {
			t.Errorf("it asks for %v", got.Asks[0].Query.Params())
		}
	}
}

// A mistake of a one-off job is shown at its place in the command line, and one in a list of the file at its
// place there.
func TestCommandLineMistakesHavePlaces(t *testing.T) {
	config := parse(t, head+"lists: {codes: [en, xx]}\nbudget: {per_month: 40}\njobs: {a: {search: {}}}\n")
	for _, c := range []struct {
		keys Keys
		want string
	}{
		{Keys{"search.qery": {"x"}}, "command line:1:1: search.qery: unknown key; did you mean query?"},
		{Keys{"search.query": {"x"}, "search.where.z_score": {"2"}}, `command line:1:2: search.where.z_score: must be a range such as 2.., ..3.5 or 2..3.5, got "2"`},
		{Keys{"search.pages": {"0"}}, "search.pages: must be at least 1, got 0"},
		{Keys{"search.pages": {"many"}}, `search.pages: must be a number of pages such as 2, or all, got "many"`},
		{Keys{"search.where.language.list": {"codes"}}, "/etc/outlierd/jobs.yaml:4:21: lists.codes: used as language: must be"},
		{Keys{"search.where.use": {"nothing"}}, `must be the name of a filter, got "nothing"`},
		{Keys{"search.query": {"${x}"}, "search.sort": {"${x}"}}, "command line:1:2: search.sort: must be one of"},
		{Keys{"scan.query": {"x"}}, "the price of a fast scan"},
		{Keys{"about": {"x"}}, "must have one of search, related"},
		{nil, "must have one of search, related"},
	} {
		spec, err := config.Once(OneOff{Keys: c.keys})
		if _, ok := errors.AsType[yamltree.Mistakes](err); !ok || !strings.Contains(err.Error(), c.want) || spec != nil {
			t.Errorf("%v gives %v, want %q", c.keys, err, c.want)
		}
	}
	if _, err := config.Once(OneOff{Keys: Keys{"search.where.language.list": {"codes"}}}); err == nil {
		t.Error("a mistake in the file is told only once")
	}
}

func TestTheBudgetsFloor(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"lasts", `
budget: {per_month: 62}
jobs: {a: {schedule: "@daily", search: {}}}`, ""},
		{"does not last", `
budget: {per_month: 61, reserve: 20}
jobs: {a: {schedule: "@daily", search: {}}}`, "all jobs together cost at least 62 credits in a cycle of 31 days, the budget is 41: it lasts until day 21"},
		{"a day is enough", `
budget: {per_day: 4, per_month: 100}
jobs: {a: {every: 12h, reuse_for: 1m, search: {}}}`, "cost at least 124 credits"},
		{"a day is not enough", `
budget: {per_day: 3, per_month: 100}
jobs: {a: {every: 12h, reuse_for: 1m, search: {}}}`, "all jobs together cost at least 4 credits on the busiest day, the budget is 3"},
		{"a day is not enough, without a month", `
budget: {per_day: 3}
jobs: {a: {every: 12h, reuse_for: 1m, search: {}}}`, "cost at least 4 credits on the busiest day, the budget is 3"},
		{"a day lets the month last", `
budget: {per_day: 3, per_month: 93}
jobs: {a: {every: 12h, reuse_for: 1m, search: {}}}`, "cost at least 4 credits on the busiest day, the budget is 3"},
		{"for each", `
budget: {per_month: 50}
jobs: {a: {every: 1d, for_each: {t: [a, b, c]}, search: {query: "${t}"}}}`, "cost at least 186 credits"},
		{"its own cap", `
budget: {per_month: 50}
jobs: {a: {every: 1d, for_each: {t: [a, b, c]}, search: {query: "${t}"}, budget: {per_run: 2, per_month: 48}}}`, ""},
		{"answers from the cache", `
budget: {per_month: 60}
jobs: {a: {every: 1h, reuse_for: 2d, search: {}}}`, ""},
		{"after a job", `
budget: {per_month: 100}
jobs: {a: {every: 1d, search: {}}, b: {after: a, find_channels: {}}}`, "cost at least 217 credits"},
		{"the same seeds", `
budget: {per_month: 100}
jobs: {a: {every: 1d, search: {}}, b: {after: a, related: {title: x}}}`, ""},
		{"prices of one's own", `
budget: {per_month: 100}
service: {prices: {search: 4}}
jobs: {a: {every: 1d, search: {}}}`, "cost at least 124 credits"},
		{"not enabled", `
budget: {per_month: 50}
jobs: {a: {every: 1d, search: {}, enabled: false}, b: {after: a, search: {}, enabled: false}, c: {search: {}}, d: {every: 1h, videos: {id: dQw4w9WgXcQ}}}`, ""},
		{"by scans", `
budget: {per_month: 150, renews: on day 31}
jobs: {a: {schedule: "0 0 1,10,20 * *", scan: {query: x}}}`, "cost at least 156 credits in a cycle of 31 days, the budget is 150: it lasts until day 21"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "version: 1\nservice: {url: \"sim://\"}\n" + c.body
			if strings.Contains(c.body, "service:") {
				text = "version: 1\n" + strings.Replace(c.body, "service: {", `service: {url: "sim://", `, 1)
			}
			var got []string
			for _, w := range parse(t, text).Warnings {
				got = append(got, w.Message)
			}
			if joined := strings.Join(got, "\n"); (c.want == "") != (joined == "") || !strings.Contains(joined, c.want) {
				t.Errorf("warned %q, want %q", joined, c.want)
			}
		})
	}
}

// TestBackupsBesideALake: a REST catalog may have a warehouse of its own, which the file does not name.
func TestBackupsBesideALake(t *testing.T) {
	config := parse(t, head+`
sinks: [{duckdb: outliers.duckdb}, {iceberg: {catalog: "https://catalog.example"}}]
backup: {to: /mnt/backup}
jobs: {a: {search: {}}}
`)
	if config.Backup.To != "/mnt/backup" {
		t.Errorf("backups go to %q", config.Backup.To)
	}
}

// Warnings come in the order of the file, each with its place.
func TestWarningsAreOrderedByPlace(t *testing.T) {
	config := parse(t, head+`
daemon: {log: {level: info}}
jobs:
  a: {enabled: false, every: 1h, search: {}}
  b: {after: a, search: {}}
  c: {search: {}, enrich: {where: {z_score: 2..}}}
  d: {search: {}, enrich: {comments: {top_per_item: 2}}}
  e: {for_each: {x: [y]}, search: {query: "${x}"}, enrich: {where: {z_score: 2..}, comments: {top_per_item: 2}}}
`)
	var got []string
	for _, w := range config.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"/etc/outlierd/jobs.yaml:5:10: daemon.log: has no effect yet",
		"/etc/outlierd/jobs.yaml:8:14: jobs.b.after: the job a is disabled, so this job never runs after it",
		"/etc/outlierd/jobs.yaml:9:28: jobs.c.enrich.where: has no effect, as enrich names nothing to fetch; name something, such as comments: {}",
		"/etc/outlierd/jobs.yaml:10:53: jobs.d.enrich.comments.top_per_item: has the effect of top, as the job has no for_each; write top",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEmptyListFileGivesWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rivals.txt")
	if err := os.WriteFile(file, []byte("# none yet\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := parse(t, head+fmt.Sprintf("jobs: {a: {channels: {id: {file: %s}}}, b: {for_each: {t: {file: %s}}, search: {query: \"${t}\"}}}\n", file, file))
	if err := config.CheckLists(nothingKnown()); err != nil {
		t.Error(err)
	}
	if len(config.Warnings) != 2 || !strings.Contains(config.Warnings[0].Message, "has no values") {
		t.Errorf("warned %v", config.Warnings)
	}
	for i := range config.Jobs {
		if got := must(t, &config.Jobs[i], nothingKnown()); len(got.IDs)+len(got.Asks) > 0 {
			t.Errorf("%s asks %+v", config.Jobs[i].Name, got)
		}
	}
}

func TestDefaultsFillUnsetJobKeys(t *testing.T) {
	config := parse(t, head+`
notify: {team: {webhook: ""}}
defaults:
  catch_up: none
  enrich: {sort: views, details: {top: 3}}
  budget: {per_run: 60, per_month: 90}
  reuse_for: 1h
  stop_after: 2h
  notify: team
jobs:
  all: {search: {pages: all}}
  own: {search: {}, catch_up: all, enrich: {}, budget: {per_run: 4}, reuse_for: 3h, stop_after: 5m, notify: []}
  scan: {scan: {query: x}}
  data: {videos: {id: dQw4w9WgXcQ}}
  found: {find_channels: {}}
`)
	all, own := config.Job("all"), config.Job("own")
	if all.CatchUp != CatchUpNone || len(all.Enrich) != 1 || all.Sort.By != "views" || *all.Budget.PerRun != 60 || *all.Budget.PerMonth != 90 ||
		all.ReuseFor != time.Hour || all.StopAfter != 2*time.Hour || !slices.Equal(all.Notify, []string{"team"}) {
		t.Errorf("a job without a word of its own: %+v", all)
	}
	if own.CatchUp != CatchUpAll || len(own.Enrich) != 0 || own.Sort.By != "zScore" || *own.Budget.PerRun != 4 || own.Budget.PerMonth != nil ||
		own.ReuseFor != 3*time.Hour || own.StopAfter != 5*time.Minute || len(own.Notify) != 0 {
		t.Errorf("a job with words of its own: %+v", own)
	}
	if len(config.Job("scan").Enrich) != 1 || len(config.Job("data").Enrich) != 0 || len(config.Job("found").Enrich) != 0 {
		t.Error("what is fetched for videos is fetched for other things, or not for videos")
	}
	if config.Job("nobody") != nil {
		t.Error("there is a job nobody")
	}
}

func TestDisabledJobIsNeverDue(t *testing.T) {
	if due := one(t, "every: 1h, enabled: false, search: {}").Next(noon, time.UTC); !due.IsZero() {
		t.Errorf("it is due at %s", due)
	}
}

// A mistake that another package finds is shown with its place and an excerpt, which hides secrets.
func TestMistakeShowsPlaceAndExcerpt(t *testing.T) {
	config := parse(t, head+"notify: {a: {webhook: https://hunter2}}\njobs: {a: {videos: {id: {sql: select x}}}}\n")
	query := config.Jobs[0].SQL()[0]
	got := yamltree.Mistakes{config.Mistake(query.At, "jobs.a: no such column", "look it up")}.Error()
	want := "/etc/outlierd/jobs.yaml:5:31: jobs.a: no such column; look it up\n   4 | notify: {a: {webhook: ********\n   5 | jobs: {a: {videos: {id: {sql: select x}}}}\n     |                               ^\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOverridesAreTheSameAfterJSON, in which they reach the daemon.
func TestOverridesAreTheSameAfterJSON(t *testing.T) {
	want := Overrides{Pages: 2, Since: 48 * time.Hour, NoEnrich: true, Again: true, Set: map[string]string{"a": "b"}, MoveCursor: true}
	text, err := json.Marshal(want)
	if got := `{"pages":2,"since":172800000000000,"no_enrich":true,"again":true,"set":{"a":"b"},"move_cursor":true}`; err != nil || string(text) != got {
		t.Errorf("%s, %v, want %s", text, err, got)
	}
	var got Overrides
	if err := json.Unmarshal(text, &got); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if text, _ := json.Marshal(Overrides{}); string(text) != "{}" {
		t.Errorf("no overrides are %s", text)
	}
	if err := json.Unmarshal([]byte(`{"since":"2x"}`), &got); err == nil {
		t.Error("2x is no duration")
	}
}
