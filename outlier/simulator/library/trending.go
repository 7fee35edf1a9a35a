package library

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trending formats: GET /search/trending-formats, of which the interface documents only the
// price. The answer is one that a similar service might give. It changes daily.

// Format is a title pattern.
type Format struct {
	Pattern  string `json:"pattern"` // in the form of titlePattern
	Language string `json:"language"`
	Outliers int    `json:"outliers"`
}

// MaxFormats is the most that are trending.
const MaxFormats = 20

// TrendingFormats are the formats of the day, the most frequent first.
func (l *Library) TrendingFormats(now time.Time) (all []Format) {
	d := Random(l.Seed, forFormats, uint64(now.Unix()/(24*60*60)))
	for language, v := range phrasesOf {
		for _, template := range slices.Concat(v.titles, v.shorts) {
			pattern := strings.ReplaceAll(placeholder.ReplaceAllString(template, "*")+"*", "**", "*")
			all = append(all, Format{pattern, languages[language], 1 + d.IntN(50)})
		}
	}
	slices.SortStableFunc(all, func(f, g Format) int { return cmp.Compare(g.Outliers, f.Outliers) })
	return all[:MaxFormats]
}

// placeholder is a placeholder of a template; see [phrases].
var placeholder = regexp.MustCompile(`\{[tna]\}`)
