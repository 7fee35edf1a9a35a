package library

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trending formats: GET /search/trending-formats, of which the interface documents only the
// price. The answer is one that a similar service might give. It changes daily: the title
// patterns with the most outliers in the week before.

// Format is a title pattern.
type Format struct {
	Pattern  string          `json:"pattern"` // in the form of titlePattern
	Language string          `json:"language"`
	Outliers weeks           `json:"outliers"`
	Niches   []string        `json:"niches"`
	Examples []formatExample `json:"examples"` // the largest ratios first
}

// weeks counts the outliers of two weeks.
type weeks struct {
	Week       int      `json:"week"`
	WeekBefore int      `json:"weekBefore"`
	Growth     *float64 `json:"growth"` // null if the week before had none
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
	MaxFormats  = 20 // the most that are trending
	maxExamples = 3
	week        = 7 * 24 * time.Hour
)

// TrendingFormats are the formats of the day, the most frequent first.
func (l *Library) TrendingFormats(now time.Time) []Format {
	x := l.Index(now.Truncate(24 * time.Hour))
	fresh := make([][]*Hit, len(languages)) // of two weeks, by language
	for _, h := range x.Hits() {
		if h.Published.After(x.At.Add(-2 * week)) {
			fresh[h.Channel.language] = append(fresh[h.Channel.language], h)
		}
	}
	all := []Format{}
	for language, v := range phrasesOf {
		for _, template := range slices.Concat(v.titles, v.shorts) {
			if f := formatOf(template, fresh[language], x.At); f.Outliers.Week > 0 {
				f.Language = languages[language]
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(f, g Format) int { return cmp.Compare(g.Outliers.Week, f.Outliers.Week) })
	return all[:min(MaxFormats, len(all))]
}

// placeholder is a placeholder of a template; see [phrases].
var placeholder = regexp.MustCompile(`\{[tna]\}`)

// formatOf counts the titles of a template among hits of two weeks.
func formatOf(template string, hits []*Hit, at time.Time) Format {
	pattern := strings.ReplaceAll(placeholder.ReplaceAllString(template, "*")+"*", "**", "*")
	f := Format{Pattern: pattern, Niches: []string{}, Examples: []formatExample{}}
	wanted := strings.ToLower(f.Pattern)
	hits = slices.DeleteFunc(slices.Clone(hits), func(h *Hit) bool { return !matchesPattern(wanted, h.foldTexts().lower) })
	slices.SortStableFunc(hits, func(g, h *Hit) int { return cmp.Compare(h.ratio, g.ratio) })
	for _, h := range hits {
		f.addHit(h, at)
	}
	if f.Outliers.WeekBefore > 0 {
		f.Outliers.Growth = new(float64(f.Outliers.Week)/float64(f.Outliers.WeekBefore) - 1)
	}
	return f
}

// addHit counts a hit.
func (f *Format) addHit(h *Hit, at time.Time) {
	if !h.Published.After(at.Add(-week)) {
		f.Outliers.WeekBefore++
		return
	}
	f.Outliers.Week++
	if !slices.Contains(f.Niches, h.Channel.Niche.Name) {
		f.Niches = append(f.Niches, h.Channel.Niche.Name)
	}
	if len(f.Examples) < maxExamples {
		scores := exampleScores{orNull(h.Gaps.unscored, h.z), h.ratio}
		f.Examples = append(f.Examples, formatExample{h.ID(), h.Title, h.Kind.String(), scores})
	}
}
