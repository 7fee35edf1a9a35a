package job

import (
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

// IDs come from lists, files and SQL, each without repetitions.
func TestIDSourcesAreDeduplicated(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "videos.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\uFEFF# the best\r\ndQw4w9WgXcQ\r\n\r\n  https://video.example/watch?v=abcdefghijk&t=4#top # seen twice\nabcdefghijk\n")
	config, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(head+`
lists: {ids: [dQw4w9WgXcQ, video.example/abcdefghijk, 12345678901, dQw4w9WgXcQ]}
jobs:
  list: {videos: {id: {list: ids}}}
  file: {videos: {id: {file: videos.txt}, fetch: transcript}}
  sql: {channels: {id: {sql: select 1}, refresh_after: 2d}}
  each: {for_each: {v: {file: videos.txt}}, related: {video_id: "${v}"}}
`), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	in := nothingKnown()
	in.IDs = func(sql, column string) ([]string, error) {
		if sql != "select 1" || column != "channel_id" {
			t.Errorf("SQL %s is asked for %s", sql, column)
		}
		return []string{"UC1234567890abcdefghijkl", "", "UCabcdefghijkl1234567890", "UC1234567890abcdefghijkl"}, nil
	}
	for name, want := range map[string][]string{
		"list": {"dQw4w9WgXcQ", "abcdefghijk", "12345678901"},
		"file": {"dQw4w9WgXcQ", "abcdefghijk"},
		"sql":  {"UC1234567890abcdefghijkl", "UCabcdefghijkl1234567890"},
	} {
		if got := must(t, config.Job(name), in).IDs; !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", name, got, want)
		}
	}
	if got := config.Job("file").Fetch; !slices.Equal(got, []Call{{Op: outlier.OpTranscript, RefreshAfter: Once, Value: 3}}) {
		t.Errorf("the file's job fetches %v", got)
	}
	if got := config.Job("sql").Fetch; !slices.Equal(got, []Call{{Op: outlier.OpChannelVideos, RefreshAfter: 2 * day, Value: 5}, {Op: outlier.OpChannelShorts, RefreshAfter: 2 * day, Value: 4}}) {
		t.Errorf("the channels' job fetches %v", got)
	}
	if got := must(t, config.Job("each"), in).Asks; len(got) != 3 || got[1].Query.Params().Get("videoId") != "abcdefghijk" || got[1].Item == "abcdefghijk" {
		t.Errorf("for each line of the file: %+v", got)
	}

	write("dQw4w9WgXcQ\n@someone\n")
	if _, err := config.Job("file").Resolve(in); err == nil || !strings.Contains(err.Error(), `job file: id: line 2 of "videos.txt": "@someone" is neither`) {
		t.Errorf("a file that went bad gives %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Job("file").Resolve(in); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a file that is gone gives %v", err)
	}
}

// A list is read as a person sees it in an editor, or refused with its lines; see testdata/lists.
func TestListsAreCheckedLineByLine(t *testing.T) {
	config, err := Load("testdata/lists/jobs.yaml", environment)
	if err != nil {
		t.Fatalf("the lists of a job stop the file:\n%v", err)
	}
	golden(t, "testdata/lists/jobs.golden", config.CheckLists(nothingKnown()).Error())
	var topics []string
	for _, ask := range must(t, config.Job("mac"), nothingKnown()).Asks {
		topics = append(topics, ask.Queries...)
	}
	if want := []string{"moka pot", "espresso", "latte", "a b"}; !slices.Equal(topics, want) {
		t.Errorf("lines with the ends of all systems are %q, want %q", topics, want)
	}
	_, err = config.Job("lines").Resolve(nothingKnown())
	if err == nil || strings.Count(err.Error(), "handles.txt") != 2 {
		t.Errorf("a run names %v, want both lines", err)
	}
}

