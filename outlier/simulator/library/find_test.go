package library

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func channelIDs(found []*Sample) []string {
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.channel.ID
	}
	return ids
}

// statisticsOf returns what a channel shows of a sample, by the names of the filters.
func statisticsOf(s *Sample) map[string]float64 {
	t := s.channel.Sample(s.kind, s.at).Statistics()
	shown := map[string]float64{
		"videosCount": float64(t["videosCount"].(int)), "subscribers": float64(t["subscriberCount"].(int64)),
	}
	for filter, name := range map[string]string{
		"averageViews": "averageViewsEstimate", "medianViews": "medianViewsEstimate",
		"avgViewsToSubscribersRatio": "avgViewsToSubscribersRatio", "viewVariationCoefficient": "viewVariationCoefficient",
	} {
		shown[filter] = t[name].(float64)
	}
	return shown
}

// field returns a field of an answer, such as "snippet.title"; nil for one that is missing.
func field(answer any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		o, _ := answer.(object)
		answer = o[name]
	}
	return answer
}

func TestChannelFiltersOnStatistics(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	statistics := map[*Sample]map[string]float64{}
	for _, s := range slices.Concat(samples(x, Video), samples(x, Short)) {
		statistics[s] = statisticsOf(s)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
		of := statistics[rapid.SampledFrom(samples(x, k)).Draw(t, "channel")]
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "name")
		upper := rapid.Bool().Draw(t, "upper")
		p := url.Values{"filterBy": {k.String()}}
		p.Set(name+map[bool]string{false: "From", true: "To"}[upper], strconv.FormatFloat(of[name], 'f', -1, 64))
		want := map[string]bool{}
		for _, s := range samples(x, k) {
			hidden := s.channel.gaps.subscribersHidden && (name == "subscribers" || name == "avgViewsToSubscribersRatio")
			unmeasured := s.count == 0 && name != "subscribers" && name != "videosCount"
			if v := statistics[s][name]; !hidden && !unmeasured && (upper && v <= of[name] || !upper && v >= of[name]) {
				want[s.channel.ID] = true
			}
		}
		got := map[string]bool{}
		for _, id := range channelIDs(x.FindChannels(p, Open(1))) {
			got[id] = true
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("channels found with %v (-want +got):\n%s", p, diff)
		}
	})
}

func TestChannelFiltersOnProperties(t *testing.T) {
	x := Open(1).Index(epoch)
	for _, tt := range []struct {
		p    url.Values
		want func(h any, s *Sample) bool
	}{
		{url.Values{"language": {"ja", "ko"}}, func(h any, _ *Sample) bool {
			return field(h, "language.code") == "ja"
		}},
		{url.Values{"excludeNiche": {"gaming", "coffee"}}, func(_ any, s *Sample) bool {
			return s.channel.Niche.Name != "gaming" && s.channel.Niche.Name != "coffee"
		}},
		{url.Values{"contentKind": {"short"}}, func(h any, _ *Sample) bool {
			return slices.Contains(field(h, "snippet.contentKind").([]string), "short")
		}},
		{url.Values{"contentKind": {"short-form"}}, func(h any, _ *Sample) bool {
			return slices.Contains(field(h, "snippet.contentKind").([]string), "short")
		}},
		{url.Values{"contentKind": {"long-form"}}, func(h any, _ *Sample) bool {
			return slices.Contains(field(h, "snippet.contentKind").([]string), "video")
		}},
		{url.Values{"monetizationAdsense": {"false"}}, func(h any, _ *Sample) bool {
			return field(h, "monetization.adsense") == false
		}},
		{url.Values{"classificationQuality": {"positive"}}, func(h any, _ *Sample) bool {
			return field(h, "classification.quality") == "positive"
		}},
		{url.Values{"classificationIsFaceless": {"true"}}, func(h any, _ *Sample) bool {
			faceless, _ := field(h, "classification.isFaceless").(*bool)
			return faceless != nil && *faceless
		}},
		{url.Values{"publishedAtFrom": {epoch.Add(-48 * time.Hour).Format(noMillis)}}, func(_ any, s *Sample) bool {
			return s.channel.publishedAt(Video, s.channel.latestUpload(Video, epoch)).After(epoch.Add(-48*time.Hour - 1))
		}},
		{url.Values{"avgDurationTo": {"600"}}, func(_ any, s *Sample) bool {
			length, known := s.channel.Sample(Video, epoch).Statistics()["averageVideoDurationEstimate"].(float64)
			return known && length <= 600
		}},
		{url.Values{"rpmEstimationFrom": {"5"}}, func(_ any, s *Sample) bool {
			return s.rpm.from >= 5
		}},
		{url.Values{"revenueMonthlyEstimationTo": {"500"}}, func(_ any, s *Sample) bool {
			return s.monthlyRevenue().from <= 500
		}},
	} {
		var want []string
		for _, s := range samples(x, Video) {
			if tt.want(s.Answer(), s) {
				want = append(want, s.channel.ID)
			}
		}
		got := channelIDs(x.FindChannels(tt.p, Open(1)))
		slices.Sort(want)
		slices.Sort(got)
		everything := len(want) == len(samples(x, Video)) && tt.p.Get("contentKind") != "long-form"
		if len(want) == 0 || everything || !slices.Equal(want, got) {
			t.Errorf("%v finds %d channels, want %d, which must be some of all %d",
				tt.p, len(got), len(want), len(samples(x, Video)))
		}
	}
	if got := x.FindChannels(url.Values{"filterBy": {"short"}, "avgDurationFrom": {"0"}}, Open(1)); len(got) != 0 {
		t.Errorf("a filter on the duration of shorts finds %d channels, want 0: it is unknown", len(got))
	}
}

