package page

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"outlierd/sync/marks"
)

func TestVideoPage(t *testing.T) {
	n, ratio, at := int64(388_712), 41.2, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	average := int64(9400)
	s := siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		if want := (VideoFilter{ID: "v0000000001", Words: "grind & brew", All: true, Page: 2}); f != want {
			t.Errorf("asked for %+v, want %+v", f, want)
		}
		v := &Video{
			Card: Card{ID: f.ID, Title: "Moka pot & fire", Link: "https://youtu.be/v0000000001", Channel: "Coffee", ChannelID: "UC1", Kind: "video",
				Language: "en", Seconds: new(int64(522)), Views: &n, Ratio: &ratio, Score: &ratio, Published: at.AddDate(0, 0, -11), Found: at,
				Topics: []string{"moka pot"}, Mark: marks.Mark{Tags: []string{"hook", "blind test"}, Note: "Authority <against> experts"}},
			Likes: &n, Remarks: &n, Average: &average, Description: "Two\nlines",
			Curve:     []Point{{at, 100}, {at.AddDate(0, 0, 1), 250}, {at.AddDate(0, 0, 3), 1400}},
			Sightings: []Sighting{{At: at, Job: "coffee", Run: "01a3", Topic: "moka pot", Page: new(int64(1)), Rank: new(int64(7))}},
			Changes:   []Change{{At: at.AddDate(0, 0, 2), Before: "Moka pot", After: "Moka pot & fire", Pictured: true}},
			Comments:  []Comment{{Author: "@ann", Text: "<b>nice</b>", Likes: &n, Owner: true}},
			Lines:     []Line{{Start: 2_000_000, Text: "now grind & brew"}},
			LineCount: 2*LinesPerPage + 1,
			Alike:     cardsOf("v0000000002"),
		}
		for i := range 4 {
			u := Card{ID: fmt.Sprint("u", i), Title: "usual", Views: new(int64(100 * (i + 1)))}
			if i == 1 {
				u = Card{ID: f.ID, Title: "this", Views: &n, Ratio: &ratio}
			}
			v.Uploads = append(v.Uploads, u)
		}
		return v, nil
	}, Thumbnails: http.NotFound})
	shows(t, answer(s, "/videos/v0000000001?words=+grind+%26+brew&page=2"), "Moka pot &amp; fire", `<b class="n4" title="41.2">41×</b>`,
		"The average video there has 9.4K views.", "first found this one 11 days after", "388\u202f712", "8:42", "English", `href="/found?q=%23hook"`,
		"Authority &lt;against&gt; experts", "+150 a day before", "+575 a day after", `class="up"`, "new title and thumbnail, 22 Nov", "/thumbnails/v0000000001?s=320&amp;at=1795348799", "/thumbnails/v0000000001?s=320&amp;at=1795348801", `class="f4"`, `class="usual"`,
		"average 9.4K", "&lt;b&gt;nice&lt;/b&gt;", "(the channel)", "/niches/moka%20pot", "/runs/01a3", "title of v0000000002", `<a href="https://youtu.be/v0000000001?t=2000" rel="noopener noreferrer">33:20</a>`,
		"/videos/v0000000001?page=3&amp;words=grind+%26+brew#transcript", "<summary>Numbers</summary>", "!name=\"star\"", "!/do/")
}

func TestVideoPageWithoutDetails(t *testing.T) {
	shows(t, answer(siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		return &Video{Card: Card{ID: f.ID, Title: f.ID}}, nil
	}}), "/videos/v0000000001"), "v0000000001", "!class=\"score\"", "!class=\"plot", "!id=\"transcript\"", "!0001-01-01")
}

func TestChannelPage(t *testing.T) {
	n, ratio, at := int64(50_000), 12.34, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	shows(t, answer(siteOf(t, Sources{Channel: func(_ context.Context, f ChannelFilter) (*Channel, error) {
		return &Channel{
			ID: f.ID, Title: "Coffee & tea", Handle: "coffee", Description: "about\ncoffee", Last: at, OneHit: true,
			Subscribers: &n, Videos: &n, Median: &n, Outliers: &n, Found: cardsOf("v0000000009"),
			Curve: []Point{{at, 49_000}, {at.AddDate(0, 0, 1), n}}, UploadCount: 3 * PerPage,
			Uploads: []Card{{ID: "v0000000001", Title: "Moka pot", Kind: "video", Published: at, Views: &n, Ratio: &ratio, Score: &ratio}, {ID: "v/2"}},
		}, nil
	}}), "/channels/UC1?page=2"), "Coffee &amp; tea", "@coffee", "one-hit", "50\u202f000", "title of v0000000009", "/videos/v%2F2", ">12×<",
		"/channels/UC1?page=3", `href="/channels/UC1" rel="prev"`, "Subscribers from 49K")
}

func TestLinesNeedTwoDays(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		points []Point
		want   string
	}{
		"no points": {nil, ""},
		"one point": {[]Point{{at, 5}}, ""},
		"one day":   {[]Point{{at, 1}, {at.Add(time.Hour), 2}}, ""},
		"rising":    {[]Point{{at, 10}, {at.AddDate(0, 0, 1), 20}, {at.AddDate(0, 0, 4), 40}}, "0.0,75.00 250.0,50.00 1000.0,0.00"},
		"large":     {[]Point{{at, 0}, {at.AddDate(200, 0, 0), 1 << 62}}, "0.0,100.00 1000.0,7.77"},
	} {
		got := ""
		if chart := plotLine("", c.points, func(Point) string { return "" }); chart != nil {
			got = chart.Lines[0].Points
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestVideoAddressIsOneSegment(t *testing.T) {
	s := siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		if f.ID != "a/../b?c#d" {
			t.Errorf("asked for %q", f.ID)
		}
		return &Video{Card: Card{ID: f.ID, Title: f.ID}, LineCount: 2 * LinesPerPage}, nil
	}})
	if w := answer(s, "/videos/a%2F..%2Fb%3Fc%23d"); w.Code != http.StatusOK {
		t.Errorf("HTTP %d %s, want %d", w.Code, w.Body, http.StatusOK)
	}
}
