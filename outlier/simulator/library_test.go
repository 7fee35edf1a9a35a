package simulator

import (
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestLibraryIsAsLargeAndAsMixedAsPromised(t *testing.T) {
	l := openLibrary(1)
	uploads, spoken := 0, map[int]int{}
	for _, c := range l.channels {
		spoken[c.language]++
		for k := range c.lines {
			uploads += c.sample(kind(k), Epoch).size
		}
	}
	if len(l.channels) < 300 || uploads < 10_000 || len(spoken) != 8 {
		t.Errorf("%d channels, %d uploads, %d languages; want 300, 10,000, 8", len(l.channels), uploads, len(spoken))
	}
	var texts strings.Builder
	for _, h := range l.index(Epoch).hits {
		texts.WriteString(h.title + "\n")
	}
	for what, class := range map[string]string{
		"emoji": `[😀-🙏🔥]`, "CJK": `\p{Han}`, "kana": `\p{Katakana}`, "Hangul": `\p{Hangul}`, "right to left": `\p{Arabic}`,
		"quotes": `["«„「]`, "control characters": `\x1b`, "markup": `<script>`,
	} {
		if !regexp.MustCompile(class).MatchString(texts.String()) {
			t.Errorf("no title has %s", what)
		}
	}
}

func TestEqualSeedsAndClocksGiveEqualAnswers(t *testing.T) {
	at := time.Date(2031, time.May, 5, 5, 5, 5, 0, time.UTC)
	a, b, other := newLibrary(7), newLibrary(7), newLibrary(8)
	if diff := cmp.Diff(everything(t, a, at), everything(t, b, at)); diff != "" {
		t.Errorf("two libraries of seed 7 differ:\n%s", diff)
	}
	if cmp.Equal(everything(t, a, at), everything(t, other, at)) {
		t.Error("seeds 7 and 8 make the same library")
	}
}

// everything is one answer of each kind, about the library's own entities.
func everything(t *testing.T, l *library, at time.Time) []string {
	t.Helper()
	x := l.index(at)
	page := x.page(x.find(url.Values{"query": {"sourdough"}}, l.seed), nil, paging{})
	id, channel := page.Hits[0].ID, page.Hits[0].Snippet.ChannelID
	scan := &scan{started: 1 << 40, topics: 3, salt: 7}
	var all []string
	for _, answer := range []any{
		x.page(x.related(url.Values{"videoId": {id}}, l), nil, paging{}),
		channelPage(x.findChannels(url.Values{"query": {"ramen"}}, l.seed), nil, paging{}),
		channelPage(x.relatedChannels(url.Values{"relatedChannelId": {channel}}, l), nil, paging{}),
		l.trendingFormats(at), scan.id(l.seed), scan.course(l.seed), ids(scan.results(x, l.seed).hits),
		page, l.channelAnswer(channel, video, at), l.channelAnswer(channel, short, at),
		l.detailsAnswer(id, at), l.commentsAnswer(id, at), l.transcriptAnswer(id, at),
	} {
		b, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

func TestIDsObeyTheInterfaceAndLeadBack(t *testing.T) {
	l := openLibrary(1)
	seen := map[string]bool{}
	for _, h := range l.index(Epoch).hits {
		id := h.id()
		if !regexp.MustCompile(`^[a-zA-Z0-9-_]{11}$`).MatchString(id) || seen[id] {
			t.Fatalf("video id %q is malformed or given twice", id)
		}
		seen[id] = true
		u, ok := l.find(id, Epoch)
		if !ok || u.address() != h.address() {
			t.Fatalf("id %s of upload %x leads to %x, %v", id, h.address(), u.address(), ok)
		}
	}
	for id := range l.byID {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{24}$`).MatchString(id) {
			t.Errorf("channel id %q is malformed", id)
		}
	}
}

func TestIDsThatWereNeverGivenAreUnknown(t *testing.T) {
	l := openLibrary(1)
	for _, id := range []string{"dQw4w9WgXcQ", "AAAAAAAAAAA", "-----------"} {
		if _, ok := l.find(id, Epoch); ok {
			t.Errorf("%s is known", id)
		}
	}
	c := l.channels[0]
	next := c.upload(video, c.latest(video, Epoch)+1)
	if _, ok := l.find(next.id(), Epoch); ok {
		t.Error("an upload is known before it is out")
	}
	if _, ok := l.find(next.id(), next.published); !ok {
		t.Error("an upload is unknown once it is out")
	}
}

func TestChannelStatisticsFollowFromTheSample(t *testing.T) {
	l := openLibrary(1)
	for _, c := range l.channels[:50] {
		a, ok := l.channelAnswer(c.id, video, Epoch).(channelAnswer)
		if !ok {
			continue // gone
		}
		var views []float64
		for _, v := range *a.Item.Videos {
			views = append(views, float64(v.ViewCount))
		}
		mean, deviation := moments(views)
		for _, v := range *a.Item.Videos {
			near(t, c.id+" "+v.ID+" zScore", v.Statistics.ZScore, (float64(v.ViewCount)-mean)/deviation)
			near(t, c.id+" "+v.ID+" averageViewsRatio", v.Statistics.AverageViewsRatio, float64(v.ViewCount)/mean)
		}
		s := a.Item.Statistics
		near(t, c.id+" average", s.AverageViewsEstimate, mean)
		near(t, c.id+" deviation", s.StandardDeviationViewsEstimate, deviation)
		near(t, c.id+" variation", s.ViewVariationCoefficient, deviation/mean)
		near(t, c.id+" views per subscriber", s.AvgViewsToSubscribersRatio, mean/float64(s.SubscriberCount))
		slices.Sort(views)
		if views[0] > s.MedianViewsEstimate || s.MedianViewsEstimate > views[len(views)-1] || s.VideosSampleCount != len(views) || s.VideosSampleCount > 120 {
			t.Errorf("%s: median %g, sample %d of %d", c.id, s.MedianViewsEstimate, s.VideosSampleCount, len(views))
		}
	}
}

func moments(xs []float64) (mean, deviation float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(xs)))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !cmp.Equal(got, want, cmpopts.EquateApprox(1e-9, 1e-9)) {
		t.Errorf("%s = %g, want %g", what, got, want)
	}
}

func TestHitsAgreeWithTheirChannelAndTheirDetails(t *testing.T) {
	l := openLibrary(1)
	for _, h := range pageOf(l, url.Values{"type": {"video"}, "size": {"40"}}, paging{}).Hits {
		if a, ok := l.channelAnswer(h.Snippet.ChannelID, video, Epoch).(channelAnswer); ok {
			i := slices.IndexFunc(*a.Item.Videos, func(v videoEntry) bool { return v.ID == h.ID })
			if i < 0 {
				t.Fatalf("%s is not in its channel's sample", h.ID)
			}
			v := (*a.Item.Videos)[i]
			got := entryStatistics{v.Statistics.ZScore, h.Statistics.AverageViewsRatio, h.Statistics.IsPositiveOutlier, h.Statistics.IsNegativeOutlier}
			if diff := cmp.Diff(v.Statistics, got); diff != "" || v.Title != h.Snippet.Title || v.ViewCount != h.Statistics.ViewCount {
				t.Errorf("%s differs from its channel's entry:\n%s", h.ID, diff)
			}
		}
		if d, ok := l.detailsAnswer(h.ID, Epoch).(detailsAnswer); ok {
			want := detailStatistics{h.Statistics.CommentCount, h.Statistics.LikeCount, h.Statistics.ViewCount}
			if diff := cmp.Diff(want, d.Items[0].Statistics); diff != "" {
				t.Errorf("%s differs from its details:\n%s", h.ID, diff)
			}
		}
	}
}

func TestViewsNeverFall(t *testing.T) {
	l := openLibrary(1)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(l.channels).Draw(t, "channel")
		u := c.upload(video, rapid.IntRange(0, 5000).Draw(t, "number"))
		early := u.published.Add(time.Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "age")))
		late := early.Add(time.Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "later")))
		if u.views(early) < 0 || u.views(early) > u.views(late) || u.comments(early) > u.comments(late) {
			t.Fatalf("%d views at %s, %d at %s", u.views(early), early, u.views(late), late)
		}
	})
}

func TestCommentsAreTheLastHundredInOrder(t *testing.T) {
	l := openLibrary(1)
	some, none := 0, 0
	for _, h := range l.index(Epoch).hits[:300] {
		a, ok := l.commentsAnswer(h.id(), Epoch).(commentsAnswer)
		if !ok {
			continue
		}
		item := a.Items[0]
		if int64(len(item.Comments)) != min(maxComments, item.Statistics.Count) {
			t.Fatalf("%s: %d comments of %d", h.id(), len(item.Comments), item.Statistics.Count)
		}
		before := Epoch.Format(withMillis)
		for _, c := range item.Comments {
			if c.PublishedAt > before || c.PublishedAt < h.published.Format(withMillis) || c.LikesCount < 0 {
				t.Fatalf("%s: a comment of %s after one of %s, %d likes", h.id(), c.PublishedAt, before, c.LikesCount)
			}
			before = c.PublishedAt
		}
		if len(item.Comments) == 0 {
			none++
		} else {
			some++
		}
	}
	if some == 0 || none == 0 {
		t.Errorf("%d videos with comments, %d without; want both", some, none)
	}
}

func TestTranscriptIsItsEvents(t *testing.T) {
	l := openLibrary(1)
	lacking := map[string]int{}
	for _, h := range l.index(Epoch).hits[:500] {
		a, ok := l.transcriptAnswer(h.id(), Epoch).(transcriptAnswer)
		switch {
		case !ok:
			lacking["404"]++
			continue
		case len(a.Items) == 0:
			lacking["items"]++
			continue
		case len(a.Items[0].Events) == 0:
			lacking["events"]++
		}
		var texts []string
		for i, e := range a.Items[0].Events {
			if e.EndMs != e.StartMs+e.DurationMs || i > 0 && e.StartMs <= a.Items[0].Events[i-1].StartMs {
				t.Fatalf("%s: event %d is out of order: %+v", h.id(), i, e)
			}
			texts = append(texts, e.Text)
		}
		if got := strings.Join(texts, " "); got != a.Items[0].Transcript {
			t.Fatalf("%s: transcript is not its events", h.id())
		}
	}
	if len(lacking) != 3 {
		t.Errorf("transcripts lack in the ways %v, want three", lacking)
	}
}

func TestNewUploadsAppearAndViewsGrow(t *testing.T) {
	l := openLibrary(1)
	later := Epoch.Add(30 * 24 * time.Hour)
	fresh := map[string]bool{}
	for _, h := range l.index(later).hits {
		if h.published.After(Epoch) {
			fresh[h.id()] = true
		}
	}
	if len(fresh) == 0 {
		t.Error("no outlier was published within 30 days")
	}
	h := aHit(t, 1, Epoch)
	if h.upload.views(later) <= h.views {
		t.Errorf("%s has %d views after 30 days, %d before", h.id(), h.upload.views(later), h.views)
	}
}

func TestRelativeTimesReadLikeAPage(t *testing.T) {
	for age, want := range map[time.Duration]string{
		0: "just now", time.Second: "1 second ago", 90 * time.Minute: "1 hour ago",
		15 * 24 * time.Hour: "2 weeks ago", 800 * 24 * time.Hour: "2 years ago",
	} {
		if got := ago(age); got != want {
			t.Errorf("ago(%s) = %q, want %q", age, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	l := openLibrary(1)
	f.Add("dQw4w9WgXcQ")
	f.Add(l.index(Epoch).hits[0].id())
	f.Fuzz(func(t *testing.T, id string) {
		if u, ok := l.find(id, Epoch); ok && (u.id() != id || u.published.After(Epoch)) {
			t.Errorf("%q leads to %q of %s", id, u.id(), u.published)
		}
	})
}
