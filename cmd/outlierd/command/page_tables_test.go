package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/job"
)

// publishing is a person whose searches are published, with the published file open for queries of the test's own.
type publishing struct {
	*person
	file string
	db   *database.DB // nil before the first query
}

// newPublishing runs three searches of so many pages, which enrich the top hits.
func newPublishing(t *testing.T, pages, top int) *publishing {
	server := httptest.NewServer(simulator.New(simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000}))
	t.Cleanup(server.Close)
	p := &person{T: t, dir: t.TempDir(), env: func(name string) (string, bool) {
		value, ok := map[string]string{"OUTLIERD_URL": server.URL, "OUTLIERD_KEY": "demo"}[name]
		return value, ok
	}}
	p.write(programtest.Searches(pages, top) + "sinks: [{duckdb: outliers.duckdb}]\n")
	p.must("run", "--all", "--yes")
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

// TestFoundMatchesQueries compares the outliers for each filter and sort order with a query of its own.
func TestFoundMatchesQueries(t *testing.T) {
	t.Parallel()
	w := newPublishing(t, 1, 1)
	var channel, handle, language string
	w.query(`select channel_id, ltrim(channel_handle, '@'), "language" from outliers
		where channel_handle is not null order by video_id limit 1`, func(row []any) {
		channel, handle, language = row[0].(string), row[1].(string), row[2].(string)
	})
	const history = "video_id in (select video_id from outliers_history where "
	find := publishedTables{path: w.file, zone: time.UTC}.found
	for name, c := range map[string]struct {
		filter page.Filter
		where  string
	}{
		"all":      {page.Filter{}, "true"},
		"query":    {page.Filter{Query: "moka pot"}, history + "list_contains(queries, 'moka pot'))"},
		"part":     {page.Filter{Query: "OKA p"}, history + "list_contains(queries, 'moka pot'))"},
		"job":      {page.Filter{Job: "search-2"}, history + "_job = 'search-2')"},
		"channel":  {page.Filter{Channel: channel}, "channel_id = '" + channel + "'"},
		"handle":   {page.Filter{Channel: "@" + handle}, "ltrim(channel_handle, '@') = '" + handle + "'"},
		"type":     {page.Filter{Kind: "short"}, "kind = 'short'"},
		"language": {page.Filter{Language: language}, "language = '" + language + "'"},
		"ratio":    {page.Filter{Ratio: 3.5}, "average_views_ratio >= 3.5"},
		"days":     {page.Filter{Days: 60}, "published_at >= now() - interval 60 days"},
		"several": {
			page.Filter{Kind: "video", Ratio: 2, Query: "minecraft"},
			"kind = 'video' and average_views_ratio >= 2 and " + history + "list_contains(queries, 'minecraft'))",
		},
		"quotation": {page.Filter{Query: "' or true --"}, "false"},
	} {
		for order, column := range foundOrders {
			if c.filter.Order = order; name != "all" && order != "found" {
				continue
			}
			var want, got []string
			w.query(fmt.Sprintf("select coalesce(title, video_id) from outliers where %s order by %s desc nulls last, video_id",
				c.where, column), func(row []any) {
				want = append(want, row[0].(string))
			})
			if len(want) == 0 && name != "quotation" {
				t.Fatalf("%s: the query finds nothing, the test needs outliers", name)
			}
			for c.filter.Page = 1; ; c.filter.Page++ {
				found, err := find(context.Background(), c.filter)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if found.Total != int64(len(want)) {
					t.Fatalf("%s, page %d: a total of %d, want %d", name, c.filter.Page, found.Total, len(want))
				}
				for _, f := range found.Outliers {
					got = append(got, f.Title)
				}
				if len(found.Outliers) == 0 {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s by %s: got %q, want %q", name, order, got, want)
			}
		}
	}
}

// TestVideosAndChannelsMatchQueries compares each part of the pages of some videos, and of their channels, with a
// query of its own.
func TestVideosAndChannelsMatchQueries(t *testing.T) {
	t.Parallel()
	w := newPublishing(t, 1, 3)
	w.must("run", "search-0", "--again", "--yes")
	tables := publishedTables{path: w.file, zone: time.UTC}
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
		v, err := tables.video(t.Context(), page.VideoFilter{ID: id, Page: 1})
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
			lists["searches"] += fmt.Sprintln(b.Run, b.Search, *b.Page, *b.Rank)
		}
		for _, c := range v.Comments {
			lists["comments"] += fmt.Sprintln(c.Author, c.Text)
		}
		for _, l := range v.Lines {
			lists["lines"] += fmt.Sprintln(l.At, l.Link, l.Text)
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
		if v.Title == "" || v.Link != "https://youtu.be/"+id || v.ChannelID == "" || v.Views == nil || v.Last == "" {
			t.Errorf("video %s: fields are missing: %+v", id, v)
		}
		c, err := tables.channel(t.Context(), page.ChannelFilter{ID: v.ChannelID, Page: 1})
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

	v, err := tables.video(t.Context(), page.VideoFilter{ID: videos[0], Page: 1})
	if err != nil || len(v.Lines) == 0 {
		t.Fatal(v, err)
	}
	word := strings.ToUpper(v.Lines[0].Text)
	some, err := tables.video(t.Context(), page.VideoFilter{ID: videos[0], Words: word, Page: 1})
	if err != nil || len(some.Lines) == 0 || some.Lines[0] != v.Lines[0] {
		t.Errorf("lines with %q: %+v %v, want %+v first", word, some.Lines, err, v.Lines[0])
	}
	for name, ask := range map[string]func() error{
		"video": func() error {
			_, err := tables.video(t.Context(), page.VideoFilter{ID: "' or true --", Page: 1})
			return err
		},
		"channel": func() error {
			_, err := tables.channel(t.Context(), page.ChannelFilter{ID: "' or true --", Page: 1})
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
	w := newPublishing(t, 1, 1)
	config := &job.Config{Data: t.TempDir()}
	tables := publishedTables{path: w.file, zone: time.FixedZone("", 2*60*60), temporary: func() (*temporary, error) {
		return newTemporary(config, downloadFolders)
	}}
	for _, q := range questions(&job.Config{}) {
		got, err := tables.first(t.Context(), q.SQL)
		if err != nil || len(got.Columns) == 0 {
			t.Errorf("%s: %v", q.Name, err)
		}
	}
	var all []string
	for _, table := range catalog() {
		columns := strings.Join(table.Columns, `", "`)
		all = append(all, fmt.Sprintf(`(select count(*) from (select "%s" from %s))`, columns, table.Name))
	}
	if _, err := tables.first(t.Context(), "select "+strings.Join(all, ", ")); err != nil {
		t.Errorf("the tables of the catalog: %v", err)
	}
	got, err := tables.first(t.Context(),
		"select timestamptz '2026-11-23 23:30:00+00' as at, 1.5::decimal(9, 2) as n, 'x' as s")
	if err != nil || *got.Rows[0][0] != "2026-11-24 01:30:00" {
		t.Fatalf("got %+v, %v, want the time in the zone: 2026-11-24 01:30:00", got, err)
	}
	want := []page.Column{{Name: "at", Time: true}, {Name: "n", Number: true}, {Name: "s"}}
	if diff := cmp.Diff(want, got.Columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if _, err := tables.first(t.Context(), "select nosuch"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("a column that does not exist: got %v, want an error with its name", err)
	}

	const formulas = "select video_id, '=1+1' as formula from outliers order by video_id"
	for _, format := range []string{"csv", "parquet", "xlsx"} {
		file, err := tables.whole(t.Context(), formulas, format)
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
	for sql, says := range map[string]string{
		"select nosuch": "nosuch", "select * from read_text('/etc/passwd')": "only the published tables",
	} {
		_, err := tables.whole(t.Context(), sql, "csv")
		if _, refused := errors.AsType[*page.RefusedError](err); !refused || !strings.Contains(err.Error(), says) {
			t.Errorf("download of %s: got %v, want a refusal with %q", sql, err, says)
		}
	}
	if left, err := os.ReadDir(temporaryFolder(config)); err != nil || len(left) > 0 {
		t.Errorf("left on the disk of the data: %v, %v", left, err)
	}
	for _, tables := range []publishedTables{{}, {path: w.file + ".away"}} {
		_, asked := tables.first(t.Context(), "select 1")
		_, got := tables.whole(t.Context(), "select 1", "csv")
		if !errors.Is(asked, page.ErrNothingPublished) || !errors.Is(got, page.ErrNothingPublished) {
			t.Errorf("without a file: got %v and %v, want %v", asked, got, page.ErrNothingPublished)
		}
	}
}
