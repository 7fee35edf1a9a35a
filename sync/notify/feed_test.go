package notify

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// feedOf returns the feed of rows.
func feedOf(rows ...string) ([]byte, error) {
	f := Feed{Name: "Best & worst", SQL: "select 1", Self: "/feed/Best%20&%20worst.atom", Page: "/ask?sql=select+1",
		Published: time.Date(2026, 11, 29, 6, 0, 0, 0, time.UTC)}
	return f.Write(context.Background(), func(context.Context, string) ([]string, error) {
		return append([]string{fmt.Sprint(len(rows))}, rows...), nil
	})
}

// TestFeedIsAtom: what an entry has, in the order of the rows, and that no text of others is markup.
func TestFeedIsAtom(t *testing.T) {
	got, err := feedOf(
		`{"video_id":"dQw4w9WgXcQ","title":"</title><script>alert(1)</script>]]> &amp; \u202Eevil \u0000\u000b\ufffe","channel_title":"<b>Rival</b>",`+
			`"view_count":184300,"average_views_ratio":41.3,"published_at":"2026-11-20 13:30:00+05:30","first_seen_at":"2026-11-21 13:30:00.25+05:30","note":"<i>why</i>"}`,
		`{"video_id":"abcdefghijk","title":"Older","observed_at":"2026-11-19 10:00:00+00","first_seen_at":null}`,
		`{"video_id":"dQw4w9WgXcQ","title":"The same again","first_seen_at":"2026-11-22 00:00:00+00"}`,
		`{"video_id":"no id","title":"no video","first_seen_at":"2026-11-22 00:00:00+00"}`,
		`{"video_id":"ABCDEFGHIJK","title":"no time"}`,
		`{"video_id":"12345678901","link":"javascript:alert(1)","published_at":"2026-11-18 00:00:00-03"}`)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/feed.atom"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	checkAtom(t, got)
}

// checkAtom checks what RFC 4287 demands of a feed.
func checkAtom(t *testing.T, text []byte) (entries int) {
	t.Helper()
	var feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      []string `xml:"id"`
		Title   []string `xml:"title"`
		Updated []string `xml:"updated"`
		Author  []string `xml:"author>name"`
		Entry   []struct {
			ID      []string `xml:"id"`
			Title   []string `xml:"title"`
			Updated []string `xml:"updated"`
			Link    []struct {
				Rel  string `xml:"rel,attr"`
				Href string `xml:"href,attr"`
			} `xml:"link"`
		} `xml:"entry"`
	}
	if err := xml.Unmarshal(text, &feed); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	one := func(what string, id, title, updated []string) {
		if len(id) != 1 || !strings.HasPrefix(id[0], "urn:outlierd:") || len(title) != 1 || title[0] == "" || len(updated) != 1 {
			t.Errorf("%s has the ids %q, titles %q and times %q, want one of each", what, id, title, updated)
			return
		}
		if _, err := time.Parse(time.RFC3339, updated[0]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	one("the feed", feed.ID, feed.Title, feed.Updated)
	if len(feed.Author) != 1 || feed.Author[0] == "" {
		t.Errorf("authors of the feed: %q, want one, since entries may have none", feed.Author)
	}
	ids := map[string]bool{}
	for _, e := range feed.Entry {
		one("an entry", e.ID, e.Title, e.Updated)
		ids[e.ID[0]] = true
		if len(e.Link) != 1 || e.Link[0].Rel != "alternate" || !strings.HasPrefix(e.Link[0].Href, "https://youtu.be/") {
			t.Errorf("an entry has the links %+v, want one to its video", e.Link)
		}
	}
	if len(ids) != len(feed.Entry) {
		t.Errorf("%d ids of %d entries", len(ids), len(feed.Entry))
	}
	return len(feed.Entry)
}

// TestFeedNeedsVideosAndTimes: rows without any are refused with what is missing, and no rows are an empty feed.
func TestFeedNeedsVideosAndTimes(t *testing.T) {
	for _, row := range []string{`{"title":"a"}`, `{"video_id":"dQw4w9WgXcQ"}`, `{"first_seen_at":"2026-11-21 08:00:00+00"}`,
		`{"video_id":"dQw4w9WgXcQ","first_seen_at":"yesterday"}`} {
		if got, err := feedOf(row); !errors.Is(err, ErrNoFeed) {
			t.Errorf("feed of %s: %s, %v, want %v", row, got, err, ErrNoFeed)
		}
	}
	got, err := feedOf()
	if err != nil || !strings.Contains(string(got), "<updated>2026-11-29T06:00:00Z</updated>") || checkAtom(t, got) != 0 {
		t.Errorf("empty feed: %s, %v, want one with the time of the publication", got, err)
	}
}

// TestFeedAsksForItsMost rows, and for no more.
func TestFeedAsksForItsMost(t *testing.T) {
	asked := ""
	f := Feed{SQL: "select video_id from outliers -- all;"}
	_, err := f.Write(t.Context(), func(_ context.Context, sql string) ([]string, error) {
		asked = sql
		return []string{"0"}, nil
	})
	if err != nil || !strings.Contains(asked, "-- all\n") || !strings.Contains(asked, "LIMIT 100)") {
		t.Errorf("asked %s, %v, want 100 rows of the SQL", asked, err)
	}
}
