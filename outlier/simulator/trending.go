package simulator

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trending formats: GET /search/trending-formats, of which nothing but the price is
// known. The answer is one that a service of this shape might give, anew each day:
// the forms of titles under which most outliers came out in the week before.

// format is a form of titles.
type format struct {
	Pattern  string          `json:"pattern"` // as of titlePattern
	Language string          `json:"language"`
	Outliers momentum        `json:"outliers"`
	Niches   []string        `json:"niches"`
	Examples []formatExample `json:"examples"` // the largest ratios first
}

// momentum counts the outliers of two weeks.
type momentum struct {
	Week       int      `json:"week"`
	WeekBefore int      `json:"weekBefore"`
	Growth     *float64 `json:"growth"` // null if there was none in the week before
}

type formatExample struct {
	VideoID string        `json:"videoId"`
	Title   string        `json:"title"`
	Kind    string        `json:"kind"`
	Scores  exampleScores `json:"scores"`
}

type exampleScores struct {
	ZScore            *float64 `json:"zScore"`
	AverageViewsRatio float64  `json:"averageViewsRatio"`
}

const (
	maxFormats  = 20
	maxExamples = 3
	week        = 7 * 24 * time.Hour
)

// trendingFormats are those of the day, the most frequent first.
func (l *library) trendingFormats(now time.Time) []format {
	x := l.index(now.Truncate(24 * time.Hour))
	fresh := make([][]*hit, len(languages)) // of two weeks, by language
	for _, h := range x.hits {
		if h.published.After(x.at.Add(-2 * week)) {
			fresh[h.channel.language] = append(fresh[h.channel.language], h)
		}
	}
	all := []format{}
	for language, v := range voices {
		for _, template := range slices.Concat(v.titles, v.shorts) {
			if f := formatOf(template, fresh[language], x.at); f.Outliers.Week > 0 {
				f.Language = languages[language]
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(f, g format) int { return cmp.Compare(g.Outliers.Week, f.Outliers.Week) })
	return all[:min(maxFormats, len(all))]
}

// placeholder is a part of a template that titles fill in, see [voice].
var placeholder = regexp.MustCompile(`\{[tna]\}`)

// formatOf is what became of a template of titles among hits of two weeks.
func formatOf(template string, hits []*hit, at time.Time) format {
	f := format{Pattern: placeholder.ReplaceAllString(template, "*") + "*", Niches: []string{}, Examples: []formatExample{}}
	f.Pattern = strings.ReplaceAll(f.Pattern, "**", "*")
	wanted := strings.ToLower(f.Pattern)
	hits = slices.DeleteFunc(slices.Clone(hits), func(h *hit) bool { return !matches(wanted, h.lower) })
	slices.SortStableFunc(hits, func(g, h *hit) int { return cmp.Compare(h.ratio, g.ratio) })
	for _, h := range hits {
		f.add(h, at)
	}
	if f.Outliers.WeekBefore > 0 {
		f.Outliers.Growth = new(float64(f.Outliers.Week)/float64(f.Outliers.WeekBefore) - 1)
	}
	return f
}

// add counts a hit in.
func (f *format) add(h *hit, at time.Time) {
	if !h.published.After(at.Add(-week)) {
		f.Outliers.WeekBefore++
		return
	}
	f.Outliers.Week++
	if !slices.Contains(f.Niches, h.channel.niche.name) {
		f.Niches = append(f.Niches, h.channel.niche.name)
	}
	if len(f.Examples) < maxExamples {
		scores := exampleScores{unless(h.gaps.unscored, h.z), h.ratio}
		f.Examples = append(f.Examples, formatExample{h.id(), h.title, h.kind.String(), scores})
	}
}
