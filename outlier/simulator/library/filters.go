package library

import (
	"maps"
	"slices"
	"strings"
	"time"

	"outlierd/outlier/simulator/rules"
)

// hitTerms are the common filters and the values of sortBy (interface, Common filters and
// GET /search/outliers), except for referenceId, which selects the index.
var hitTerms = terms[*Hit]{
	numbers: map[string]number[*Hit]{
		"averageViewsRatio":                 {rules.Numbers, func(h *Hit) (float64, bool) { return h.ratio, true }},
		"zScore":                            {rules.Numbers, func(h *Hit) (float64, bool) { return h.z, !h.Gaps.unscored }},
		"viewCount":                         {rules.Integers, func(h *Hit) (float64, bool) { return float64(h.Views), true }},
		"duration":                          {rules.Integers, func(h *Hit) (float64, bool) { return float64(h.duration), true }},
		"publishedAt":                       {rules.Times, func(h *Hit) (float64, bool) { return seconds(h.Published), true }},
		"subscribersCount":                  {rules.Integers, func(h *Hit) (float64, bool) { return float64(h.sample.subscribers), true }},
		"channelAvgViews":                   {rules.Positives, func(h *Hit) (float64, bool) { return h.sample.mean, true }},
		"channelVideoCount":                 {rules.IntegersTo(120), func(h *Hit) (float64, bool) { return float64(h.sample.size), true }},
		"channelAvgViewsToSubscribersRatio": {rules.Positives, func(h *Hit) (float64, bool) { return h.sample.viewsPerSubscriber(), true }},
		"rpmEstimation":                     {rules.Positives, func(h *Hit) (float64, bool) { return h.money.RPMFrom, !h.Gaps.unpriced }},
		"revenueEstimation":                 {rules.Positives, func(h *Hit) (float64, bool) { return h.money.RevenueFrom, !h.Gaps.unpriced }},
	},
	others: map[string]filter[*Hit]{
		"type":      {rules.Kind, func(h *Hit, vs []string) bool { return h.Kind.String() == vs[0] }},
		"channelId": {rules.Text, func(h *Hit, vs []string) bool { return h.Channel.ID == vs[0] }},
		"titlePattern": {rules.TitlePattern, func(h *Hit, vs []string) bool {
			return matchesPattern(strings.ToLower(vs[0]), h.foldTexts().lower)
		}},
		"channelMonetizationAdsense":   {rules.Flag, func(h *Hit, vs []string) bool { return equalsFlag(&h.Channel.adsense, vs[0]) }},
		"channelMonetizationSponsored": {rules.Flag, func(h *Hit, vs []string) bool { return equalsFlag(h.Channel.sponsored, vs[0]) }},
		"classificationQuality": {rules.Quality, func(h *Hit, vs []string) bool {
			return !h.Gaps.unclassified && h.Channel.quality == vs[0]
		}},
		"classificationIsFaceless": {rules.Flag, func(h *Hit, vs []string) bool {
			return !h.Gaps.unclassified && equalsFlag(h.Channel.faceless, vs[0])
		}},
		"language": {rules.Languages, func(h *Hit, vs []string) bool { return slices.Contains(vs, languages[h.Channel.language]) }},
		"excludeKeyword": {rules.Texts, func(h *Hit, vs []string) bool {
			has := func(v string) bool { return strings.Contains(h.foldTexts().lower, strings.ToLower(v)) }
			return !slices.ContainsFunc(vs, has)
		}},
	},
	orders: map[string]string{
		"views": "viewCount", "zScore": "zScore", "averageViewsRatio": "averageViewsRatio", "publishedAt": "publishedAt",
		"revenue": "revenueEstimation", "rpm": "rpmEstimation",
	},
}

// The rules of the filters and of sortBy.
var HitFilters, HitOrders = hitTerms.rules()

// channelTerms are the filters and the values of sortBy. A channel is found by the sample
// that filterBy names, by default that of its videos.
var channelTerms = terms[*Sample]{
	numbers: map[string]number[*Sample]{
		"publishedAt":                {rules.Times, func(s *Sample) (float64, bool) { return seconds(s.newest), s.size > 0 }},
		"averageViews":               {rules.Numbers, func(s *Sample) (float64, bool) { return s.mean, s.size > 0 }},
		"medianViews":                {rules.Numbers, func(s *Sample) (float64, bool) { return s.median, s.size > 0 }},
		"avgViewsToSubscribersRatio": {rules.Numbers, (*Sample).viewsRatio},
		"subscribers":                {rules.Numbers, (*Sample).subscriberCount},
		"videosCount":                {rules.Numbers, func(s *Sample) (float64, bool) { return float64(s.total), true }},
		"viewVariationCoefficient":   {rules.Numbers, func(s *Sample) (float64, bool) { return divideOrZero(s.deviation, s.mean), s.size > 0 }},
		"revenueMonthlyEstimation": {rules.Numbers, func(s *Sample) (float64, bool) {
			return s.estimateIncome().RevenueMonthlyFrom, s.size > 0
		}},
		"rpmEstimation": {rules.Positives, func(s *Sample) (float64, bool) { return s.estimateIncome().RPMFrom, true }},
		"foundAt":       {value: func(s *Sample) (float64, bool) { return seconds(s.channel.firstSeen()), true }},
		// Unknown for shorts.
		"avgDuration": {rules.Numbers, func(s *Sample) (float64, bool) { return s.length, s.size > 0 && s.kind == Video }},
	},
	others: map[string]filter[*Sample]{
		"contentKind": {rules.One(rules.OneOf(slices.Sorted(maps.Keys(forms))...)), func(s *Sample, vs []string) bool {
			return slices.Contains(s.channel.uploadKinds(), forms[vs[0]])
		}},
		"monetizationAdsense": {rules.Flag, func(s *Sample, vs []string) bool {
			return !s.channel.gaps().noAdsense && equalsFlag(&s.channel.adsense, vs[0])
		}},
		"classificationQuality": {rules.Quality, func(s *Sample, vs []string) bool {
			return !s.channel.gaps().unclassified && s.channel.quality == vs[0]
		}},
		"classificationIsFaceless": {rules.Flag, func(s *Sample, vs []string) bool {
			return !s.channel.gaps().unclassified && equalsFlag(s.channel.faceless, vs[0])
		}},
		"language": {rules.Languages, func(s *Sample, vs []string) bool {
			return !s.channel.gaps().noLanguage && slices.Contains(vs, languages[s.channel.language])
		}},
		"excludeNiche": {rules.Texts, func(s *Sample, vs []string) bool { return !slices.Contains(vs, s.channel.Niche.Name) }},
	},
	orders: map[string]string{
		"subscribers": "subscribers", "averageViews": "averageViews", "avgViewsToSubscribersRatio": "avgViewsToSubscribersRatio",
		"viewVariationCoefficient": "viewVariationCoefficient", "revenueMonthly": "revenueMonthlyEstimation",
		"rpm": "rpmEstimation", "foundAt": "foundAt", "recency": "publishedAt",
	},
}

// The rules of the filters and of sortBy.
var ChannelFilters, ChannelOrders = channelTerms.rules()

// forms are the values of contentKind, which has two names for each kind.
var forms = map[string]string{"video": "video", "long-form": "video", "short": "short", "short-form": "short"}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