// A table has the values in one column, whatever separates them and whatever else it holds.
func TestAColumnOfATable(t *testing.T) {
	dir := t.TempDir()
	for name, table := range map[string]string{
		"comma": "name,channel,note\r\n\"Moka, daily\",UC1234567890abcdefghijkl,\"two\nlines # and this\"\r\n" +
			"short\r\nx,,\r\ny,https://video.example/channel/UCabcdefghijkl1234567890,\r\n",
		"semicolon": "\uFEFFname;channel\n\"a;b\";UC1234567890abcdefghijkl\nc;UCabcdefghijkl1234567890\n",
		"tab":       "channel\tname\nUC1234567890abcdefghijkl\ta, b; c\nUCabcdefghijkl1234567890\t\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".csv"), []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := Parse(filepath.Join(dir, "jobs.yaml"), []byte(head+`
jobs:
  ids: {channels: {id: {file: `+name+`.csv, column: channel}}}
  each: {for_each: {c: {file: `+name+`.csv, column: channel}}, search: {where: {channel_id: "${c}"}}}
`), nothingSet)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"UC1234567890abcdefghijkl", "UCabcdefghijkl1234567890"}
		if got := must(t, config.Job("ids"), nothingKnown()).IDs; !slices.Equal(got, want) {
			t.Errorf("%s: the column gives %q, want %q", name, got, want)
		}
		if got := must(t, config.Job("each"), nothingKnown()).Asks; len(got) != 2 || got[1].Query.Params().Get("channelId") != want[1] {
			t.Errorf("%s: for_each of the column makes %+v", name, got)
		}
	}
}

// Handles are looked up together when the job is resolved, wherever a channel is meant.
func TestTablesResolveHandles(t *testing.T) {
	config, err := Parse("jobs.yaml", []byte(head+`
lists: {rivals: ["@One", "https://host.example/@two/videos", UC1234567890abcdefghijkl]}
jobs:
  ids: {channels: {id: {list: rivals}}}
  each: {for_each: {c: {list: rivals}}, search: {query: "@one", where: {channel_id: "${c}"}}}
  unknown: {scan: {channel_id: [One, "@three", CoffeeDaily]}}
  filter: {for_each: {c: [three, one]}, search: {where: {channel_id: "${c}"}}}
  video: {channels: {id: "https://host.example/watch?v=dQw4w9WgXcQ"}}
  none: {channels: {id: "@three"}}
`), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	in := nothingKnown()
	in.IDs = func(sql, column string) (pairs []string, err error) {
		asked++
		for handle, id := range map[string]string{"@one": "UCabcdefghijkl1234567890", "@two": "UCabcdefghijkl1234567891", "dQw4w9WgXcQ": "UCabcdefghijkl1234567891"} {
			if strings.Contains(sql, "'"+handle+"'") {
				pairs = append(pairs, handle+" "+id)
			}
		}
		return pairs, nil
	}
	want := []string{"UCabcdefghijkl1234567890", "UCabcdefghijkl1234567891", "UC1234567890abcdefghijkl"}
	if got := must(t, config.Job("ids"), in).IDs; !slices.Equal(got, want) || asked != 1 {
		t.Errorf("the list gives %q in %d queries, want %q in one", got, asked, want)
	}
	for i, ask := range must(t, config.Job("each"), in).Asks {
		if ask.Query.Params().Get("channelId") != want[i] || ask.Query.Params().Get("query") != "@one" {
			t.Errorf("search %d is for %v, want channel %s and the query as it stands", i, ask.Query.Params(), want[i])
		}
	}
	if got := must(t, config.Job("unknown"), in); !slices.Equal(got.Unknown, []string{"@three", "CoffeeDaily"}) ||
		!slices.Equal(got.Asks[0].Seeds, want[:1]) {
		t.Errorf("known channels beside unknown ones: %+v", got)
	}
	if got := must(t, config.Job("filter"), in); !slices.Equal(got.Unknown, []string{"@three"}) || len(got.Asks) != 1 {
		t.Errorf("a search that an unknown channel would restrict: %+v", got)
	}
	if got := must(t, config.Job("video"), in).IDs; !slices.Equal(got, want[1:2]) {
		t.Errorf("a video stands for %q, want %q", got, want[1:2])
	}
	_, err = config.Job("none").Resolve(in)
	if unknown, ok := errors.AsType[*UnknownChannelsError](err); !ok || !slices.Equal(unknown.Channels, []string{"@three"}) {
		t.Errorf("an unknown handle gives %v", err)
	}
}

// SQL that finds nothing must not turn a search for something into one for everything.
func TestWhatFindsNoSeedsAsksNothing(t *testing.T) {
	for _, body := range []string{
		"related: {video_id: {sql: select 1}}",
		"related: {video_id: {sql: select 1}, related_channel_id: {sql: select 2}}",
		"search: {query: {sql: select 1}, where: {z_score: 2..}}",
		"scan: {query: {sql: select 1}}",
		"find_channels: {related_to: {sql: select 1}}",
		`for_each: {t: {sql: select 1}}, search: {query: "${t}"}`,
		"videos: {id: {sql: select 1}}",
	} {
		if got := must(t, one(t, body), nothingKnown()); len(got.Asks)+len(got.IDs) > 0 {
			t.Errorf("%s asks %+v", body, got)
		}
	}
	if got := asks(t, one(t, "related: {video_id: {sql: select 1}, title: tea}")); len(got) != 1 || got[0].Query.Params().Has("videoId") {
		t.Errorf("one seed of two: %+v", got)
	}
	if got := asks(t, one(t, "search: {where: {z_score: 2..}}")); len(got) != 1 {
		t.Errorf("a search that means everything: %+v", got)
	}
}

// The SQL of a job runs once for all values of for_each, and its errors name the job.
func TestSeedQueryRunsOnce(t *testing.T) {
	spec := one(t, `for_each: {t: [a, b, c]}, related: {title: "${t}", video_id: {sql: select v}}`)
	in, times := nothingKnown(), 0
	in.IDs = func(string, string) ([]string, error) { times++; return []string{"dQw4w9WgXcQ"}, nil }
	if got := must(t, spec, in).Asks; len(got) != 3 || times != 1 {
		t.Errorf("%d requests, the SQL ran %d times", len(got), times)
	}
	broken := errors.New("no such column")
	in.IDs = func(string, string) ([]string, error) { return nil, broken }
	if _, err := spec.Resolve(in); !errors.Is(err, broken) || !strings.Contains(err.Error(), "job a: video_id: the SQL in line 4 of /etc/outlierd/jobs.yaml") {
		t.Errorf("SQL that fails gives %v", err)
	}
	in.IDs = func(string, string) ([]string, error) { return []string{"@someone"}, nil }
	if _, err := spec.Resolve(in); err == nil || !strings.Contains(err.Error(), `"@someone" is neither a video id`) {
		t.Errorf("SQL that gives no ids gives %v", err)
	}
	in = nothingKnown()
	in.Since = func(string) (time.Time, error) { return time.Time{}, broken }
	if _, err := one(t, `search: {where: {published_at: "since last success"}}`).Resolve(in); !errors.Is(err, broken) {
		t.Errorf("an unknown past gives %v", err)
	}
}

// The SQL of a job is listed with its place and the ID column that it should return.
func TestQueriesNameTheirIDColumn(t *testing.T) {
	spec := one(t, `for_each: {t: {sql: select t}}, related: {thumbnail_video_id: "${t}", title: {sql: select n}, video_id: {sql: select v}, related_channel_id: {sql: select c}}`)
	at := func(column int) yamltree.Place {
		return yamltree.Place{File: "/etc/outlierd/jobs.yaml", Line: 4, Column: column}
	}
	want := []Query{{"select t", "", at(32)}, {"select c", "channel_id", at(159)}, {"select n", "title", at(95)}, {"select v", "video_id", at(122)}}
	if diff := cmp.Diff(want, spec.SQL()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for body, want := range map[string]string{
		"videos: {id: {sql: x}}":                "video_id",
		"channels: {id: {sql: x}}":              "channel_id",
		"scan: {channel_id: {sql: x}}":          "channel_id",
		"scan: {query: {sql: x}}":               "",
		"search: {query: {sql: x}}":             "",
		"find_channels: {related_to: {sql: x}}": "channel_id",
	} {
		if got := one(t, body).SQL(); len(got) != 1 || got[0].IDColumn != want {
			t.Errorf("%s wants %v, not %q", body, got, want)
		}
	}
}

// SQL for several names of for_each may give at most 10000 combinations.
func TestCrossProductOfQueriesIsBounded(t *testing.T) {
	spec := one(t, `for_each: {a: {sql: x}, b: {sql: x}}, search: {query: "${a} ${b}"}`)
	in := nothingKnown()
	in.IDs = func(string, string) ([]string, error) {
		var all []string
		for i := range 101 {
			all = append(all, fmt.Sprint(i))
		}
		return all, nil
	}
	if _, err := spec.Resolve(in); err == nil || !strings.Contains(err.Error(), "more than 10000 combinations") {
		t.Errorf("10201 combinations give %v", err)
	}
}

func TestResolvingLeavesTheSpecAlone(t *testing.T) {
	spec := one(t, `for_each: {t: [b, a, b]}, related: {title: ["${t}", x], where: {published_at: last 3d}}`)
	first := must(t, spec, nothingKnown())
	later := nothingKnown()
	later.Now = noon.AddDate(0, 1, 0)
	must(t, spec, later)
	if diff := cmp.Diff(first, must(t, spec, nothingKnown()), sameQuery); diff != "" {
		t.Errorf("(-first +again)\n%s", diff)
	}
}
