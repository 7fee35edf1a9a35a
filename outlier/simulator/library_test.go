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

// Libraries of equal seeds give equal answers at equal times.
func TestEqualSeedsGiveEqualAnswers(t *testing.T) {
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
	hits := x.Find(url.Values{"query": {"sourdough"}}, l)
	id, channel := hits[0].ID(), hits[0].Channel.ID
	scan := &scan{started: 1 << 40, topics: 3, salt: 7}
	var all []string
	for _, answer := range []any{
		ids(x.Find(url.Values{"videoId": {id}}, l)), hits[0].Answer(at),
		x.FindChannels(url.Values{"query": {"ramen"}}, l)[0].Answer(),
		x.FindChannels(url.Values{"relatedChannelId": {channel}}, l)[0].Answer(),
		l.TrendingFormats(at), scan.id(l.Seed), scan.drawPhases(l.Seed), ids(scan.nearestResults(x, l.Seed).Hits()),
		ids(hits), l.ChannelAnswer(channel, library.Video, at), l.ChannelAnswer(channel, library.Short, at),
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

func TestHitsMatchChannelAndDetails(t *testing.T) {
	l := library.Open(1)
	for _, h := range pageOf(t, url.Values{"type": {"video"}, "size": {"40"}}, paging{}).Hits {
		if a, ok := read[channelAnswer](t, l.ChannelAnswer(h.Snippet.ChannelID, library.Video, Epoch)); ok {
			i := slices.IndexFunc(a.Item.Videos, func(v upload) bool { return v.ID == h.ID })
			if i < 0 {
				t.Fatalf("%s is not in its channel's sample", h.ID)
			}
			want, got := a.Item.Videos[i], upload{h.ID, h.Snippet.Title, *h.Statistics.ViewCount, h.Statistics}
			got.Statistics.ZScore = want.Statistics.ZScore // may be missing
			got.Statistics.ViewCount, got.Statistics.CommentCount, got.Statistics.LikeCount = nil, nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s differs from the entry of its channel (-want +got):\n%s", h.ID, diff)
			}
		}
		type details struct {
			Items []struct{ Statistics statistics }
		}
		if d, ok := read[details](t, l.DetailsAnswer(h.ID, Epoch)); ok {
			got := d.Items[0].Statistics
			want := statistics{ViewCount: h.Statistics.ViewCount}
			want.CommentCount, want.LikeCount = h.Statistics.CommentCount, h.Statistics.LikeCount
			if diff := cmp.Diff(want, got); diff != "" {
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
