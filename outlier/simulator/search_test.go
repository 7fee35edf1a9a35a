package simulator

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// view is a hit as a client receives it, with the statistics of its channel.
type view struct {
	hit
	channel channelStatistics
}

// value returns the value that a filter compares, or nil.
func (v view) value(name string) *float64 {
	s, n := v.Statistics, v.Snippet
	switch name {
	case "averageViewsRatio":
		return &s.AverageViewsRatio
	case "zScore":
		return s.ZScore
	case "viewCount":
		return new(float64(*s.ViewCount))
	case "duration":
		return &n.Duration
	case "subscribersCount":
		return &n.ChannelSubscribers
	case "channelAvgViews":
		return &v.channel.AverageViewsEstimate
	case "channelVideoCount":
		return &v.channel.VideosSampleCount
	case "channelAvgViewsToSubscribersRatio":
		return &v.channel.AvgViewsToSubscribersRatio
	case "rpmEstimation", "revenueEstimation":
		if n.Monetization == nil {
			return nil
		}
		return new(map[string]float64{
			"rpmEstimation": n.Monetization.RPMEstimationFrom, "revenueEstimation": n.Monetization.RevenueEstimationFrom,
		}[name])
	}
	panic(name)
}

// allows reports whether a filter allows the hit, independently of the library's own filters.
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
		return !slices.ContainsFunc(values, func(w string) bool {
			return strings.Contains(strings.ToLower(n.Title), strings.ToLower(w))
		})
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

func views(t *testing.T, l *library.Library) []view {
	t.Helper()
	x := l.Index(Epoch)
	all, channels := make([]view, len(x.Hits())), map[string]channelStatistics{}
	for i, h := range x.Hits() {
		all[i].hit, _ = read[hit](t, h.Answer(x.At))
		of := h.Channel.ID + h.Kind.String()
		if _, known := channels[of]; !known {
			channels[of], _ = read[channelStatistics](t, h.Channel.Sample(h.Kind, x.At).Statistics())
		}
		all[i].channel = channels[of]
	}
	return all
}

func TestFiltersSelectExactlyTheMatchingHits(t *testing.T) {
	l := library.Open(1)
	all := views(t, l)
	rapid.Check(t, func(t *rapid.T) {
		p := url.Values{}
		for range rapid.IntRange(1, 3).Draw(t, "filters") {
			name, values := drawFilter(t, all)
			p[name] = values
		}
		if _, err := outlier.NewRequest(outlier.OpSearch, p, nil); err != nil {
			t.Skip(err) // such as a range whose ends are the wrong way round
		}
		want, names := map[string]bool{}, slices.Collect(maps.Keys(p))
		for _, v := range all {
			if !slices.ContainsFunc(names, func(name string) bool { return !v.allows(name, p[name]) }) {
				want[v.ID] = true
			}
		}
		got := map[string]bool{}
		for _, h := range l.Index(Epoch).Find(p, l) {
			got[h.ID()] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("hits for %v (-want +got):\n%s", p, diff)
		}
	})
}

// drawFilter takes bounds from hits, so that some hits equal the bound.
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
		return name, []string{v.Snippet.Language, "de"}
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
		bound = 1 // the lowest that both From and To accept
	}
	return name + side, []string{strconv.FormatFloat(bound, 'f', -1, 64)}
}

func ids(found []*library.Hit) []string {
	var ids []string
	for _, h := range found {
		ids = append(ids, h.ID())
	}
	return ids
}

// pageOf returns a page of GET /search/outliers without a service.
func pageOf(t *testing.T, p url.Values, g paging) searchAnswer {
	t.Helper()
	hits := library.Open(1).Index(Epoch).Find(p, library.Open(1))
	page, _ := read[searchAnswer](t, g.cutPage(p, len(hits), func(i int) any { return hits[i].Answer(Epoch) }))
	return page
}

// Every optional field is missing in some hits.
func TestOptionalHitFieldsMayBeMissing(t *testing.T) {
	missing := map[string]int{}
	for _, v := range views(t, library.Open(1)) {
		for field, absent := range map[string]bool{
			"thumbnails":     v.Snippet.Thumbnails == nil,
			"monetization":   v.Snippet.Monetization == nil,
			"zScore":         v.Statistics.ZScore == nil,
			"likeCount":      v.Statistics.LikeCount == nil,
			"commentCount":   v.Statistics.CommentCount == nil,
			"classification": v.Classification == nil,
		} {
			if absent {
				missing[field]++
			}
		}
	}
	if len(missing) != 6 {
		t.Errorf("missing fields: %v, want all 6", missing)
	}
}
