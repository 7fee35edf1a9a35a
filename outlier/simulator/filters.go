package simulator

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// filters are the common filters of one request (interface, Common filters).
type filters []func(*hit) bool

func (f filters) all(h *hit) bool {
	for _, keeps := range f {
		if !keeps(h) {
			return false
		}
	}
	return true
}

// ranges are the filters that come as <name>From and <name>To, both inclusive.
// A hit that lacks the value passes neither.
var ranges = map[string]func(*hit) (float64, bool){
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
}

// choices are the filters with a value that a hit has or has not.
var choices = map[string]func(h *hit, value string) bool{
	"type":                         func(h *hit, v string) bool { return h.kind.String() == v },
	"channelId":                    func(h *hit, v string) bool { return h.channel.id == v },
	"titlePattern":                 func(h *hit, v string) bool { return matches(strings.ToLower(v), h.lower) },
	"referenceId":                  func(*hit, string) bool { return false }, // the hits of a scan, and there are no scans
	"channelMonetizationAdsense":   func(h *hit, v string) bool { return is(&h.channel.adsense, v) },
	"channelMonetizationSponsored": func(h *hit, v string) bool { return is(h.channel.sponsored, v) },
	"classificationQuality":        func(h *hit, v string) bool { return !h.gaps.unclassified && h.channel.quality == v },
	"classificationIsFaceless":     func(h *hit, v string) bool { return !h.gaps.unclassified && is(h.channel.faceless, v) },
}

// lists are the filters with several values.
var lists = map[string]func(h *hit, values []string) bool{
	"language": func(h *hit, vs []string) bool { return slices.Contains(vs, languages[h.channel.language]) },
	"excludeKeyword": func(h *hit, vs []string) bool {
		return !slices.ContainsFunc(vs, func(v string) bool { return strings.Contains(h.lower, strings.ToLower(v)) })
	},
}

// filtersOf reads the filters of a request that has passed the rules.
func filtersOf(p url.Values) filters {
	var f filters
	for name, value := range ranges {
		if p.Has(name + "From") {
			from := number(p.Get(name + "From"))
			f = append(f, func(h *hit) bool { v, ok := value(h); return ok && v >= from })
		}
		if p.Has(name + "To") {
			to := number(p.Get(name + "To"))
			f = append(f, func(h *hit) bool { v, ok := value(h); return ok && v <= to })
		}
	}
	for name, keeps := range choices {
		if p.Has(name) {
			f = append(f, func(h *hit) bool { return keeps(h, p.Get(name)) })
		}
	}
	for name, keeps := range lists {
		if p.Has(name) {
			f = append(f, func(h *hit) bool { return keeps(h, p[name]) })
		}
	}
	return f
}

// number reads a number or a date-time, as seconds.
func number(s string) float64 {
	if at, ok := moment(s); ok {
		return seconds(at)
	}
	n, _ := strconv.ParseFloat(s, 64) // the rules let nothing else through
	return n
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func is(b *bool, value string) bool { return b != nil && *b == (value == "true") }

// matches tells whether s has the form of a pattern, in which * is any text.
func matches(pattern, s string) bool {
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
