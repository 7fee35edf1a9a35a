package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/programtest"
	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
)

// publishing is a person whose searches are published, with the published file open for queries of the test's own.
type publishing struct {
	*person
	file string
	db   *database.DB // nil before the first query
}

// searched has the files after three searches, which enrich the top hits. The first of them has run twice.
var searched struct {
	sync.Once
	url   string
	files fstest.MapFS
}

// newPublishing returns a person with these files.
func newPublishing(t *testing.T) *publishing {
	person := func() *person {
		return &person{T: t, dir: t.TempDir(), env: func(name string) (string, bool) {
			value, ok := map[string]string{"OUTLIERD_URL": searched.url, "OUTLIERD_KEY": "demo"}[name]
			return value, ok
		}}
	}
	searched.Do(func() {
		server := httptest.NewServer(simulator.New(simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000}))
		defer server.Close()
		searched.url = server.URL
		p := person()
		p.begin()
		p.write(programtest.Searches(1, 3))
		p.must("run", "--all", "--yes")
		p.must("run", "search-0", "--again", "--yes")
		searched.files = programtest.ReadFolder(p, p.dir)
	})
	p := person()
	if err := os.CopyFS(p.dir, searched.files); err != nil || len(searched.files) == 0 {
		t.Fatalf("copy %d files: %v", len(searched.files), err)
	}
	return &publishing{person: p, file: filepath.Join(p.dir, "data", "outliers.duckdb")}
}

// query queries the file as it was published at the first query.
func (p *publishing) query(sql string, row func([]any)) {
	p.Helper()
	if p.db == nil {
		p.open()
	}
	rows, err := p.db.Query(p.Context(), sql)
	if err != nil {
		p.Fatal(err)
	}
	for _, values := range rows {
		all := make([]any, len(values))
		for i, v := range values {
			all[i] = v
		}
		row(all)
	}
}

func (p *publishing) open() {
	p.Helper()
	var err error
	if p.db, err = database.Open(p.Context(), database.Options{}); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := p.db.Close(); err != nil {
			p.Error(err)
		}
	})
	if _, err := p.db.Exec(p.Context(), "ATTACH "+database.Text(p.file)+" AS warehouse (READ_ONLY); USE warehouse"); err != nil {
		p.Fatal(err)
	}
}

