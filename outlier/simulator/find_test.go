package simulator

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func channelIDs(found []*sample) []string {
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.channel.id
	}
	return ids
}

// readChannel is what a reader learns of a channel from its page: by the names of
// the filters, the values that follow from its sample.
func readChannel(s *sample) map[string]float64 {
	t := s.channel.sample(s.kind, s.at).statistics()
	return map[string]float64{
		"averageViews": t.AverageViewsEstimate, "medianViews": t.MedianViewsEstimate, "videosCount": float64(t.VideosCount),
		"subscribers": float64(t.SubscriberCount), "avgViewsToSubscribersRatio": t.AvgViewsToSubscribersRatio,
		"viewVariationCoefficient": t.ViewVariationCoefficient,
	}
}

func TestChannelsAreFilteredByTheStatisticsOfTheSampleAskedFor(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	read := map[*sample]map[string]float64{}
	for _, s := range slices.Concat(x.samples[video], x.samples[short]) {
		read[s] = readChannel(s)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := kind(rapid.IntRange(0, 1).Draw(t, "kind"))
		of := read[rapid.SampledFrom(x.samples[k]).Draw(t, "channel")]
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "name")
		upper := rapid.Bool().Draw(t, "upper")
		p := url.Values{"filterBy": {k.String()}}
		p.Set(name+map[bool]string{false: "From", true: "To"}[upper], strconv.FormatFloat(of[name], 'f', -1, 64))
		want := map[string]bool{}
		for _, s := range x.samples[k] {
			hidden := s.channel.gaps().subscribersHidden && (name == "subscribers" || name == "avgViewsToSubscribersRatio")
			unmeasured := s.size == 0 && name != "subscribers" && name != "videosCount"
			if v := read[s][name]; !hidden && !unmeasured && (upper && v <= of[name] || !upper && v >= of[name]) {
				want[s.channel.id] = true
			}
		}
		got := map[string]bool{}
		for _, id := range channelIDs(x.findChannels(p, 1)) {
			got[id] = true
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%v keeps other channels than it should:\n%s", p, diff)
		}
	})
}

func TestChannelsAreFilteredByWhatTheyAre(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	for _, tt := range []struct {
		p    url.Values
		want func(h channelShape, s *sample) bool
	}{
		{url.Values{"language": {"ja", "ar"}}, func(h channelShape, _ *sample) bool {
			return h.Language.Code != nil && (*h.Language.Code == "ja" || *h.Language.Code == "ar")
		}},
		{url.Values{"excludeNiche": {"gaming", "coffee"}}, func(_ channelShape, s *sample) bool {
			return s.channel.niche.name != "gaming" && s.channel.niche.name != "coffee"
		}},
		{url.Values{"contentKind": {"short"}}, func(h channelShape, _ *sample) bool { return slices.Contains(h.Snippet.ContentKind, "short") }},
		{url.Values{"contentKind": {"short-form"}}, func(h channelShape, _ *sample) bool { return slices.Contains(h.Snippet.ContentKind, "short") }},
		{url.Values{"contentKind": {"long-form"}}, func(h channelShape, _ *sample) bool { return slices.Contains(h.Snippet.ContentKind, "video") }},
		{url.Values{"monetizationAdsense": {"false"}}, func(h channelShape, _ *sample) bool {
			return h.Monetization.Adsense != nil && !*h.Monetization.Adsense
		}},
		{url.Values{"classificationQuality": {"positive"}}, func(h channelShape, _ *sample) bool {
			return h.Classification != nil && h.Classification.Quality != nil && *h.Classification.Quality == "positive"
		}},
		{url.Values{"classificationIsFaceless": {"true"}}, func(h channelShape, _ *sample) bool {
			return h.Classification != nil && h.Classification.IsFaceless != nil && *h.Classification.IsFaceless
		}},
		{url.Values{"publishedAtFrom": {Epoch.Add(-48 * time.Hour).Format(noMillis)}}, func(_ channelShape, s *sample) bool {
			return s.channel.published(video, s.channel.latest(video, Epoch)).After(Epoch.Add(-48*time.Hour - 1))
		}},
		{url.Values{"avgDurationTo": {"600"}}, func(_ channelShape, s *sample) bool {
			d := s.channel.sample(video, Epoch).statistics().AverageVideoDurationEstimate
			return d != nil && *d <= 600
		}},
		{url.Values{"rpmEstimationFrom": {"5"}}, func(_ channelShape, s *sample) bool { return s.income().RPMFrom >= 5 }},
		{url.Values{"revenueMonthlyEstimationTo": {"500"}}, func(_ channelShape, s *sample) bool { return s.income().RevenueMonthlyFrom <= 500 }},
	} {
		var want []string
		for _, s := range x.samples[video] {
			if tt.want(s.shape(), s) {
				want = append(want, s.channel.id)
			}
		}
		got := channelIDs(x.findChannels(tt.p, 1))
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || len(want) == len(x.samples[video]) && tt.p.Get("contentKind") != "long-form" || !slices.Equal(want, got) {
			t.Errorf("%v finds %d channels, want %d of %d", tt.p, len(got), len(want), len(x.samples[video]))
		}
	}
	if got := x.findChannels(url.Values{"filterBy": {"short"}, "avgDurationFrom": {"0"}}, 1); len(got) != 0 {
		t.Errorf("%d channels have shorts of a known length", len(got))
	}
}

