package simulator

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// view is a hit as its reader sees it, with its channel's statistics beside it.
type view struct {
	hitShape
	channel channelStatistics
}

func (v view) value(name string) *float64 {
	s, n := v.Statistics, v.Snippet
	switch name {
	case "averageViewsRatio":
		return &s.AverageViewsRatio
	case "zScore":
		return s.ZScore
	case "viewCount":
		return new(float64(s.ViewCount))
	case "duration":
		return new(float64(n.Duration))
	case "subscribersCount":
		return new(float64(n.ChannelSubscribers))
	case "channelAvgViews":
		return &v.channel.AverageViewsEstimate
	case "channelVideoCount":
		return new(float64(v.channel.VideosSampleCount))
	case "channelAvgViewsToSubscribersRatio":
		return &v.channel.AvgViewsToSubscribersRatio
	case "rpmEstimation", "revenueEstimation":
		if n.Monetization == nil {
			return nil
		}
		return new(map[string]float64{"rpmEstimation": n.Monetization.RPMFrom, "revenueEstimation": n.Monetization.RevenueFrom}[name])
	}
	panic(name)
}

// allows is the meaning of a filter in the words of a reader.
func (v view) allows(name string, values []string) bool {
	value, n, c := values[0], v.Snippet, v.Classification
	switch name {
	case "type":
		return v.Kind == value
	case "channelId":
		return n.ChannelID == value
	case "language":
		return slices.Contains(values, n.Language)
	case "excludeKeyword":
		return !slices.ContainsFunc(values, func(w string) bool { return strings.Contains(strings.ToLower(n.Title), strings.ToLower(w)) })
	case "channelMonetizationAdsense":
		return strconv.FormatBool(n.ChannelMonetization.Adsense) == value
	case "classificationQuality":
		return c != nil && c.Quality != nil && *c.Quality == value
	case "classificationIsFaceless":
		return c != nil && c.IsFaceless != nil && strconv.FormatBool(*c.IsFaceless) == value
	case "publishedAtFrom":
		return n.PublishedAt >= strings.Replace(value, "Z", ".000Z", 1)
	case "publishedAtTo":
		return n.PublishedAt <= strings.Replace(value, "Z", ".000Z", 1)
	}
	bound, err := strconv.ParseFloat(value, 64)
	if err != nil {
		panic(err)
	}
	if base, ok := strings.CutSuffix(name, "From"); ok {
		have := v.value(base)
		return have != nil && *have >= bound
	}
	have := v.value(strings.TrimSuffix(name, "To"))
	return have != nil && *have <= bound
}

func views(l *library) []view {
	x := l.index(Epoch)
	all := make([]view, len(x.hits))
	for i, h := range x.hits {
		all[i] = view{h.shape(x.at), h.channel.sample(h.kind, x.at).statistics()}
	}
	return all
}

func TestFiltersKeepExactlyWhatTheyAllow(t *testing.T) {
	l := openLibrary(1)
	all := views(l)
	rapid.Check(t, func(t *rapid.T) {
		p := url.Values{}
		for range rapid.IntRange(1, 3).Draw(t, "filters") {
			name, values := drawFilter(t, all)
			p[name] = values
		}
		if wrong, unknown := breaches(p, searchRules, ""); wrong != nil || unknown != nil {
			t.Fatalf("the test itself breaks the rules: %v %v", wrong, unknown)
		}
		want := map[string]bool{}
		for _, v := range all {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(p)), func(name string) bool { return !v.allows(name, p[name]) }) {
				want[v.ID] = true
			}
		}
		got := map[string]bool{}
		for _, h := range l.index(Epoch).find(p, l.seed) {
			got[h.id()] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v keeps other hits than it should:\n%s", p, diff)
		}
	})
}

