package simulator

import (
	"slices"
	"strings"
	"time"
)

// hitTerms are the common filters and the values of sortBy (interface, Common
// filters and GET /search/outliers), but for referenceId, which says where to
// look: see [Service.shelf].
var hitTerms = terms[*hit]{
	ranges: map[string]score[*hit]{
		"averageViewsRatio":                 func(h *hit) (float64, bool) { return h.ratio, true },
		"zScore":                            func(h *hit) (float64, bool) { return h.z, !h.gaps.unscored },
		"viewCount":                         func(h *hit) (float64, bool) { return float64(h.views), true },
		"duration":                          func(h *hit) (float64, bool) { return float64(h.duration), true },
		"publishedAt":                       func(h *hit) (float64, bool) { return seconds(h.published), true },
		"subscribersCount":                  func(h *hit) (float64, bool) { return float64(h.sample.subscribers), true },
		"channelAvgViews":                   func(h *hit) (float64, bool) { return h.sample.mean, true },
		"channelVideoCount":                 func(h *hit) (float64, bool) { return float64(h.sample.size), true },
		"channelAvgViewsToSubscribersRatio": func(h *hit) (float64, bool) { return h.sample.viewsPerSubscriber(), true },
		"rpmEstimation":                     func(h *hit) (float64, bool) { return h.money.RPMFrom, !h.gaps.unpriced },
		"revenueEstimation":                 func(h *hit) (float64, bool) { return h.money.RevenueFrom, !h.gaps.unpriced },
	},
	choices: map[string]func(h *hit, value string) bool{
		"type":                         func(h *hit, v string) bool { return h.kind.String() == v },
		"channelId":                    func(h *hit, v string) bool { return h.channel.id == v },
		"titlePattern":                 func(h *hit, v string) bool { return matches(strings.ToLower(v), h.lower) },
		"channelMonetizationAdsense":   func(h *hit, v string) bool { return is(&h.channel.adsense, v) },
		"channelMonetizationSponsored": func(h *hit, v string) bool { return is(h.channel.sponsored, v) },
		"classificationQuality":        func(h *hit, v string) bool { return !h.gaps.unclassified && h.channel.quality == v },
		"classificationIsFaceless":     func(h *hit, v string) bool { return !h.gaps.unclassified && is(h.channel.faceless, v) },
	},
	lists: map[string]func(h *hit, vs []string) bool{
		"language": func(h *hit, vs []string) bool { return slices.Contains(vs, languages[h.channel.language]) },
		"excludeKeyword": func(h *hit, vs []string) bool {
			return !slices.ContainsFunc(vs, func(v string) bool { return strings.Contains(h.lower, strings.ToLower(v)) })
		},
	},
	orders: map[string]score[*hit]{
		"views":             func(h *hit) (float64, bool) { return float64(h.views), true },
		"zScore":            func(h *hit) (float64, bool) { return h.z, !h.gaps.unscored },
		"averageViewsRatio": func(h *hit) (float64, bool) { return h.ratio, true },
		"publishedAt":       func(h *hit) (float64, bool) { return float64(h.published.Unix()), true },
		"revenue":           func(h *hit) (float64, bool) { return h.money.RevenueFrom, !h.gaps.unpriced },
		"rpm":               func(h *hit) (float64, bool) { return h.money.RPMFrom, !h.gaps.unpriced },
	},
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