// Channels sort in both orders, with nulls last.
func TestChannelsSortWithNullsLast(t *testing.T) {
	x := Open(1).Index(epoch)
	for name, number := range channelTerms.orders {
		value := channelTerms.numbers[number]
		for _, order := range []string{"asc", "desc"} {
			found := x.FindChannels(url.Values{"sortBy": {name}, "sortOrder": {order}, "filterBy": {"short"}}, Open(1))
			if !slices.IsSortedFunc(found, orderBy(value, order == "asc")) || len(found) != ChannelCount {
				t.Errorf("sorted by %s %s: %d channels that are out of order, or not all %d",
					name, order, len(found), ChannelCount)
			}
		}
	}
	newest := x.FindChannels(url.Values{"sortBy": {"recency"}}, Open(1))
	if !slices.IsSortedFunc(newest, func(a, b *Sample) int { return cmp.Compare(seconds(b.newest), seconds(a.newest)) }) {
		t.Error("sorted by recency: the newest upload is not first")
	}
}

func TestChannelQueriesFindTheirTopicFirst(t *testing.T) {
	x := Open(1).Index(epoch)
	found := x.FindChannels(url.Values{"query": {"moka pot"}}, Open(1))
	for i, s := range found {
		n := s.channel.Niche
		hasTopic := slices.ContainsFunc(s.channel.topics, func(t Topic) bool { return t.Name() == "moka pot" })
		if n.Name != "coffee" || i < 5 && !hasTopic {
			t.Errorf("result %d is %s of niche %s, want niche coffee, and the topic moka pot in the first 5",
				i, s.channel.title, n.Name)
		}
	}
	union := x.FindChannels(url.Values{"query": {"moka pot", "chess"}}, Open(1))
	chess := x.FindChannels(url.Values{"query": {"chess"}}, Open(1))
	if len(found) == 0 || len(union) != len(found)+len(chess) {
		t.Errorf("both queries find %d channels, want the sum of %d and %d", len(union), len(found), len(chess))
	}
	if got := x.FindChannels(url.Values{"query": {"zzz unheard of"}}, Open(1)); len(got) < 10 {
		t.Errorf("a query of unknown words finds %d channels, want at least 10", len(got))
	}
	shuffled := channelIDs(x.FindChannels(url.Values{"query": {"moka pot"}, "seed": {"1"}}, Open(1)))
	plain := channelIDs(found)
	if slices.Equal(plain, shuffled) {
		t.Error("a search with a seed finds channels in the same order as without one")
	}
	slices.Sort(plain)
	slices.Sort(shuffled)
	if !slices.Equal(plain, shuffled) {
		t.Error("a search with a seed finds other channels than one without")
	}
}

// Related channels are of the niches of their seeds, and the seeds are not among them.
func TestRelatedChannelsExcludeTheirSeeds(t *testing.T) {
	l := Open(1)
	x := l.Index(epoch)
	a, b := l.Channels[0], l.Channels[1]
	if a.Niche == b.Niche {
		t.Fatal("channels 0 and 1 have the same niche, want two niches")
	}
	niches := map[*niche]bool{}
	for _, s := range x.FindChannels(url.Values{"relatedChannelId": {a.ID, b.ID, "UCaaaaaaaaaaaaaaaaaaaaaa"}}, l) {
		niches[s.channel.Niche] = true
		if s.channel == a || s.channel == b {
			t.Errorf("the seed %s is among the related channels", s.channel.ID)
		}
	}
	if !gocmp.Equal(niches, map[*niche]bool{a.Niche: true, b.Niche: true}) {
		t.Errorf("related channels are of the niches %v, want %s and %s", niches, a.Niche.Name, b.Niche.Name)
	}
	first := x.FindChannels(url.Values{"relatedChannelId": {a.ID}}, l)[0]
	if !slices.Contains(first.channel.topics, a.topics[0]) {
		t.Errorf("the channel nearest to %s is %s, which does not have its main topic", a.title, first.channel.title)
	}
	if got := x.FindChannels(url.Values{"relatedChannelId": {"UCaaaaaaaaaaaaaaaaaaaaaa"}}, l); len(got) != 0 {
		t.Errorf("an unknown channel has %d related channels, want 0", len(got))
	}
}

func TestChannelFieldsMayBeNull(t *testing.T) {
	null := map[string]bool{}
	x := Open(1).Index(epoch)
	for _, s := range slices.Concat(samples(x, Video), samples(x, Short)) {
		h := s.Answer()
		for _, name := range []string{
			"snippet.handle", "statistics.subscribers", "statistics.averageViews", "statistics.avgViewsToSubscribersRatio",
			"language.code", "monetization.adsense", "classification",
		} {
			if field(h, name) == nil {
				null[name] = true
			}
		}
		if c, known := field(h, "classification").(object); known {
			null["quality"] = null["quality"] || c["quality"] == nil
			null["isFaceless"] = null["isFaceless"] || c["isFaceless"].(*bool) == nil
		}
	}
	if len(null) != 9 {
		t.Errorf("null in some channel are %v, want all 9 fields", slices.Sorted(maps.Keys(null)))
	}
}

// samples are all of a kind.
func samples(x *Index, k Kind) (all []*Sample) {
	for _, of := range x.listedIn(func(int) bool { return true }) {
		all = append(all, of.samples[k]...)
	}
	return all
}