// drawFilter takes bounds from hits, so that equality is met as well.
func drawFilter(t *rapid.T, all []view) (string, []string) {
	v := rapid.SampledFrom(all).Draw(t, "hit")
	name := rapid.SampledFrom([]string{
		"averageViewsRatio", "zScore", "viewCount", "duration", "subscribersCount", "channelAvgViews", "channelVideoCount",
		"channelAvgViewsToSubscribersRatio", "rpmEstimation", "revenueEstimation", "publishedAt", "type", "channelId", "language",
		"excludeKeyword", "channelMonetizationAdsense", "classificationQuality", "classificationIsFaceless",
	}).Draw(t, "name")
	side := rapid.SampledFrom([]string{"From", "To"}).Draw(t, "side")
	flag := strconv.FormatBool(rapid.Bool().Draw(t, "flag"))
	switch name {
	case "type":
		return name, []string{v.Kind}
	case "channelId":
		return name, []string{v.Snippet.ChannelID}
	case "language":
		return name, []string{v.Snippet.Language, "xx"}
	case "excludeKeyword":
		return name, []string{strings.Fields(v.Snippet.Title)[0], "Moka"}
	case "channelMonetizationAdsense", "classificationIsFaceless":
		return name, []string{flag}
	case "classificationQuality":
		return name, []string{rapid.SampledFrom([]string{"negative", "neutral", "positive"}).Draw(t, "quality")}
	case "publishedAt":
		return name + side, []string{strings.Replace(v.Snippet.PublishedAt, ".000Z", "Z", 1)}
	}
	bound := 1.0
	if have := v.value(name); have != nil {
		bound = *have
	}
	if name != "zScore" && name != "averageViewsRatio" && bound <= 0 {
		bound = 1 // the least that both sides accept
	}
	return name + side, []string{strconv.FormatFloat(bound, 'f', -1, 64)}
}

func TestSponsoredDividesTheLibrary(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	yes := len(x.find(url.Values{"channelMonetizationSponsored": {"true"}}, 1))
	no := len(x.find(url.Values{"channelMonetizationSponsored": {"false"}}, 1))
	if yes == 0 || no == 0 || yes+no >= len(x.hits) {
		t.Errorf("%d sponsored and %d not of %d; want some of both, and some that nobody looked at", yes, no, len(x.hits))
	}
}

func TestTitlePatternMatchesTheWholeTitle(t *testing.T) {
	tests := []struct {
		pattern, title string
		want           bool
	}{
		{"i tried * for * days", "i tried moka pot for 30 days", true},
		{"i tried * for * days", "i tried moka pot for 30 days 🔥", false},
		{"*moka*", "the moka pot", true},
		{"moka*", "the moka pot", false},
		{"aa*aa", "aaa", false},
		{"*ab*ab*", "abab", true},
		{"*ab*ab*", "aba", false},
	}
	for _, tt := range tests {
		if got := matches(tt.pattern, tt.title); got != tt.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tt.pattern, tt.title, got, tt.want)
		}
	}
	for _, h := range openLibrary(1).index(Epoch).find(url.Values{"titlePattern": {"I TRIED * days"}}, 1) {
		if !strings.HasPrefix(h.lower, "i tried ") || !strings.HasSuffix(h.lower, " days") {
			t.Errorf("found %q", h.title)
		}
	}
}

func TestSemanticQueryFindsItsTopicFirst(t *testing.T) {
	l := openLibrary(1)
	for _, tt := range []struct{ query, niche, topic string }{
		{"moka pot", "coffee", "moka pot"}, {"Mechanical Keyboards", "tech", "mechanical keyboard"},
		{"best sourdough starter", "cooking", "sourdough"}, {"マキネッタ", "coffee", "moka pot"}, {"مطحنة القهوة", "coffee", "coffee grinder"},
	} {
		for i, h := range l.index(Epoch).find(url.Values{"query": {tt.query}}, 1) {
			if h.channel.niche.name != tt.niche || i < 20 && h.channel.niche.topics[h.topic].names[0] != tt.topic {
				t.Errorf("%q finds, at place %d, %q about %s", tt.query, i, h.title, h.channel.niche.topics[h.topic].names[0])
				break
			}
		}
	}
}

func TestAnyQueryFindsSomethingStable(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	rapid.Check(t, func(t *rapid.T) {
		p := url.Values{"query": {rapid.String().Draw(t, "query")}}
		found := x.find(p, 1)
		if len(found) < 100 || len(found) > nearest || !slices.Equal(found, x.find(p, 1)) {
			t.Fatalf("finds %d", len(found))
		}
	})
}

