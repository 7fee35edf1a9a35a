package simulator

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier/simulator/library"
)

func TestEqualSeedsAndClocksGiveEqualAnswers(t *testing.T) {
	testenv.RacesLittle(t)
	at := time.Date(2031, time.May, 5, 5, 5, 5, 0, time.UTC)
	a, b, other := library.New(7), library.New(7), library.New(8)
	if diff := cmp.Diff(everything(t, a, at), everything(t, b, at)); diff != "" {
		t.Errorf("answers of two libraries of seed 7 differ:\n%s", diff)
	}
	if cmp.Equal(everything(t, a, at), everything(t, other, at)) {
		t.Error("libraries of seeds 7 and 8 give the same answers")
	}
}

// everything returns an answer of each kind, about entities of the library.
func everything(t *testing.T, l *library.Library, at time.Time) []string {
	t.Helper()
	x := l.Index(at)
	page := hitPage(x, x.Find(url.Values{"query": {"sourdough"}}, l.Seed), nil, paging{})
	id, channel := page.Hits[0].ID, page.Hits[0].Snippet.ChannelID
	scan := &scan{started: 1 << 40, topics: 3, salt: 7}
	var all []string
	for _, answer := range []any{
		hitPage(x, x.Related(url.Values{"videoId": {id}}, l), nil, paging{}),
		channelPage(x.FindChannels(url.Values{"query": {"ramen"}}, l.Seed), nil, paging{}),
		channelPage(x.RelatedChannels(url.Values{"relatedChannelId": {channel}}, l), nil, paging{}),
		l.TrendingFormats(at), scan.id(l.Seed), scan.drawPhases(l.Seed), ids(scan.nearestResults(x, l.Seed).Hits()),
		page, l.ChannelAnswer(channel, library.Video, at), l.ChannelAnswer(channel, library.Short, at),
		l.DetailsAnswer(id, at), l.CommentsAnswer(id, at), l.TranscriptAnswer(id, at),
	} {
		b, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

func TestHitsAgreeWithTheirChannelAndTheirDetails(t *testing.T) {
	l := library.Open(1)
	for _, h := range pageOf(l, url.Values{"type": {"video"}, "size": {"40"}}, paging{}).Hits {
		if a, ok := l.ChannelAnswer(h.Snippet.ChannelID, library.Video, Epoch).(library.ChannelAnswer); ok {
			i := slices.IndexFunc(*a.Item.Videos, func(v library.VideoEntry) bool { return v.ID == h.ID })
			if i < 0 {
				t.Fatalf("%s is not in its channel's sample", h.ID)
			}
			v := (*a.Item.Videos)[i]
			got := library.EntryStatistics{
				ZScore: v.Statistics.ZScore, AverageViewsRatio: h.Statistics.AverageViewsRatio,
				IsPositiveOutlier: h.Statistics.IsPositiveOutlier, IsNegativeOutlier: h.Statistics.IsNegativeOutlier,
			}
			if diff := cmp.Diff(v.Statistics, got); diff != "" || v.Title != h.Snippet.Title || v.ViewCount != h.Statistics.ViewCount {
				t.Errorf("%s differs from the entry of its channel: title %q, want %q; %d views, want %d; statistics (-want +got):\n%s",
					h.ID, h.Snippet.Title, v.Title, h.Statistics.ViewCount, v.ViewCount, diff)
			}
		}
		if d, ok := l.DetailsAnswer(h.ID, Epoch).(library.DetailsAnswer); ok {
			want := library.DetailStatistics{
				CommentCount: h.Statistics.CommentCount, LikeCount: h.Statistics.LikeCount, ViewCount: h.Statistics.ViewCount,
			}
			if diff := cmp.Diff(want, d.Items[0].Statistics); diff != "" {
				t.Errorf("statistics in the details of %s (-want +got):\n%s", h.ID, diff)
			}
		}
	}
}

func TestNewUploadsAppearAndViewsGrow(t *testing.T) {
	l := library.Open(1)
	later := Epoch.Add(30 * 24 * time.Hour)
	fresh := map[string]bool{}
	for _, h := range l.Index(later).Hits() {
		if h.Published.After(Epoch) {
			fresh[h.ID()] = true
		}
	}
	if len(fresh) == 0 {
		t.Error("no outlier was published within 30 days")
	}
	h := aHit(t, 1, Epoch)
	if h.Upload.Views(later) <= h.Views {
		t.Errorf("%s has %d views after 30 days, want more than %d", h.ID(), h.Upload.Views(later), h.Views)
	}
}
