package library

import (
	"net/url"
	"strings"
	"sync"
	"time"
)

// Search (interface, GET /search/outliers): filter, rank, keep the nearest, sort, page.

// Hit is one outlier in the index, with the values that a search needs.
type Hit struct {
	entry
	sample *Sample
	Gaps   Gaps
	Title  string
	money  monetization
	income channelMonetization

	folding sync.Once
	folded  foldedTexts
}

// foldedTexts are the texts of a hit as searches compare them.
type foldedTexts struct {
	lower string // title for patterns and excluded keywords
	words string // title and channel for queries, see [foldWords]
}

// foldTexts folds the texts when a search first compares them. Most hits are never compared.
func (h *Hit) foldTexts() *foldedTexts {
	h.folding.Do(func() {
		h.folded = foldedTexts{lower: strings.ToLower(h.Title), words: foldWords(h.Title + " " + h.Channel.title)}
	})
	return &h.folded
}

func newHit(e *entry, s *Sample, income channelMonetization) *Hit {
	h := &Hit{entry: *e, sample: s, Gaps: e.gaps(), Title: e.makeTitle(), income: income}
	d := Random(e.Channel.Seed, forGaps, e.address(), 1)
	h.money.RPMFrom, h.money.RPMTo = estimateRange(d, s.channel.rpm)
	h.money.RevenueFrom = float64(e.Views) / 1000 * h.money.RPMFrom
	h.money.RevenueTo = float64(e.Views) / 1000 * h.money.RPMTo
	return h
}

// estimateIncome is the estimated income of the channel with this kind of upload.
func (s *Sample) estimateIncome() channelMonetization {
	d := Random(s.channel.Seed, forChannel, uint64(s.channel.index), 1)
	m := channelMonetization{Adsense: s.channel.adsense}
	m.RPMFrom, m.RPMTo = estimateRange(d, s.channel.rpm)
	monthly := s.mean * s.monthlyUploads() / 1000
	m.RevenueMonthlyFrom, m.RevenueMonthlyTo = monthly*m.RPMFrom, monthly*m.RPMTo
	return m
}

// Shape is the hit in an answer.
func (h *Hit) Shape(at time.Time) HitShape {
	c := h.Channel
	id := h.ID()
	shape := HitShape{
		ID: id, Kind: h.Kind.String(), Time: at.Format(WithMillis),
		Snippet: hitSnippet{
			ChannelID: c.ID, ChannelTitle: c.title, ChannelHandle: c.handle,
			ChannelSubscribers: h.sample.subscribers, ChannelMonetization: &h.income,
			Title: h.Title, PublishedAt: h.Published.Format(WithMillis), Language: languages[c.language],
			Duration: h.duration,
		},
		Statistics: hitStatistics{
			ViewCount: h.Views, AverageViewsRatio: h.ratio,
			IsPositiveOutlier: h.isPositive(), IsNegativeOutlier: h.isNegative(),
		},
	}
	shape.Statistics.CommentCount, shape.Statistics.LikeCount = h.hiddenCounts(h.Gaps, at)
	shape.Snippet.Thumbnails = orNull(h.Gaps.noThumbnails, frameSizes(id))
	shape.Snippet.Monetization = orNull(h.Gaps.unpriced, h.money)
	shape.Statistics.ZScore = orNull(h.Gaps.unscored, h.z)
	shape.Classification = orNull(h.Gaps.unclassified, c.classification())
	return shape
}

// nearest is how many hits a semantic search finds at most.
const nearest = 1_000

// Find returns all hits of GET /search/outliers in order.
func (x *Index) Find(p url.Values, seed uint64) []*Hit {
	wanted, niches := queryTarget(p, seed)
	return searchAll(x.hitsOf(niches), p, &hitTerms, wanted)
}
