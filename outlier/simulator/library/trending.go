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
	fresh := slices.DeleteFunc(x.Hits(), func(h *Hit) bool { return !h.Published.After(x.At.Add(-week)) })
	slices.SortStableFunc(fresh, func(g, h *Hit) int { return cmp.Compare(h.ratio, g.ratio) })
	all := []Format{}
	for language, v := range phrasesOf {
		for _, template := range slices.Concat(v.titles, v.shorts) {
			pattern := strings.ReplaceAll(placeholder.ReplaceAllString(template, "*")+"*", "**", "*")
			f := Format{Pattern: pattern, Language: languages[language], Examples: []string{}}
			for _, h := range fresh {
				if h.Channel.language != language || !matchesPattern(strings.ToLower(pattern), h.lower) {
					continue
				}
				if f.Outliers++; f.Outliers <= maxExamples {
					f.Examples = append(f.Examples, h.ID())
				}
			}
			if f.Outliers > 0 {
				all = append(all, f)
			}
		}
	}
	slices.SortStableFunc(all, func(f, g Format) int { return cmp.Compare(g.Outliers, f.Outliers) })
	return all[:min(MaxFormats, len(all))]
}

// placeholder is a placeholder of a template; see [phrases].
var placeholder = regexp.MustCompile(`\{[tna]\}`)