func TestChannelsAreSortedBothWaysWithNullsLast(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	for name, value := range channelTerms.orders {
		for _, order := range []string{"asc", "desc"} {
			found := x.findChannels(url.Values{"sortBy": {name}, "sortOrder": {order}, "filterBy": {"short"}}, 1)
			if !slices.IsSortedFunc(found, by(value, order == "asc")) || len(found) != channelCount {
				t.Errorf("%s %s: not sorted", name, order)
			}
		}
	}
	newest := x.findChannels(url.Values{"sortBy": {"recency"}}, 1)
	if !slices.IsSortedFunc(newest, func(a, b *sample) int { return cmp.Compare(seconds(b.newest), seconds(a.newest)) }) {
		t.Error("recency does not put the newest upload first")
	}
}

func TestChannelQueriesFindTheirTopicFirst(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	found := x.findChannels(url.Values{"query": {"moka pot"}}, 1)
	for i, s := range found {
		if names := s.channel.niche; names.name != "coffee" || i < 5 && !slices.ContainsFunc(s.channel.topics, func(t int) bool { return names.topics[t].names[0] == "moka pot" }) {
			t.Errorf("at place %d stands %s", i, s.channel.title)
		}
	}
	union := x.findChannels(url.Values{"query": {"moka pot", "chess"}}, 1)
	chess := x.findChannels(url.Values{"query": {"chess"}}, 1)
	if len(found) == 0 || len(union) != len(found)+len(chess) {
		t.Errorf("both queries find %d channels, want %d and %d", len(union), len(found), len(chess))
	}
	if got := x.findChannels(url.Values{"query": {"zzz unheard of"}}, 1); len(got) < 10 {
		t.Errorf("a query that means nothing finds %d", len(got))
	}
	shuffled := channelIDs(x.findChannels(url.Values{"query": {"moka pot"}, "seed": {"1"}}, 1))
	plain := channelIDs(found)
	if slices.Equal(plain, shuffled) {
		t.Error("a seed does not shuffle")
	}
	slices.Sort(plain)
	slices.Sort(shuffled)
	if !slices.Equal(plain, shuffled) {
		t.Error("a seed changes what is found")
	}
}

func TestRelatedChannelsResembleTheirSeedsWhichAreNotFound(t *testing.T) {
	l := openLibrary(1)
	x := l.index(Epoch)
	a, b := l.channels[0], l.channels[1]
	if a.field == b.field {
		t.Fatal("two channels of one niche")
	}
	fields := map[int]bool{}
	for _, s := range x.relatedChannels(url.Values{"relatedChannelId": {a.id, b.id, "UCaaaaaaaaaaaaaaaaaaaaaa"}}, l) {
		fields[s.channel.field] = true
		if s.channel == a || s.channel == b {
			t.Errorf("finds its seed %s", s.channel.id)
		}
	}
	if !gocmp.Equal(fields, map[int]bool{a.field: true, b.field: true}) {
		t.Errorf("finds niches %v", fields)
	}
	first := x.relatedChannels(url.Values{"relatedChannelId": {a.id}}, l)[0]
	if !slices.Contains(first.channel.topics, a.topics[0]) {
		t.Errorf("%s comes first after %s", first.channel.title, a.title)
	}
	if got := x.relatedChannels(url.Values{"relatedChannelId": {"UCaaaaaaaaaaaaaaaaaaaaaa"}}, l); len(got) != 0 {
		t.Errorf("a channel that nobody knows resembles %d", len(got))
	}
}