func TestSeveralQueriesFindTheUnion(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	for _, by := range []string{"semantic", "lexical"} {
		a := ids(x.find(url.Values{"by": {by}, "query": {"sourdough"}}, 1))
		b := ids(x.find(url.Values{"by": {by}, "query": {"Minecraft"}}, 1))
		both := ids(x.find(url.Values{"by": {by}, "query": {"sourdough", "Minecraft"}}, 1))
		want := append(slices.Clone(a), b...)
		slices.Sort(want)
		slices.Sort(both)
		if want = slices.Compact(want); !slices.Equal(both, want) {
			t.Errorf("%s: both queries find %d, want %d", by, len(both), len(want))
		}
	}
}

func ids(found []*hit) []string {
	var ids []string
	for _, h := range found {
		ids = append(ids, h.id())
	}
	return ids
}

func TestLexicalQueryFindsExactWords(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	for query, want := range map[string]bool{"mistakes": true, "mistake": false, "espresso mistakes": true, "ラーメン": true, "zzz unheard of": false} {
		found := x.find(url.Values{"by": {"lexical"}, "query": {query}}, 1)
		if (len(found) > 0) != want {
			t.Errorf("%q finds %d", query, len(found))
		}
		for _, h := range found {
			for w := range strings.FieldsSeq(strings.ToLower(query)) {
				if !strings.Contains(strings.ToLower(h.title+" "+h.channel.title), w) {
					t.Errorf("%q finds %q of %q", query, h.title, h.channel.title)
				}
			}
		}
	}
}

func TestSortByOrdersBothWaysWithNullsLast(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	for name, value := range hitTerms.orders {
		for _, order := range []string{"asc", "desc", ""} {
			p := url.Values{"query": {"coffee"}, "sortBy": {name}}
			if order != "" {
				p.Set("sortOrder", order)
			}
			found := x.find(p, 1)
			for i := 1; i < len(found); i++ {
				a, oka := value(found[i-1])
				b, okb := value(found[i])
				if !oka && okb || oka && okb && (order == "asc" && a > b || order != "asc" && a < b) {
					t.Errorf("%s %s: %g, %v stands before %g, %v", name, order, a, oka, b, okb)
					break
				}
			}
		}
	}
}

func TestSeedShufflesTheSameHits(t *testing.T) {
	x := openLibrary(1).index(Epoch)
	plain := ids(x.find(url.Values{"query": {"yoga"}}, 1))
	one := ids(x.find(url.Values{"query": {"yoga"}, "seed": {"1"}}, 1))
	again := ids(x.find(url.Values{"query": {"yoga"}, "seed": {"1"}}, 1))
	two := ids(x.find(url.Values{"query": {"yoga"}, "seed": {"2"}}, 1))
	if !slices.Equal(one, again) || slices.Equal(one, two) || slices.Equal(one, plain) {
		t.Error("a seed does not shuffle in its own way")
	}
	slices.Sort(plain)
	slices.Sort(one)
	if !slices.Equal(plain, one) {
		t.Error("a seed changes what is found")
	}
}

// pageOf is one page of GET /search/outliers without a service around it.
func pageOf(l *library, p url.Values, g paging) searchAnswer {
	x := l.index(Epoch)
	return x.page(x.find(p, l.seed), p, g)
}

func TestHitsMayLackWhatTheServiceMayLack(t *testing.T) {
	lacks := map[string]int{}
	for _, v := range views(openLibrary(1)) {
		for what, absent := range map[string]bool{
			"thumbnails": v.Snippet.Thumbnails == nil, "monetization": v.Snippet.Monetization == nil, "zScore": v.Statistics.ZScore == nil,
			"likeCount": v.Statistics.LikeCount == nil, "commentCount": v.Statistics.CommentCount == nil, "classification": v.Classification == nil,
		} {
			if absent {
				lacks[what]++
			}
		}
	}
	if len(lacks) != 6 {
		t.Errorf("lacking are %v, want six kinds", lacks)
	}
}

func TestTheYear2000HasALibraryToo(t *testing.T) {
	bubble := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	x := openLibrary(1).index(bubble)
	if len(x.hits) < 1000 {
		t.Errorf("%d hits", len(x.hits))
	}
	for _, h := range x.hits {
		if h.published.After(bubble) || h.published.Before(dawn) {
			t.Fatalf("%s is of %s", h.id(), h.published)
		}
	}
}
