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
	Pattern  string   `json:"pattern"` // in the form of titlePattern
	Language string   `json:"language"`
	Outliers int      `json:"outliers"` // of the week
	Examples []string `json:"examples"` // ids of videos, the largest ratios first
}

const (
	MaxFormats  = 20 // the most that are trending
	maxExamples = 3
	week        = 7 * 24 * time.Hour
)

// TrendingFormats are the formats of the day, the most frequent first.
func (l *Library) TrendingFormats(now time.Time) []Format {
	x := l.Index(now.Truncate(24 * time.Hour))
	fresh := make([][]*Hit, len(languages)) // of the week, by language
	for _, h := range x.Hits() {
		if h.Published.After(x.At.Add(-week)) {
			fresh[h.Channel.language] = append(fresh[h.Channel.language], h)
		}
	}
	all := []Format{}
	for language, v := range phrasesOf {
		for _, template := range slices.Concat(v.titles, v.shorts) {
			if f := formatOf(template, fresh[language]); f.Outliers > 0 {
				f.Language = languages[language]
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(f, g Format) int { return cmp.Compare(g.Outliers, f.Outliers) })
	return all[:min(MaxFormats, len(all))]
}

// placeholder is a placeholder of a template; see [phrases].
var placeholder = regexp.MustCompile(`\{[tna]\}`)

// formatOf counts the titles of a template among hits.
func formatOf(template string, hits []*Hit) Format {
	pattern := strings.ReplaceAll(placeholder.ReplaceAllString(template, "*")+"*", "**", "*")
	wanted := strings.ToLower(pattern)
	hits = slices.DeleteFunc(slices.Clone(hits), func(h *Hit) bool { return !matchesPattern(wanted, h.foldTexts().lower) })
	slices.SortStableFunc(hits, func(g, h *Hit) int { return cmp.Compare(h.ratio, g.ratio) })
	f := Format{Pattern: pattern, Outliers: len(hits), Examples: []string{}}
	for _, h := range hits[:min(maxExamples, len(hits))] {
		f.Examples = append(f.Examples, h.ID())
	}
	return f
}
