package page

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVideoPage(t *testing.T) {
	n, ratio, at := int64(1234567), 12.34, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	golden(t, answer(siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		if want := (VideoFilter{ID: "v0000000001", Words: "grind & brew", Page: 2}); f != want {
			t.Errorf("asked for %+v, want %+v", f, want)
		}
		return &Video{
			ID: f.ID, Title: "Moka pot & fire", Link: "https://youtu.be/v0000000001",
			Channel: "Coffee", ChannelID: "UC1", Kind: "video", Language: "en",
			Seconds: &n, Views: &n, Likes: &n, Remarks: &n, Ratio: &ratio, Score: &ratio,
			Published: "2026-11-01 08:00", First: "2026-11-20 12:00", Last: "2026-11-23 12:00",
			Description: "Two\nlines",
			Curve:       []Point{{at, 100}, {at.AddDate(0, 0, 1), 250}, {at.AddDate(0, 0, 3), 400}},
			Sightings: []Sighting{{
				At: "2026-11-20 12:00", Job: "coffee", Run: "01a3", Search: "moka pot", Page: new(int64(1)), Rank: new(int64(7)),
			}},
			Changes: []Change{{At: "2026-11-22 12:00", Before: "Moka pot", After: "Moka pot & fire"}},
			Comments: []Comment{
				{Author: "@ann", Text: "<b>nice</b>", At: "2026-11-21 12:00", Likes: &n, Replies: &n, Owner: true},
				{Author: "@bob", Text: "no"},
			},
			Lines:     []Line{{At: "33:20", Link: "https://youtu.be/v0000000001?t=2000", Text: "now grind & brew"}},
			LineCount: LinesPerPage + 1,
		}, nil
	}}), "/videos/v0000000001?words=+grind+%26+brew&page=2"), "video.html")
}

func TestVideoPageWithoutDetails(t *testing.T) {
	golden(t, answer(siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		return &Video{ID: f.ID, Title: f.ID}, nil
	}}), "/videos/v0000000001"), "video_little.html")
}

func TestChannelPage(t *testing.T) {
	n, ratio, at := int64(50_000), 12.34, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	golden(t, answer(siteOf(t, Sources{Channel: func(_ context.Context, f ChannelFilter) (*Channel, error) {
		return &Channel{
			ID: f.ID, Title: "Coffee & tea", Handle: "coffee", Description: "about\ncoffee", Last: "2026-11-23 12:00",
			Subscribers: &n, Videos: &n, Median: &n, Outliers: &n,
			Curve: []Point{{at, 49_000}, {at.AddDate(0, 0, 1), n}}, UploadCount: 3 * PerPage,
			Uploads: []Upload{
				{ID: "v0000000001", Title: "Moka pot", Kind: "video", Published: "2026-11-01 08:00",
					Views: &n, Ratio: &ratio, Score: &ratio},
				{ID: "v/2"},
			},
		}, nil
	}}), "/channels/UC1?page=2"), "channel.html")
}

func TestCharts(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		points []Point
		want   string
	}{
		"no points":   {nil, ""},
		"one point":   {[]Point{{at, 5}}, ""},
		"rising":      {[]Point{{at, 10}, {at.Add(time.Hour), 20}, {at.Add(4 * time.Hour), 30}}, "0,100 250,50 1000,0"},
		"constant":    {[]Point{{at, 7}, {at.Add(time.Hour), 7}}, "0,50 1000,50"},
		"same minute": {[]Point{{at, 1}, {at.Add(time.Second), 2}}, ""},
		"large":       {[]Point{{at, 0}, {at.AddDate(200, 0, 0), 1 << 62}}, "0,100 1000,0"},
		"negative":    {[]Point{{at, -10}, {at.Add(time.Hour), 10}}, "0,100 1000,0"},
	} {
		got := ""
		if chart := newChart(c.points); chart != nil {
			got = chart.Line
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	got := []string{sparkline(nil), sparkline([]int64{1}), sparkline([]int64{1, 2, 3}), sparkline([]int64{4, 4})}
	if diff := cmp.Diff([]string{"", "", "0,20 50,10 100,0", "0,10 100,10"}, got); diff != "" {
		t.Errorf("sparklines (-want +got):\n%s", diff)
	}
}

func TestVideoAddressIsOneSegment(t *testing.T) {
	s := siteOf(t, Sources{Video: func(_ context.Context, f VideoFilter) (*Video, error) {
		if f.ID != "a/../b?c#d" {
			t.Errorf("asked for %q", f.ID)
		}
		return &Video{ID: f.ID, Title: f.ID, LineCount: 2 * LinesPerPage}, nil
	}})
	if w := answer(s, "/videos/a%2F..%2Fb%3Fc%23d"); w.Code != http.StatusOK {
		t.Errorf("HTTP %d %s, want %d", w.Code, w.Body, http.StatusOK)
	}
}