func TestPagesOfChannelsHoldAllOfThem(t *testing.T) {
	for _, items := range []bool{false, true} {
		s := unhurried(Options{Seed: 1, PagingItems: items})
		seen := map[string]bool{}
		for from := 0; ; from++ {
			at := from
			if items {
				at *= 40
			}
			a, _ := ask[listing[channelShape]](t, s.Transport(), "/search/channels?size=40&from="+strconv.Itoa(at))
			if *a.Pagination.Total != channelCount {
				t.Fatalf("pagination %+v", a.Pagination)
			}
			if len(a.Hits) == 0 {
				break
			}
			for _, h := range a.Hits {
				seen[h.ID] = true
			}
		}
		if len(seen) != channelCount || s.Books().Total.Charged != 5*(channelCount/40+1) {
			t.Errorf("items %v: %d channels for %d credits", items, len(seen), s.Books().Total.Charged)
		}
	}
}

func TestChannelsMayLackWhatTheServiceMayLack(t *testing.T) {
	lacks := map[string]bool{}
	x := openLibrary(1).index(Epoch)
	for _, s := range slices.Concat(x.samples[video], x.samples[short]) {
		h := s.shape()
		for what, absent := range map[string]bool{
			"handle": h.Snippet.Handle == nil, "subscribers": h.Statistics.Subscribers == nil, "averageViews": h.Statistics.AverageViews == nil,
			"ratio": h.Statistics.AvgViewsToSubscribersRatio == nil, "language": h.Language.Code == nil, "adsense": h.Monetization.Adsense == nil,
			"classification": h.Classification == nil, "quality": h.Classification != nil && h.Classification.Quality == nil,
			"isFaceless": h.Classification != nil && h.Classification.IsFaceless == nil,
		} {
			if absent {
				lacks[what] = true
			}
		}
	}
	if len(lacks) != 9 {
		t.Errorf("lacking are %v, want nine kinds", lacks)
	}
}

func TestFormatsTrendForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 1000, CachePeriod: 1})
		trending := func() []format {
			a, _ := ask[[]format](t, s.Transport(), "/search/trending-formats?language=en&from=1")
			return a
		}
		monday := trending()
		time.Sleep(23 * time.Hour)
		evening := trending()
		time.Sleep(time.Hour)
		tuesday := trending()
		if len(monday) != maxFormats || !gocmp.Equal(monday, evening) || gocmp.Equal(monday, tuesday) {
			t.Errorf("%d formats, the same at night: %v, the next day: %v", len(monday), gocmp.Equal(monday, evening), gocmp.Equal(monday, tuesday))
		}
		if b := s.Books(); b.Total.Charged != 3 || len(b.UnknownParams) != 0 {
			t.Errorf("charged %d, unknown parameters %v", b.Total.Charged, b.UnknownParams)
		}
	})
}

func TestFormatsAreThoseOfTheWeeksOutliers(t *testing.T) {
	l := openLibrary(1)
	formats := l.trendingFormats(Epoch)
	if !slices.IsSortedFunc(formats, func(f, g format) int { return cmp.Compare(g.Outliers.Week, f.Outliers.Week) }) {
		t.Error("the most frequent do not come first")
	}
	for _, f := range formats {
		found := l.index(Epoch.Truncate(24*time.Hour)).find(url.Values{
			"titlePattern": {f.Pattern}, "language": {f.Language}, "publishedAtFrom": {Epoch.Truncate(24 * time.Hour).Add(1 - week).Format(withMillis)},
		}, 1)
		if f.Outliers.Week > len(found) || f.Outliers.Week == 0 || len(f.Niches) == 0 {
			t.Errorf("%q has %d outliers, search finds %d", f.Pattern, f.Outliers.Week, len(found))
		}
		for _, e := range f.Examples {
			if !slices.ContainsFunc(found, func(h *hit) bool {
				return h.id() == e.VideoID && h.title == e.Title && h.ratio == e.Scores.AverageViewsRatio
			}) {
				t.Errorf("%q is no example of %q", e.Title, f.Pattern)
			}
		}
	}
}
