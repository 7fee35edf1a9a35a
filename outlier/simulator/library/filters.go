package library

import (
	"slices"
	"strings"
	"time"
)

// hitTerms are the common filters and the values of sortBy (interface, Common filters and
// GET /search/outliers), except for referenceId, which selects the index.
var hitTerms = terms[*Hit]{
	ranges: map[string]score[*Hit]{
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
	choices: map[string]func(h *Hit, value string) bool{
		"type":                         func(h *Hit, v string) bool { return h.Kind.String() == v },
		"channelId":                    func(h *Hit, v string) bool { return h.Channel.ID == v },
		"titlePattern":                 func(h *Hit, v string) bool { return matchesPattern(strings.ToLower(v), h.foldTexts().lower) },
		"channelMonetizationAdsense":   func(h *Hit, v string) bool { return equalsFlag(&h.Channel.adsense, v) },
		"channelMonetizationSponsored": func(h *Hit, v string) bool { return equalsFlag(h.Channel.sponsored, v) },
		"classificationQuality":        func(h *Hit, v string) bool { return !h.Gaps.unclassified && h.Channel.quality == v },
		"classificationIsFaceless":     func(h *Hit, v string) bool { return !h.Gaps.unclassified && equalsFlag(h.Channel.faceless, v) },
	},
	lists: map[string]func(h *Hit, vs []string) bool{
		"language": func(h *Hit, vs []string) bool { return slices.Contains(vs, languages[h.Channel.language]) },
		"excludeKeyword": func(h *Hit, vs []string) bool {
			has := func(v string) bool { return strings.Contains(h.foldTexts().lower, strings.ToLower(v)) }
			return !slices.ContainsFunc(vs, has)
		},
	},
	orders: map[string]score[*Hit]{
		"views":             func(h *Hit) (float64, bool) { return float64(h.Views), true },
		"zScore":            func(h *Hit) (float64, bool) { return h.z, !h.Gaps.unscored },
		"averageViewsRatio": func(h *Hit) (float64, bool) { return h.ratio, true },
		"publishedAt":       func(h *Hit) (float64, bool) { return float64(h.Published.Unix()), true },
		"revenue":           func(h *Hit) (float64, bool) { return h.money.RevenueFrom, !h.Gaps.unpriced },
		"rpm":               func(h *Hit) (float64, bool) { return h.money.RPMFrom, !h.Gaps.unpriced },
	},
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
