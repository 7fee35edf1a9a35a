package library

import (
	"slices"
	"strings"
	"time"
)

// hitTerms are the common filters and the values of sortBy (interface, Common filters and
// GET /search/outliers), except for referenceId, which selects the index.
var hitTerms = terms[*Hit]{
	numbers: map[string]score[*Hit]{
		"averageViewsRatio":                 func(h *Hit) (float64, bool) { return h.ratio, true },
		"zScore":                            func(h *Hit) (float64, bool) { return h.z, !h.Gaps.unscored },
		"viewCount":                         func(h *Hit) (float64, bool) { return float64(h.Views), true },
		"duration":                          func(h *Hit) (float64, bool) { return float64(h.duration), true },
		"publishedAt":                       func(h *Hit) (float64, bool) { return seconds(h.Published), true },
		"subscribersCount":                  func(h *Hit) (float64, bool) { return float64(h.sample.subscribers), true },
		"channelAvgViews":                   func(h *Hit) (float64, bool) { return h.sample.mean, true },
		"channelVideoCount":                 func(h *Hit) (float64, bool) { return float64(h.sample.size), true },
		"channelAvgViewsToSubscribersRatio": func(h *Hit) (float64, bool) { return h.sample.viewsPerSubscriber(), true },
		"rpmEstimation":                     func(h *Hit) (float64, bool) { return h.money.RPMFrom, !h.Gaps.unpriced },
		"revenueEstimation":                 func(h *Hit) (float64, bool) { return h.money.RevenueFrom, !h.Gaps.unpriced },
	},
	others: map[string]func(v *Hit, values []string) bool{
		"type":      func(h *Hit, vs []string) bool { return h.Kind.String() == vs[0] },
		"channelId": func(h *Hit, vs []string) bool { return h.Channel.ID == vs[0] },
		"titlePattern": func(h *Hit, vs []string) bool {
			return matchesPattern(strings.ToLower(vs[0]), h.foldTexts().lower)
		},
		"channelMonetizationAdsense":   func(h *Hit, vs []string) bool { return equalsFlag(&h.Channel.adsense, vs[0]) },
		"channelMonetizationSponsored": func(h *Hit, vs []string) bool { return equalsFlag(h.Channel.sponsored, vs[0]) },
		"classificationQuality": func(h *Hit, vs []string) bool {
			return !h.Gaps.unclassified && h.Channel.quality == vs[0]
		},
		"classificationIsFaceless": func(h *Hit, vs []string) bool {
			return !h.Gaps.unclassified && equalsFlag(h.Channel.faceless, vs[0])
		},
		"language": func(h *Hit, vs []string) bool { return slices.Contains(vs, languages[h.Channel.language]) },
		"excludeKeyword": func(h *Hit, vs []string) bool {
			has := func(v string) bool { return strings.Contains(h.foldTexts().lower, strings.ToLower(v)) }
			return !slices.ContainsFunc(vs, has)
		},
	},
	orders: map[string]string{
		"views": "viewCount", "zScore": "zScore", "averageViewsRatio": "averageViewsRatio", "publishedAt": "publishedAt",
		"revenue": "revenueEstimation", "rpm": "rpmEstimation",
	},
}

// channelTerms are the filters and the values of sortBy. A channel is found by the sample
// that filterBy names, by default that of its videos.
var channelTerms = terms[*Sample]{
	numbers: map[string]score[*Sample]{
		"publishedAt":                func(s *Sample) (float64, bool) { return seconds(s.newest), s.size > 0 },
		"averageViews":               func(s *Sample) (float64, bool) { return s.mean, s.size > 0 },
		"medianViews":                func(s *Sample) (float64, bool) { return s.median, s.size > 0 },
		"avgViewsToSubscribersRatio": (*Sample).viewsRatio,
		"subscribers":                (*Sample).subscriberCount,
		"videosCount":                func(s *Sample) (float64, bool) { return float64(s.total), true },
		"viewVariationCoefficient":   func(s *Sample) (float64, bool) { return divideOrZero(s.deviation, s.mean), s.size > 0 },
		"revenueMonthlyEstimation": func(s *Sample) (float64, bool) {
			return s.estimateIncome().RevenueMonthlyFrom, s.size > 0
		},
		"rpmEstimation": func(s *Sample) (float64, bool) { return s.estimateIncome().RPMFrom, true },
		"foundAt":       func(s *Sample) (float64, bool) { return seconds(s.channel.firstSeen()), true },
		// Unknown for shorts.
		"avgDuration": func(s *Sample) (float64, bool) { return s.length, s.size > 0 && s.kind == Video },
	},
	others: map[string]func(v *Sample, values []string) bool{
		"contentKind": func(s *Sample, vs []string) bool {
			return slices.Contains(s.channel.uploadKinds(), forms[vs[0]])
		},
		"monetizationAdsense": func(s *Sample, vs []string) bool {
			return !s.channel.gaps().noAdsense && equalsFlag(&s.channel.adsense, vs[0])
		},
		"classificationQuality": func(s *Sample, vs []string) bool {
			return !s.channel.gaps().unclassified && s.channel.quality == vs[0]
		},
		"classificationIsFaceless": func(s *Sample, vs []string) bool {
			return !s.channel.gaps().unclassified && equalsFlag(s.channel.faceless, vs[0])
		},
		"language": func(s *Sample, vs []string) bool {
			return !s.channel.gaps().noLanguage && slices.Contains(vs, languages[s.channel.language])
		},
		"excludeNiche": func(s *Sample, vs []string) bool { return !slices.Contains(vs, s.channel.Niche.Name) },
	},
	orders: map[string]string{
		"subscribers": "subscribers", "averageViews": "averageViews", "avgViewsToSubscribersRatio": "avgViewsToSubscribersRatio",
		"viewVariationCoefficient": "viewVariationCoefficient", "revenueMonthly": "revenueMonthlyEstimation",
		"rpm": "rpmEstimation", "foundAt": "foundAt", "recency": "publishedAt",
	},
}

// forms are the values of contentKind, which has two names for each kind.
var forms = map[string]string{"video": "video", "long-form": "video", "short": "short", "short-form": "short"}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
