package library

import (
	"net/url"
	"slices"
	"time"
)

// Channel search: GET /search/channels and GET /search/channels/related. The interface
// documents only their prices. Parameters and answer are those of similar services.

// subscriberCount is how many subscribers the channel shows.
func (s *Sample) subscriberCount() (float64, bool) {
	return float64(s.subscribers), !s.channel.gaps().subscribersHidden
}

func (s *Sample) viewsRatio() (float64, bool) {
	_, known := s.subscriberCount()
	return s.viewsPerSubscriber(), known && s.size > 0
}

// uploadKinds are the kinds of uploads that the channel has.
func (c *channel) uploadKinds() []string {
	var kinds []string
	for k, l := range c.schedules {
		if l.every != 0 {
			kinds = append(kinds, Kind(k).String())
		}
	}
	return kinds
}

// firstSeen is when the service first saw the channel: in the library's first four years.
func (c *channel) firstSeen() time.Time {
	years := 4 * Unit(Hash(c.Seed, uint64(forDiscovery), uint64(c.index)))
	return Beginning.Add(time.Duration(years * 365 * 24 * float64(time.Hour)))
}

// channelGaps says which fields of a channel a search leaves out.
type channelGaps struct {
	noHandle, subscribersHidden, noLanguage, noAdsense, unclassified bool
}

func (c *channel) gaps() channelGaps {
	d := Random(c.Seed, forDiscovery, uint64(c.index))
	return channelGaps{
		noHandle: Chance(d, 0.01), subscribersHidden: Chance(d, 0.03), noLanguage: Chance(d, 0.03),
		noAdsense: Chance(d, 0.03), unclassified: Chance(d, 0.03),
	}
}

// FindChannels returns the channels of GET /search/channels in order. Without a
// query, the largest come first.
func (x *Index) FindChannels(p url.Values, seed uint64) []*Sample {
	if len(p["query"]) == 0 {
		largest := func(s *Sample) (float64, bool) { return float64(s.subscribers), true }
		return searchAll(x.samplesOf(p, anyNiche), p, &channelTerms, target[*Sample]{score: largest})
	}
	intents := queryIntents(p, seed)
	var scores []score[*Sample]
	for _, i := range intents {
		scores = append(scores, i.ofChannel)
	}
	return searchAll(x.samplesOf(p, nichesOf(intents)), p, &channelTerms, target[*Sample]{score: bestScore(scores)})
}

// RelatedChannels returns the channels that resemble those in p, the nearest first. It leaves
// out those in p.
func (x *Index) RelatedChannels(p url.Values, l *Library) []*Sample {
	ids := p["relatedChannelId"]
	var scores []score[*Sample]
	for _, id := range ids {
		if c, ok := l.ByID[id]; ok {
			scores = append(scores, c.intent().ofChannel)
		}
	}
	resembles := bestScore(scores)
	return searchAll(x.samplesOf(p, anyNiche), p, &channelTerms, target[*Sample]{score: func(s *Sample) (float64, bool) {
		r, ok := resembles(s)
		return r, ok && !slices.Contains(ids, s.channel.ID)
	}})
}

// samplesOf are the samples of some niches that filterBy names.
func (x *Index) samplesOf(p url.Values, niches func(niche int) bool) (samples []*Sample) {
	kind := Video
	if p.Get("filterBy") == Short.String() {
		kind = Short
	}
	for _, c := range x.channelsOf(niches) {
		samples = append(samples, c.samples[kind])
	}
	return samples
}

// ofChannel is how well a channel matches, by the best of its topics.
func (i intent) ofChannel(s *Sample) (best float64, found bool) {
	for _, t := range s.channel.topics {
		if r, ok := i.scoreOf(s.channel.nicheIndex, t, func() string { return s.words }, s.address()); ok {
			best, found = max(best, r), true
		}
	}
	return best, found
}

// Shape is the channel in the form of an answer.
func (s *Sample) Shape() ChannelShape {
	c, g := s.channel, s.channel.gaps()
	shape := ChannelShape{ID: c.ID}
	shape.Snippet.Title, shape.Snippet.ContentKind = c.title, c.uploadKinds()
	shape.Snippet.Handle = orNull(g.noHandle, c.handle)
	shape.Statistics.Subscribers = orNull(g.subscribersHidden, s.subscribers)
	shape.Statistics.AverageViews = orNull(s.size == 0, s.mean)
	ratio, known := s.viewsRatio()
	shape.Statistics.AvgViewsToSubscribersRatio = orNull(!known, ratio)
	shape.Language.Code = orNull(g.noLanguage, languages[c.language])
	shape.Monetization.Adsense = orNull(g.noAdsense, c.adsense)
	shape.Classification = orNull(g.unclassified, c.classification())
	return shape
}

// orNull returns a pointer to the value, or nil if the value is lacking.
func orNull[T any](lacking bool, value T) *T {
	if lacking {
		return nil
	}
	return &value
}