// TestFoundMatchesQueries compares the outliers for each filter and sort order with a query of its own, and with the
// SQL that the page links to.
func TestFoundMatchesQueries(t *testing.T) {
	t.Parallel()
	w := newPublishing(t)
	var channel, handle, language string
	w.query(`select channel_id, ltrim(channel_handle, '@'), "language" from outliers
		where channel_handle is not null order by video_id limit 1`, func(row []any) {
		channel, handle, language = row[0].(string), row[1].(string), row[2].(string)
	})
	const history = "video_id in (select video_id from outliers_history where "
	tables := page.NewTables(w.file, time.UTC)
	now := time.Now().Truncate(time.Hour)
	for address, where := range map[string]string{
		"/found":                                    "true",
		"/":                                         "video_id in (select video_id from new_this_week)",
		"/found?query=moka+pot":                     history + "list_contains(queries, 'moka pot'))",
		"/found?query=OKA+p":                        history + "list_contains(queries, 'moka pot'))",
		"/found?topic=moka+pot":                     history + "list_contains(queries, 'moka pot'))",
		"/found?topic=moka+pot&topic=none":          history + "list_contains(queries, 'moka pot'))",
		"/found?job=search-2":                       history + "_job = 'search-2')",
		"/found?channel=" + channel:                 "channel_id = '" + channel + "'",
		"/found?channel=%40" + handle:               "ltrim(channel_handle, '@') = '" + handle + "'",
		"/found?kind=short":                         "kind = 'short'",
		"/found?language=" + language:               "language = '" + language + "'",
		"/found?ratio=3.5":                          "average_views_ratio >= 3.5",
		"/found?ratio=below":                        "average_views_ratio < 1",
		"/found?days=60":                            "published_at >= to_timestamp(" + fmt.Sprint(now.AddDate(0, 0, -60).Unix()) + ")",
		"/found?size=10K&size=50K":                  "channel_subscribers < 50000",
		"/found?more=rising":                        "video_id in (select video_id from growth where growth_per_day >= 0.05 and seen_in = 'outliers')",
		"/found?q=THE+a":                            "(title ilike '%the%' or channel_title ilike '%the%') and (title ilike '%a%' or channel_title ilike '%a%')",
		"/found?q=%27+or+true+--":                   "false",
		"/found?topic=%27+or+true+--":               "false",
		"/found?kind=video&ratio=2&query=minecraft": "kind = 'video' and average_views_ratio >= 2 and " + history + "list_contains(queries, 'minecraft'))",
	} {
		for order, column := range query.Orders {
			if address != "/found" && order != "found" || strings.Contains(column, "t.") { // of several columns
				continue
			}
			filter, err := page.FilterOf(address)
			if err != nil {
				t.Fatal(err)
			}
			filter.Order = order
			var want, got, plain []string
			w.query(fmt.Sprintf("select video_id from outliers where %s order by %s desc nulls last, video_id", where, column),
				func(row []any) { want = append(want, row[0].(string)) })
			for filter.Limit = 50; ; filter.Offset += filter.Limit {
				found, err := tables.Found(t.Context(), filter)
				if err != nil {
					t.Fatalf("%s: %v", address, err)
				}
				if found.Total != int64(len(want)) {
					t.Fatalf("%s, from %d: a total of %d, want %d", address, filter.Offset, found.Total, len(want))
				}
				for _, c := range found.Cards {
					got = append(got, c.ID)
				}
				if plain == nil {
					plain = []string{}
					w.query("select video_id from ("+found.SQL+")", func(row []any) { plain = append(plain, row[0].(string)) })
				}
				if len(found.Cards) == 0 {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(plain) != fmt.Sprint(want) {
				t.Errorf("%s by %s: got %q, by SQL %q, want %q", address, order, got, plain, want)
			}
		}
	}
}

// TestFacetsCountWhatALinkShows: the number beside each value is that of the list behind it. One value of each facet is
// followed by chance, and all with -long.
func TestFacetsCountWhatALinkShows(t *testing.T) {
	t.Parallel()
	random := testenv.Random(t)
	tables := page.NewTables(newPublishing(t).file, time.UTC)
	for _, address := range []string{"/found", "/", "/found?kind=video&ratio=3", "/found?q=a&language=en", "/found?topic=moka+pot&more=steady"} {
		filter, err := page.FilterOf(address)
		if err != nil {
			t.Fatal(err)
		}
		found, err := tables.Found(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		counted := 0
		for _, facet := range slices.Sorted(maps.Keys(found.Values)) {
			options := found.Values[facet]
			if !*long && len(options) > 0 {
				some := random.IntN(len(options))
				options = options[some : some+1]
			}
			for _, option := range options {
				one := filter
				one.Chosen = maps.Clone(filter.Chosen)
				one.Chosen[facet] = []string{option.Value}
				if facet == "more" {
					one.Chosen["more"] = append([]string{option.Value}, filter.Chosen["more"]...)
				}
				one.Limit = 0
				behind, err := tables.Found(t.Context(), one)
				if err != nil {
					t.Fatal(err)
				}
				if behind.Total != option.Count {
					t.Errorf("%s: %d beside %s %s, and %d behind it", address, option.Count, facet, option.Value, behind.Total)
				}
				counted += int(option.Count)
			}
		}
		if counted == 0 {
			t.Errorf("%s: nothing is counted", address)
		}
	}
}

// TestMarksFilterOutliers: what is hidden is nowhere, and a tag is found by its #.
func TestMarksFilterOutliers(t *testing.T) {
	t.Parallel()
	tables := page.NewTables(newPublishing(t).file, time.UTC)
	found := func(address string) *page.Found {
		t.Helper()
		filter, err := page.FilterOf(address)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tables.Found(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := found("/found")
	a, b := all.Cards[0].ID, all.Cards[1].ID
	tables.Marks = func() (*page.Marked, error) {
		return &page.Marked{ByID: map[string]marks.Mark{a: {Hidden: true}, b: {Starred: true, Tags: []string{"Hook"}, Note: "why"}},
			Views: []marks.View{{Name: "mine", Address: "/found?q=%23hook"}}}, nil
	}
	for address, want := range map[string]int64{"/found": all.Total - 1, "/found?show=starred": 1, "/found?show=hidden": 1, "/found?q=%23HOOK": 1, "/found?q=%23none": 0} {
		if got := found(address); got.Total != want {
			t.Errorf("%s: %d videos, want %d", address, got.Total, want)
		}
	}
	if c := found("/found").Cards[0]; c.ID != b || !c.Starred || c.Note != "why" {
		t.Errorf("the first card is %+v, want %s with its marks", c, b)
	}
	views := found("/found").Views
	if got := fmt.Sprint(views[1].Address, *views[1].Count, views[2].Address, *views[2].Count, views[3].Text, *views[3].Count); got != fmt.Sprintf("/found%d/found?show=starred1mine1", all.Total-1) {
		t.Errorf("the views are %s", got)
	}
}

// TestNichesAndMoneyMatchQueries compares the numbers of these pages with queries of its own.
func TestNichesAndMoneyMatchQueries(t *testing.T) {
	t.Parallel()
	w := newPublishing(t)
	tables := page.NewTables(w.file, time.UTC)
	one := func(sql string) (n int64) {
		w.query(sql, func(row []any) { n = row[0].(int64) })
		return n
	}
	const of = " from outliers where video_id in (select video_id from outliers_history where list_contains(queries, 'moka pot'))"
	n, err := tables.Niche(t.Context(), "moka pot")
	if err != nil {
		t.Fatal(err)
	}
	inWeeks, inLeaders := int64(0), int64(0)
	for _, week := range n.Weeks {
		for _, count := range week.Count {
			inWeeks += count
		}
	}
	for _, l := range n.Leaders {
		inLeaders += l.All()
	}
	if all := one("select count(*)" + of); n.Outliers != all || inWeeks != all || inLeaders == 0 || inLeaders > all || len(n.Topics) != 3 {
		t.Errorf("%d outliers, %d in weeks, %d of leaders, want %d; topics %v", n.Outliers, inWeeks, inLeaders, all, n.Topics)
	}
	if want := one("select count(distinct channel_id)" + of); n.Channels != want || n.NewChannels != want {
		t.Errorf("%d channels, %d new, want %d", n.Channels, n.NewChannels, want)
	}
	if want := one("select seen from ops.coverage where list_contains(queries, 'moka pot')"); n.Seen == nil || *n.Seen != want || n.Total == nil || len(n.Strongest) == 0 {
		t.Errorf("seen %v of %v, want %d; strongest %v", n.Seen, n.Total, want, n.Strongest)
	}
	if _, err := tables.Niche(t.Context(), "' or true --"); !errors.Is(err, page.ErrUnknown) || !strings.Contains(err.Error(), "or true") {
		t.Errorf("an unknown topic: %v", err)
	}
	var month string
	w.query("select max(month) from ops.credits", func(row []any) { month = row[0].(string) })
	from, err := time.Parse(time.DateOnly, month)
	if err != nil {
		t.Fatal(err)
	}
	m := &page.Money{}
	if err := tables.AddMoney(t.Context(), m, from); err != nil {
		t.Fatal(err)
	}
	spent, bought, found := int64(0), int64(0), int64(0)
	for _, d := range m.Days {
		for _, credits := range d.Spent {
			spent += credits
		}
	}
	for _, y := range m.Yields {
		bought, found = bought+y.Credits, found+y.New
	}
	if want := one("select sum(price)::bigint from ops.credits"); spent != want || bought != want || len(m.Yields) != 3 {
		t.Errorf("%d credits by day, %d by search, want %d", spent, bought, want)
	}
	if want := one("select sum(new_hits)::bigint from ops.searches"); found != want {
		t.Errorf("%d new, want %d", found, want)
	}
	if want := one("select count(distinct queries) from ops.coverage where not complete"); int64(len(m.Rests)) != want {
		t.Errorf("%d rests, want %d", len(m.Rests), want)
	}
}

// TestVideosAndChannelsMatchQueries compares each part of the pages of some videos, and of their channels, with a
// query of its own.
func TestVideosAndChannelsMatchQueries(t *testing.T) {
	t.Parallel()
	w := newPublishing(t)
	tables := page.NewTables(w.file, time.UTC)
	text := func(sql string) (all string) {
		w.query(sql, func(row []any) { all += fmt.Sprintln(row...) })
		return all
	}
	var videos []string
	for _, from := range []string{
		"transcripts", "(from outliers where video_id not in (select video_id from videos))",
		"(from outliers where kind = 'short' and video_id in (select video_id from videos where kind <> 'short'))",
		"(from channel_uploads where video_id not in (select video_id from outliers union select video_id from videos))",
	} {
		videos = append(videos, strings.Fields(text("select video_id from "+from+" order by video_id limit 1"))...)
	}
	if len(videos) != 4 {
		t.Fatalf("%d videos, want one with a transcript, one without details, a short with details, and an upload that no search found",
			len(videos))
	}
	for _, id := range videos {
		v, err := tables.Video(t.Context(), page.VideoFilter{ID: id, All: true, Page: 1})
		if err != nil {
			t.Fatal(err)
		}
		is := func(what, got, sql string) {
			t.Helper()
			if diff := cmp.Diff(text(fmt.Sprintf(sql, id)), got); diff != "" {
				t.Errorf("video %s: %s (-want +got):\n%s", id, what, diff)
			}
		}
		lists := map[string]string{}
		for _, p := range v.Curve {
			lists["views"] += fmt.Sprintln(p.N)
		}
		for _, b := range v.Sightings {
			lists["searches"] += fmt.Sprintln(b.Run, b.Topic, *b.Page, *b.Rank)
		}
		for _, c := range v.Comments {
			lists["comments"] += fmt.Sprintln(c.Author, c.Text)
		}
		for _, l := range v.Lines {
			lists["lines"] += fmt.Sprintln(l.Clock(), fmt.Sprintf("%s?t=%d", v.Link, l.Second()), l.Text)
		}
		is("views", lists["views"], `select view_count from (select observed_at, view_count from outliers_history where video_id = '%[1]s'
			union all select observed_at, view_count from videos_history where video_id = '%[1]s'
			union all select observed_at, view_count from channel_uploads_history where video_id = '%[1]s') order by observed_at`)
		is("searches", lists["searches"], `select _run_id, queries[1], page + 1, rank from outliers_history
			where video_id = '%s' order by _response_id desc`)
		is("comments", lists["comments"], `select author_text, "text" from comments
			where video_id = '%s' order by likes_count desc nulls last, position`)
		is("lines", lists["lines"], `select time_code, link, text from transcript_search
			where video_id = '%s' order by position limit 500`)
		is("line count", fmt.Sprintln(v.LineCount), "select count(*) from transcript_events where video_id = '%s'")
		if want := text("select min(kind) from (select kind from outliers where video_id = '" + id + "' union all select kind from " +
			"channel_uploads where video_id = '" + id + "')"); fmt.Sprintln(v.Kind) != want {
			t.Errorf("video %s is a %s, want a %s", id, v.Kind, want)
		}
		if v.Title == "" || v.Link != "https://youtu.be/"+id || v.ChannelID == "" || v.Views == nil || v.Last.IsZero() {
			t.Errorf("video %s: fields are missing: %+v", id, v)
		}
		c, err := tables.Channel(t.Context(), page.ChannelFilter{ID: v.ChannelID, Page: 1})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(c.Handle, "@") { // the page adds one
			t.Errorf("channel %s has the handle %q, want it without @", c.ID, c.Handle)
		}
		for _, u := range c.Uploads {
			if u.ID == id && u.Kind != v.Kind {
				t.Errorf("video %s is a %s among those of its channel, want a %s", id, u.Kind, v.Kind)
			}
		}
		want := text(fmt.Sprintf(`select count(distinct video_id) from (select video_id, channel_id from outliers
			union all select video_id, channel_id from videos
			union all select video_id, channel_id from channel_uploads) where channel_id = '%s'`, c.ID))
		if got := fmt.Sprintln(c.UploadCount); got != want || len(c.Uploads) != min(page.PerPage, int(c.UploadCount)) || c.Title == "" {
			t.Errorf("channel %s: %s videos, %d shown, want %s: %+v", c.ID, got, len(c.Uploads), want, c)
		}
	}

	v, err := tables.Video(t.Context(), page.VideoFilter{ID: videos[0], All: true, Page: 1})
	if err != nil || len(v.Lines) == 0 {
		t.Fatal(v, err)
	}
	word := strings.ToUpper(v.Lines[0].Text)
	some, err := tables.Video(t.Context(), page.VideoFilter{ID: videos[0], Words: word, All: true, Page: 1})
	if err != nil || len(some.Lines) == 0 || some.Lines[0] != v.Lines[0] {
		t.Errorf("lines with %q: %+v %v, want %+v first", word, some.Lines, err, v.Lines[0])
	}
	for name, ask := range map[string]func() error{
		"video": func() error {
			_, err := tables.Video(t.Context(), page.VideoFilter{ID: "' or true --", Page: 1})
			return err
		},
		"channel": func() error {
			_, err := tables.Channel(t.Context(), page.ChannelFilter{ID: "' or true --", Page: 1})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, page.ErrUnknown) {
			t.Errorf("an unknown %s: got %v, want %v", name, err, page.ErrUnknown)
		}
	}
}

// TestQuestionsOfThePage runs the questions of the page and other SQL on the published tables, and downloads results.
func TestQuestionsOfThePage(t *testing.T) {
	t.Parallel()
	w := newPublishing(t)
	config := &job.Config{Data: t.TempDir()}
	tables := page.NewTables(w.file, time.FixedZone("", 2*60*60))
	temporary := func() (*temporary, error) { return newTemporary(config) }
	for _, q := range listQuestions(&job.Config{}) {
		got, err := tables.First(t.Context(), query.Process{Command: newAnswerer}, q.SQL)
		if err != nil || len(got.Columns) == 0 {
			t.Errorf("%s: %v", q.Name, err)
		}
	}
	var all []string
	for _, table := range query.Catalog() {
		columns := strings.Join(table.Columns, `", "`)
		all = append(all, fmt.Sprintf(`(select count(*) from (select "%s" from %s))`, columns, table.Name))
	}
	if _, err := tables.First(t.Context(), query.Process{Command: newAnswerer}, "select "+strings.Join(all, ", ")); err != nil {
		t.Errorf("the tables of the catalog: %v", err)
	}
	w.query("select 1", func([]any) {}) // opens the database
	if _, err := w.db.Exec(t.Context(), strings.ReplaceAll(makeSnippets(tables.Path, "select count(*) from new_this_week")[0].Lines, "outlierd", "elsewhere")); err != nil {
		t.Errorf("the lines for DuckDB: %v", err)
	}
	got, err := tables.First(t.Context(), query.Process{Command: newAnswerer},
		"select timestamptz '2026-11-23 23:30:00+00' as at, 1.5::decimal(9, 2) as n, 'x' as s")
	if err != nil || *got.Rows[0][0] != "2026-11-24 01:30:00" {
		t.Fatalf("got %+v, %v, want the time in the zone: 2026-11-24 01:30:00", got, err)
	}
	for i, want := range []bool{false, true, false} {
		if c := got.Columns[i]; c.IsNumber() != want {
			t.Errorf("column %s is a number: %t, want %t", c.Name, !want, want)
		}
	}
	if _, err := tables.First(t.Context(), query.Process{Command: newAnswerer}, "select nosuch"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("a column that does not exist: got %v, want an error with its name", err)
	}

	const formulas = "select video_id, '=1+1' as formula from outliers order by video_id"
	for _, format := range []string{"csv", "parquet", "xlsx"} {
		file, err := downloadResult(t.Context(), tables, temporary, formulas, format)
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		text, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		begins := map[string]string{"csv": "video_id,formula\n", "parquet": "PAR1", "xlsx": "PK"}[format]
		if !strings.HasPrefix(string(text), begins) || format == "csv" && !strings.Contains(string(text), ",'=1+1\n") {
			t.Errorf("%s begins with %.60q, want %q, and formulas escaped in CSV", format, text, begins)
		}
	}
	best := ""
	w.query("select video_id from outliers order by video_id desc limit 1", func(row []any) { best = row[0].(string) })
	tables.Marks = func() (*page.Marked, error) {
		return &page.Marked{ByID: map[string]marks.Mark{best: {Video: best, Tags: []string{"hook"}, Note: "it's =1+1"}}}, nil
	}
	picked, err := tables.PickedSQL([]string{"nosuch", best})
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"csv": ",https://youtu.be/" + best + ",hook,it's =1+1\n", "md": "| <https://youtu.be/" + best + "> | hook | it's =1+1 |\n",
		"links": "https://youtu.be/" + best + "\n"} {
		file, err := downloadResult(t.Context(), tables, temporary, picked, format)
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		text, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("picked videos as %s: %v, %q, want the end %q", format, err, text, want)
		}
	}
	tables.Marks = func() (*page.Marked, error) { return nil, fs.ErrPermission } // of another user's state
	if sql, err := tables.PickedSQL([]string{best}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("picked videos without the state: %q, %v", sql, err)
	}
	for sql, says := range map[string]string{
		"select nosuch": "nosuch", "select * from read_text('/etc/passwd')": "only the published tables",
	} {
		_, err := downloadResult(t.Context(), tables, temporary, sql, "csv")
		if _, refused := errors.AsType[*serve.RefusedError](err); !refused || !strings.Contains(err.Error(), says) {
			t.Errorf("download of %s: got %v, want a refusal with %q", sql, err, says)
		}
	}
	if left, err := os.ReadDir(temporaryFolder(config)); err != nil || len(left) > 0 {
		t.Errorf("left on the disk of the data: %v, %v", left, err)
	}
	for _, tables := range []*page.Tables{page.NewTables("", time.UTC), page.NewTables(w.file+".away", time.UTC)} {
		_, asked := tables.First(t.Context(), query.Process{Command: newAnswerer}, "select 1")
		_, got := downloadResult(t.Context(), tables, temporary, "select 1", "csv")
		if !errors.Is(asked, page.ErrNothingPublished) || !errors.Is(got, page.ErrNothingPublished) {
			t.Errorf("without a file: got %v and %v, want %v", asked, got, page.ErrNothingPublished)
		}
	}
}

// TestErasedVideoIsGone: one that was erased between the list and the click on it.
func TestErasedVideoIsGone(t *testing.T) {
	t.Parallel()
	bubble(t, onceJobs, func(p *person) {
		p.must("run", "coffee")
		video := p.ask("select video_id from outliers order by z_score desc, video_id limit 1")
		p.must("forget", "--video", video, "--yes")
		tables := page.NewTables(filepath.Join(p.dir, "data", "outliers.duckdb"), time.UTC)
		defer tables.Close()
		if _, err := tables.Video(p.Context(), page.VideoFilter{ID: video, Page: 1}); !errors.Is(err, page.ErrUnknown) {
			t.Errorf("its page: %v, want that it is unknown", err)
		}
		if cards, err := tables.Picked(p.Context(), []string{video}); err != nil || len(cards) > 0 {
			t.Errorf("on the board: %v, %v", cards, err)
		}
		if images, err := tables.Images(p.Context(), video, time.Time{}); err != nil || len(images) > 0 {
			t.Errorf("its pictures: %v, %v", images, err)
		}
		p.opened(func(prog *program) error {
			_, err := serve.EditMarks{Edit: marks.Edit{Videos: []string{video}, Star: new(true)}}.Do(p.Context(), prog.Engine)
			if err == nil || !strings.Contains(err.Error(), "was erased") {
				t.Errorf("a star for it: %v, want a refusal that says why", err)
			}
			return nil
		})
	})
}

// TestPageIsOfOnePublication, though the file is exchanged all the time while pages are made.
func TestPageIsOfOnePublication(t *testing.T) {
	t.Parallel()
	w := newPublishing(t)
	versions := [][]byte{nil, nil}
	totals := map[int64]bool{}
	for i := range versions {
		if i > 0 {
			w.must("forget", "--channel", w.ask("select channel_id from outliers order by video_id limit 1"), "--yes")
		}
		var err error
		if versions[i], err = os.ReadFile(w.file); err != nil {
			t.Fatal(err)
		}
		total, err := strconv.ParseInt(w.ask("select count(*) from outliers"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		totals[total] = true
	}
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	exchange := func(i int) error {
		if err := os.WriteFile(path+".next", versions[i%2], 0o600); err != nil {
			return err
		}
		return os.Rename(path+".next", path)
	}
	if err := exchange(0); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	exchanged := make(chan error, 1)
	go func() {
		var err error
		for i := 1; ctx.Err() == nil && err == nil; i++ {
			err = exchange(i)
			time.Sleep(2 * time.Millisecond) // a page takes longer; without a pause this would use a whole processor
		}
		exchanged <- err
	}()
	tables := page.NewTables(path, time.UTC)
	defer tables.Close()
	seen := map[int64]bool{}
	for i := 0; i < 200 && (i < 10 || len(seen) < 2); i++ {
		found, err := tables.Found(t.Context(), page.Filter{Show: page.ShowAll, Outliers: query.Outliers{Limit: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(found.Cards)) != found.Total || !totals[found.Total] {
			t.Fatalf("%d cards of %d outliers; the publications have %v", len(found.Cards), found.Total, totals)
		}
		seen[found.Total] = true
	}
	stop()
	if err := <-exchanged; err != nil || len(seen) < 2 {
		t.Errorf("pages of %v were seen: %v", seen, err)
	}
}
