package simulator

import (
	"net/url"
	"slices"
	"time"
)

// Channel search: GET /search/channels and GET /search/channels/related, which the
// interface names by their prices alone. Parameters and answer are those of
// services of this shape.

// channelTerms are the filters and the values of sortBy. A channel is found by one
// of its samples: the one that filterBy names, or else that of its videos.
var channelTerms = terms[*sample]{
	ranges: map[string]score[*sample]{
		"publishedAt":                func(s *sample) (float64, bool) { return seconds(s.newest), s.size > 0 },
		"averageViews":               func(s *sample) (float64, bool) { return s.mean, s.size > 0 },
		"medianViews":                func(s *sample) (float64, bool) { return s.median, s.size > 0 },
		"avgViewsToSubscribersRatio": (*sample).reach,
		"subscribers":                (*sample).audience,
		"videosCount":                func(s *sample) (float64, bool) { return float64(s.total), true },
		"viewVariationCoefficient":   (*sample).variation,
		"revenueMonthlyEstimation":   func(s *sample) (float64, bool) { return s.income().RevenueMonthlyFrom, s.size > 0 },
		"rpmEstimation":              func(s *sample) (float64, bool) { return s.income().RPMFrom, true },
		"avgDuration":                func(s *sample) (float64, bool) { return s.length, s.size > 0 && s.kind == video }, // of shorts, it is not known
	},
	choices: map[string]func(s *sample, value string) bool{
		"contentKind":              func(s *sample, v string) bool { return slices.Contains(s.channel.publishes(), forms[v]) },
		"monetizationAdsense":      func(s *sample, v string) bool { return !s.channel.gaps().noAdsense && is(&s.channel.adsense, v) },
		"classificationQuality":    func(s *sample, v string) bool { return !s.channel.gaps().unclassified && s.channel.quality == v },
		"classificationIsFaceless": func(s *sample, v string) bool { return !s.channel.gaps().unclassified && is(s.channel.faceless, v) },
	},
	lists: map[string]func(s *sample, vs []string) bool{
		"language": func(s *sample, vs []string) bool {
			return !s.channel.gaps().noLanguage && slices.Contains(vs, languages[s.channel.language])
		},
		"excludeNiche": func(s *sample, vs []string) bool { return !slices.Contains(vs, s.channel.niche.name) },
	},
	orders: map[string]score[*sample]{
		"subscribers":                (*sample).audience,
		"averageViews":               func(s *sample) (float64, bool) { return s.mean, s.size > 0 },
		"avgViewsToSubscribersRatio": (*sample).reach,
		"viewVariationCoefficient":   (*sample).variation,
		"revenueMonthly":             func(s *sample) (float64, bool) { return s.income().RevenueMonthlyFrom, s.size > 0 },
		"rpm":                        func(s *sample) (float64, bool) { return s.income().RPMFrom, true },
		"foundAt":                    func(s *sample) (float64, bool) { return seconds(s.channel.found()), true },
		"recency":                    func(s *sample) (float64, bool) { return seconds(s.newest), s.size > 0 },
	},
}

// forms are the values of contentKind, which has two names for each kind.
var forms = map[string]string{"video": "video", "long-form": "video", "short": "short", "short-form": "short"}

// audience is how many subscribers the sample's channel shows.
func (s *sample) audience() (float64, bool) {
	return float64(s.subscribers), !s.channel.gaps().subscribersHidden
}

func (s *sample) reach() (float64, bool) {
	_, known := s.audience()
	return s.viewsPerSubscriber(), known && s.size > 0
}

func (s *sample) variation() (float64, bool) { return quotient(s.deviation, s.mean), s.size > 0 }

// publishes are the kinds of uploads that the channel makes.
func (c *channel) publishes() []string {
	var kinds []string
	for k, l := range c.lines {
		if l.every != 0 {
			kinds = append(kinds, kind(k).String())
		}
	}
	return kinds
}

// found is when the service came to know the channel: in the library's first years.
func (c *channel) found() time.Time {
	years := 4 * unit(hash(c.seed, uint64(aboutFound), uint64(c.index)))
	return dawn.Add(time.Duration(years * 365 * 24 * float64(time.Hour)))
}

// channelGaps are what a search does not have of a channel.
type channelGaps struct {
	noHandle, subscribersHidden, noLanguage, noAdsense, unclassified bool
}

func (c *channel) gaps() channelGaps {
	d := dice(c.seed, aboutFound, uint64(c.index))
	return channelGaps{
		noHandle: chance(d, 0.01), subscribersHidden: chance(d, 0.03), noLanguage: chance(d, 0.03),
		noAdsense: chance(d, 0.03), unclassified: chance(d, 0.03),
	}
}

// findChannels returns the channels of GET /search/channels in order. Without a
// query, the largest come first.
func (x *index) findChannels(p url.Values, seed uint64) []*sample {
	var scores []score[*sample]
	for _, q := range p["query"] {
		scores = append(scores, meaning(q, seed).ofChannel)
	}
	if scores == nil {
		scores = append(scores, func(s *sample) (float64, bool) { return float64(s.subscribers), true })
	}
	return seek(x.samplesOf(p), p, &channelTerms, aim[*sample]{score: best(scores)})
}

// relatedChannels returns the channels that resemble others, which are not found
// themselves, the nearest first.
func (x *index) relatedChannels(p url.Values, l *library) []*sample {
	ids := p["relatedChannelId"]
	var scores []score[*sample]
	for _, id := range ids {
		if c, ok := l.byID[id]; ok {
			scores = append(scores, c.intent().ofChannel)
		}
	}
	resembles := best(scores)
	return seek(x.samplesOf(p), p, &channelTerms, aim[*sample]{score: func(s *sample) (float64, bool) {
		r, ok := resembles(s)
		return r, ok && !slices.Contains(ids, s.channel.id)
	}})
}

// samplesOf are the samples that filterBy names.
func (x *index) samplesOf(p url.Values) []*sample {
	if p.Get("filterBy") == short.String() {
		return x.samples[short]
	}
	return x.samples[video]
}

// ofChannel is how much a channel is meant, by the best of its topics.
func (i intent) ofChannel(s *sample) (best float64, found bool) {
	for _, t := range s.channel.topics {
		if r, ok := i.of(s.channel.field, t, s.words, s.address()); ok {
			best, found = max(best, r), true
		}
	}
	return best, found
}

// channelPage is one page of what was found.
func channelPage(found []*sample, p url.Values, g paging) listing[channelShape] {
	return cutPage(found, p, g, (*sample).shape)
}

func (s *sample) shape() channelShape {
	c, g := s.channel, s.channel.gaps()
	shape := channelShape{ID: c.id}
	shape.Snippet.Title, shape.Snippet.ContentKind = c.title, c.publishes()
	shape.Snippet.Handle = unless(g.noHandle, c.handle)
	shape.Statistics.Subscribers = unless(g.subscribersHidden, s.subscribers)
	shape.Statistics.AverageViews = unless(s.size == 0, s.mean)
	ratio, known := s.reach()
	shape.Statistics.AvgViewsToSubscribersRatio = unless(!known, ratio)
	shape.Language.Code = unless(g.noLanguage, languages[c.language])
	shape.Monetization.Adsense = unless(g.noAdsense, c.adsense)
	if !g.unclassified {
		shape.Classification = &classification{IsFaceless: c.faceless, Quality: unless(c.quality == "", c.quality)}
	}
	return shape
}

// unless is null if something is lacking.
func unless[T any](lacking bool, value T) *T {
	if lacking {
		return nil
	}
	return &value
}
