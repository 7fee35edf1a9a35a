package simulator

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Search, by interface, GET /search/outliers: filter, rank, cut to the nearest,
// sort, page.

const (
	maxTotal    = 10_000 // pagination.total counts no further
	nearest     = 1_000  // how many hits a semantic query finds at most
	defaultSize = 20
)

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

// ranked is a hit with its place: more relevant hits come first.
type ranked struct {
	*hit
	relevance float64
}

// search answers one page. The parameters have passed the rules.
func (l *library) search(p url.Values, items bool, now time.Time) searchAnswer {
	x := l.index(now)
	found := x.find(p, l.seed)
	from, size := integerOf(p, "from", 0), int(integerOf(p, "size", defaultSize))
	skip := from
	if !items {
		skip = from * int64(size)
	}
	a := searchAnswer{
		Pagination: pagination{Total: min(len(found), maxTotal), From: from, Size: size},
		Hits:       []hitShape{},
	}
	for _, h := range found[min(skip, int64(len(found))):] {
		if len(a.Hits) == size {
			break
		}
		a.Hits = append(a.Hits, h.shape(x.at))
	}
	return a
}

func integerOf(p url.Values, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(p.Get(name), 10, 64)
	if err != nil { // absent; the rules let nothing else through
		return otherwise
	}
	return n
}

// find returns all hits in order.
func (x *index) find(p url.Values, seed uint64) []ranked {
	keep := filtersOf(p)
	relevance := relevanceOf(p, seed)
	var found []ranked
	for _, h := range x.hits {
		if !keep.all(h) {
			continue
		}
		if r, ok := relevance(h); ok {
			found = append(found, ranked{h, r})
		}
	}
	slices.SortFunc(found, byRelevance)
	if semantic(p) && len(found) > nearest {
		found = found[:nearest]
	}
	if p.Has("seed") {
		shuffle(found, hashText(p.Get("seed")))
	}
	if value, ok := orders[p.Get("sortBy")]; ok {
		slices.SortStableFunc(found, by(value, p.Get("sortOrder") == "asc"))
	}
	return found
}

func semantic(p url.Values) bool { return p.Has("query") && p.Get("by") != "lexical" }

func byRelevance(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.relevance, a.relevance), cmp.Compare(a.address(), b.address()))
}

func shuffle(found []ranked, seed uint64) {
	slices.SortFunc(found, func(a, b ranked) int {
		return cmp.Compare(hash(seed, a.address()), hash(seed, b.address()))
	})
}

// orders are the values of sortBy; ok is false for a hit that lacks the value.
var orders = map[string]func(*hit) (float64, bool){
	"views":             func(h *hit) (float64, bool) { return float64(h.views), true },
	"zScore":            func(h *hit) (float64, bool) { return h.z, !h.gaps.unscored },
	"averageViewsRatio": func(h *hit) (float64, bool) { return h.ratio, true },
	"publishedAt":       func(h *hit) (float64, bool) { return float64(h.published.Unix()), true },
	"revenue":           func(h *hit) (float64, bool) { return h.money.RevenueFrom, !h.gaps.unpriced },
	"rpm":               func(h *hit) (float64, bool) { return h.money.RPMFrom, !h.gaps.unpriced },
}

// by sorts hits without the value last. The interface does not show the default
// of sortOrder; here it is desc.
func by(value func(*hit) (float64, bool), ascending bool) func(a, b ranked) int {
	return func(a, b ranked) int {
		va, oka := value(a.hit)
		vb, okb := value(b.hit)
		if !oka || !okb {
			return count(!oka) - count(!okb)
		}
		if ascending {
			return cmp.Compare(va, vb)
		}
		return cmp.Compare(vb, va)
	}
}
