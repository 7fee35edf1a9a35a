package outlier

import (
	"net/url"
	"slices"
	"time"
)

// A HitFilter chooses hits by what they show themselves, so that it costs nothing. Its
// parameters are those filters of the search that a hit can be judged by, and the numbers
// of likes and comments. It is never sent.
type HitFilter struct{ fields []Field }

// shown has the parameters by which hits are judged, and the fact or word of the hit that
// each of them is about. Of an estimate that is the middle, as in [Hit.SortValue].
var (
	shownByOutliers = map[string]string{
		"type": "kind", "channelId": "channelId", "language": "language", "publishedAt": "publishedAt", "duration": "duration",
		"averageViewsRatio": "averageViewsRatio", "zScore": "zScore", "viewCount": "views",
		"likeCount": "likes", "commentCount": "comments", "subscribersCount": "subscribers",
		"rpmEstimation": "rpm", "revenueEstimation": "revenue", "channelMonetizationAdsense": "adsense",
		"classificationQuality": "quality", "classificationIsFaceless": "faceless",
	}
	shownByChannels = map[string]string{
		"language": "language", "subscribers": "subscribers", "averageViews": "averageViews",
		"avgViewsToSubscribersRatio": "avgViewsToSubscribersRatio", "viewVariationCoefficient": "viewVariationCoefficient",
		"revenueMonthlyEstimation": "revenueMonthly", "rpmEstimation": "rpm", "monetizationAdsense": "adsense",
		"classificationQuality": "quality", "classificationIsFaceless": "faceless",
	}
)

// NewHitFilter is a filter for the hits of a search, which its Fields are to fill. The
// empty filter admits every hit.
func NewHitFilter(op Operation) HitFilter {
	shown, fields := shownByOutliers, append(new(Search).Fields(),
		Field{Name: "likeCount", Value: new(Range[int64]), positive: true, maxTo: maxInteger},
		Field{Name: "commentCount", Value: new(Range[int64]), positive: true, maxTo: maxInteger})
	if op == OpFindChannels || op == OpFindRelatedChannels {
		shown, fields = shownByChannels, new(FindChannels).Fields()
	}
	fields = slices.DeleteFunc(fields, func(f Field) bool { return shown[f.Name] == "" })
	for i := range fields {
		fields[i].shown = shown[fields[i].Name]
	}
	return HitFilter{fields}
}

// ReadHitFilter is the filter with the given canonical parameters; see [Params].
func ReadHitFilter(op Operation, params url.Values) HitFilter {
	f := NewHitFilter(op)
	for _, field := range f.fields {
		field.read(params)
	}
	return f
}

// Fields lists the filter's parameters, as [Search.Fields] does.
func (f HitFilter) Fields() []Field { return f.fields }

// Admits reports whether a hit meets every parameter that is set. A hit that does not show
// what a parameter is about does not meet it.
func (f HitFilter) Admits(h Hit) bool {
	return !slices.ContainsFunc(f.fields, func(field Field) bool { return !field.admits(h) })
}

func (f Field) admits(h Hit) bool {
	word := h.Words[f.shown]
	switch f.shown {
	case "kind":
		word = h.Kind
	case "channelId":
		word = h.ChannelID
	}
	x, known := h.Facts[f.shown]
	switch v := f.Value.(type) {
	case *string:
		return *v == "" || word == *v
	case *[]string:
		return len(*v) == 0 || slices.Contains(*v, word)
	case **bool:
		return *v == nil || known && **v == (x == 1)
	case *Range[int64]:
		return contains(*v, func(n int64) float64 { return float64(n) }, x, known)
	case *Range[float64]:
		return contains(*v, func(n float64) float64 { return n }, x, known)
	case *Range[time.Time]:
		return contains(*v, func(t time.Time) float64 { return float64(t.Unix()) }, x, known)
	}
	return true
}

// contains reports whether x lies within a range, both ends included.
func contains[T any](r Range[T], number func(T) float64, x float64, known bool) bool {
	if r.From == nil && r.To == nil {
		return true
	}
	return known && (r.From == nil || number(*r.From) <= x) && (r.To == nil || x <= number(*r.To))
}
