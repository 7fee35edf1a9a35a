package library

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entity is a type of things that have filters.
type entity interface {
	*Hit | *Sample
	thing
}

// score is a value of a T, or how well it matches; ok is false for a T that lacks the value,
// or does not match.
type score[T thing] func(T) (value float64, ok bool)

// terms are the filters and orders of a T (interface, Common filters). A T that lacks a value
// passes no filter on it, and is sorted last.
type terms[T entity] struct {
	numbers map[string]score[T] // between <name>From and <name>To, both inclusive, or only for orders
	others  map[string]func(v T, values []string) bool
	orders  map[string]string // from values of sortBy to numbers
}

// readFilters reads the filters of a request. Its parameters have been checked.
func (t *terms[T]) readFilters(p url.Values) (passes func(T) bool) {
	var all []func(T) bool
	for name, value := range t.numbers {
		if p.Has(name + "From") {
			from := readNumber(p.Get(name + "From"))
			all = append(all, func(v T) bool { x, ok := value(v); return ok && x >= from })
		}
		if p.Has(name + "To") {
			to := readNumber(p.Get(name + "To"))
			all = append(all, func(v T) bool { x, ok := value(v); return ok && x <= to })
		}
	}
	for name, keeps := range t.others {
		if p.Has(name) {
			all = append(all, func(v T) bool { return keeps(v, p[name]) })
		}
	}
	return func(v T) bool { return !slices.ContainsFunc(all, func(keeps func(T) bool) bool { return !keeps(v) }) }
}

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
		"channelVideoCount":                 func(h *Hit) (float64, bool) { return float64(h.sample.count), true },
		"channelAvgViewsToSubscribersRatio": func(h *Hit) (float64, bool) { return h.sample.viewsPerSubscriber(), true },
		"rpmEstimation":                     func(h *Hit) (float64, bool) { return h.rpm.from, !h.Gaps.unpriced },
		"revenueEstimation":                 func(h *Hit) (float64, bool) { return h.revenue().from, !h.Gaps.unpriced },
	},
	others: map[string]func(v *Hit, values []string) bool{
		"type":      func(h *Hit, vs []string) bool { return h.Kind.String() == vs[0] },
		"channelId": func(h *Hit, vs []string) bool { return h.Channel.ID == vs[0] },
		"titlePattern": func(h *Hit, vs []string) bool {
			return matchesPattern(strings.ToLower(vs[0]), h.lower)
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
			has := func(v string) bool { return strings.Contains(h.lower, strings.ToLower(v)) }
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
		"publishedAt":                func(s *Sample) (float64, bool) { return seconds(s.newest), s.count > 0 },
		"averageViews":               func(s *Sample) (float64, bool) { return s.mean, s.count > 0 },
		"medianViews":                func(s *Sample) (float64, bool) { return s.median, s.count > 0 },
		"avgViewsToSubscribersRatio": (*Sample).viewsRatio,
		"subscribers":                (*Sample).subscriberCount,
		"videosCount":                func(s *Sample) (float64, bool) { return float64(s.total), true },
		"viewVariationCoefficient":   func(s *Sample) (float64, bool) { return s.variation(), s.count > 0 },
		"revenueMonthlyEstimation":   func(s *Sample) (float64, bool) { return s.monthlyRevenue().from, s.count > 0 },
		"rpmEstimation":              func(s *Sample) (float64, bool) { return s.rpm.from, true },
		"foundAt":                    func(s *Sample) (float64, bool) { return seconds(s.channel.firstSeen()), true },
		// Unknown for shorts.
		"avgDuration": func(s *Sample) (float64, bool) { return s.length, s.count > 0 && s.kind == Video },
	},
	others: map[string]func(v *Sample, values []string) bool{
		"contentKind": func(s *Sample, vs []string) bool {
			return slices.Contains(s.channel.uploadKinds(), forms[vs[0]])
		},
		"monetizationAdsense": func(s *Sample, vs []string) bool {
			return !s.channel.gaps.noAdsense && equalsFlag(&s.channel.adsense, vs[0])
		},
		"classificationQuality": func(s *Sample, vs []string) bool {
			return !s.channel.gaps.unclassified && s.channel.quality == vs[0]
		},
		"classificationIsFaceless": func(s *Sample, vs []string) bool {
			return !s.channel.gaps.unclassified && equalsFlag(s.channel.faceless, vs[0])
		},
		"language": func(s *Sample, vs []string) bool {
			return !s.channel.gaps.noLanguage && slices.Contains(vs, languages[s.channel.language])
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

// subscriberCount is how many subscribers the channel shows.
func (s *Sample) subscriberCount() (float64, bool) {
	return float64(s.subscribers), !s.channel.gaps.subscribersHidden
}

func (s *Sample) viewsRatio() (float64, bool) {
	return s.viewsPerSubscriber(), !s.channel.gaps.subscribersHidden && s.count > 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// orderBy sorts a T that lacks the value last. The interface does not document the default of
// sortOrder; here it is desc.
func orderBy[T entity](value score[T], ascending bool) func(v, w T) int {
	return func(v, w T) int {
		x, okx := value(v)
		y, oky := value(w)
		if !okx || !oky {
			return countTrue(!okx) - countTrue(!oky)
		}
		if ascending {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	}
}

// readNumber reads a number or a date-time, as seconds.
func readNumber(s string) float64 {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return seconds(at)
	}
	n, _ := strconv.ParseFloat(s, 64) // nothing else is allowed
	return n
}

func equalsFlag(b *bool, value string) bool { return b != nil && *b == (value == "true") }

// matchesPattern reports whether s matches a pattern in which * is any text.
func matchesPattern(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok || len(parts) == 1 {
		return ok && s == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(s, part)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, parts[last])
}
