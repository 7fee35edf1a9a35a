package simulator

import (
	"net/url"
	"strings"
	"time"
)

// Search, by interface, GET /search/outliers: filter, rank, cut to the nearest,
// sort, page.

// hit is one outlier in the index, with what search asks of it worked out.
type hit struct {
	entry
	sample *sample
	gaps   gaps
	title  string
	lower  string // title for patterns and excluded keywords
	words  string // title and channel for lexical queries, see [words]
	money  monetization
	income channelMonetization
}

func newHit(e *entry, s *sample) *hit {
	h := &hit{entry: *e, sample: s, gaps: e.gaps(), title: e.title()}
	h.lower = strings.ToLower(h.title)
	h.words = words(h.title + " " + s.channel.title)
	d := dice(e.channel.seed, aboutGaps, e.address(), 1)
	h.money.RPMFrom, h.money.RPMTo = chatter(d, s.channel.rpm)
	h.money.RevenueFrom = float64(e.views) / 1000 * h.money.RPMFrom
	h.money.RevenueTo = float64(e.views) / 1000 * h.money.RPMTo
	h.income = s.income()
	return h
}

// income is what the channel is thought to earn with this kind of upload.
func (s *sample) income() channelMonetization {
	d := dice(s.channel.seed, aboutChannel, uint64(s.channel.index), 1)
	m := channelMonetization{Adsense: s.channel.adsense}
	m.RPMFrom, m.RPMTo = chatter(d, s.channel.rpm)
	monthly := s.mean * s.monthly() / 1000
	m.RevenueMonthlyFrom, m.RevenueMonthlyTo = monthly*m.RPMFrom, monthly*m.RPMTo
	return m
}

func (h *hit) shape(at time.Time) hitShape {
	c := h.channel
	id := h.id()
	shape := hitShape{
		ID: id, Kind: h.kind.String(), Time: at.Format(withMillis),
		Snippet: hitSnippet{
			ChannelID: c.id, ChannelTitle: c.title, ChannelHandle: c.handle, ChannelSubscribers: h.sample.subscribers,
			Title: h.title, PublishedAt: h.published.Format(withMillis), Language: languages[c.language], Duration: h.duration,
			ChannelMonetization: &h.income,
		},
		Statistics: hitStatistics{
			ViewCount: h.views, AverageViewsRatio: h.ratio, IsPositiveOutlier: h.positive(), IsNegativeOutlier: h.negative(),
		},
	}
	shape.Statistics.CommentCount, shape.Statistics.LikeCount = h.counts(h.gaps, at)
	h.shapeGaps(&shape)
	return shape
}

// shapeGaps adds what a hit may lack.
func (h *hit) shapeGaps(shape *hitShape) {
	if !h.gaps.noThumbnails {
		shape.Snippet.Thumbnails = new(keyed(shape.ID))
	}
	if !h.gaps.unpriced {
		shape.Snippet.Monetization = &h.money
	}
	if !h.gaps.unscored {
		shape.Statistics.ZScore = &h.z
	}
	if !h.gaps.unclassified {
		shape.Classification = &classification{IsFaceless: h.channel.faceless}
		if h.channel.quality != "" {
			shape.Classification.Quality = &h.channel.quality
		}
	}
}

// nearest is how many hits a search by meaning finds at most.
const nearest = 1_000

// find returns all hits of GET /search/outliers in order.
func (x *index) find(p url.Values, seed uint64) []*hit {
	return seek(x.hits, p, &hitTerms, queried(p, seed))
}

// page is one page of what was found.
func (x *index) page(found []*hit, p url.Values, g paging) searchAnswer {
	return cutPage(found, p, g, func(h *hit) hitShape { return h.shape(x.at) })
}
