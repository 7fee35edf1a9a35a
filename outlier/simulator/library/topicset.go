package library

import (
	"math/bits"
	"slices"
)

// TopicSet is a set of topics of all niches, one bit each.
type TopicSet uint64

// setOf is the set of one topic.
func setOf(niche, topic int) TopicSet { return 1 << TopicPlace(niche, topic) }

func (s TopicSet) hasTopic(niche, topic int) bool { return s&setOf(niche, topic) != 0 }

// TopicsOf returns the topics that match the queries, or the topics of the channels with these ids.
func (l *Library) TopicsOf(query []string, channels bool) (topics TopicSet) {
	for _, q := range query {
		c, known := l.ByID[q]
		switch {
		case !channels:
			topics |= meantTopics(q)
		case known:
			for _, t := range c.topics {
				topics |= setOf(c.nicheIndex, t)
			}
		}
	}
	return topics
}

// meantTopics returns the topics that match a query best, in each niche that matches.
func meantTopics(query string) (topics TopicSet) {
	for f, scores := range queryIntent(query, 0).topics {
		for t, score := range scores {
			if score >= enough && score == slices.Max(scores) {
				topics |= setOf(f, t)
			}
		}
	}
	return topics
}

// TopicPlace numbers the topics of all niches.
func TopicPlace(niche, topic int) int {
	for f := range niche {
		topic += len(Niches[f].Topics)
	}
	return topic
}

// Names are the English names of the topics.
func (s TopicSet) Names() []string {
	names := make([]string, 0, bits.OnesCount64(uint64(s)))
	for f := range Niches {
		for t := range Niches[f].Topics {
			if s.hasTopic(f, t) {
				names = append(names, Niches[f].Topics[t].Names[0])
			}
		}
	}
	return names
}

// setIntent returns the intent to find the topics of the set, and then the others of their niches.
func (s TopicSet) setIntent(salt uint64) intent {
	i := intent{known: s != 0, salt: salt, topics: make([][]float64, len(Niches))}
	for f := range Niches {
		n := len(Niches[f].Topics)
		i.topics[f] = make([]float64, n)
		inNiche := s >> TopicPlace(f, 0) & (1<<n - 1)
		for t := range n {
			switch {
			case s.hasTopic(f, t):
				i.topics[f][t] = named
			case inNiche != 0:
				i.topics[f][t] = neighbour
			}
		}
	}
	return i
}

// Nearest is an index of at most the given number of outliers, those nearest to the topics.
// The salt decides between equally near ones.
func (x *Index) Nearest(topics TopicSet, salt uint64, most int) *Index {
	nearby := x.byDistance(topics, salt)
	return &Index{At: x.At, results: nearby[:min(most, len(nearby))]}
}

// NearestChannels is an index of all outliers of at most the given number of channels, those
// nearest to the topics.
func (x *Index) NearestChannels(topics TopicSet, salt uint64, most int) *Index {
	nearby := x.byDistance(topics, salt)
	found := map[*channel]bool{}
	for _, h := range nearby {
		if len(found) < most {
			found[h.Channel] = true
		}
	}
	return &Index{At: x.At, results: slices.DeleteFunc(nearby, func(h *Hit) bool { return !found[h.Channel] })}
}

// byDistance returns all outliers, those nearest to the topics first.
func (x *Index) byDistance(topics TopicSet, salt uint64) []*Hit {
	i := topics.setIntent(salt)
	return nearestFirst(x.Hits(), nil, target[*Hit]{score: func(h *Hit) (float64, bool) {
		r, _ := i.ofHit(h)
		return r, true
	}})
}
