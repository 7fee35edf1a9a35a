package library

import (
	"net/url"
	"slices"
)

// Related search, by interface, GET /search/outliers/related: what resembles the
// seeds, which are not found themselves.

const (
	besides = 0.8 // a channel's further topics, if its main one is 1
	looks   = 16  // ways in which channels make thumbnails
)

// seedNames are the parameters that name seeds.
var seedNames = []string{"title", "videoId", "thumbnailVideoId", "relatedChannelId"}

// Related returns all hits that resemble a seed in p, the nearest first. Without
// a seed there is nothing to resemble, and everything is found, in no order that
// means anything.
func (x *Index) Related(p url.Values, l *Library) []*Hit {
	if !slices.ContainsFunc(seedNames, p.Has) {
		salt := Hash(l.Seed, uint64(aboutNoise))
		return seek(x.Hits, p, &hitTerms, aim[*Hit]{score: func(h *Hit) (float64, bool) { return Unit(Hash(salt, h.address())), true }})
	}
	s := x.seeds(p, l)
	resembles := best(s.scores)
	return seek(x.Hits, p, &hitTerms, aim[*Hit]{most: limitOf(p), score: func(h *Hit) (float64, bool) {
		r, ok := resembles(h)
		return r, ok && !s.has(h)
	}})
}

// seeds are what a related search starts from.
type seeds struct {
	lexical  bool
	scores   []score[*Hit] // one for each seed
	uploads  []uint64      // by address
	channels []*channel
}

func (s *seeds) has(h *Hit) bool {
	return slices.Contains(s.uploads, h.address()) || slices.Contains(s.channels, h.Channel)
}

// seeds reads the seeds in p. What the library does not know resembles nothing.
func (x *Index) seeds(p url.Values, l *Library) *seeds {
	s := &seeds{lexical: p.Get("by") == "lexical"}
	for _, title := range p["title"] {
		s.add(meaning(title, l.Seed))
	}
	for _, id := range p["videoId"] {
		if u, ok := l.find(id, x.At); ok {
			s.add(u.intent())
			s.uploads = append(s.uploads, u.address())
		}
	}
	if u, ok := l.find(p.Get("thumbnailVideoId"), x.At); ok {
		s.scores = append(s.scores, u.looksLike())
		s.uploads = append(s.uploads, u.address())
	}
	for _, id := range p["relatedChannelId"] {
		if c, ok := l.ByID[id]; ok {
			s.add(c.intent())
			s.channels = append(s.channels, c)
		}
	}
	return s
}

func (s *seeds) add(i intent) {
	if s.lexical {
		s.scores = append(s.scores, i.sharedWords)
	} else {
		s.scores = append(s.scores, i.ofHit)
	}
}

// sharedWords finds hits that have any of the words, by how many.
func (i intent) sharedWords(h *Hit) (float64, bool) {
	n := shared(i.wanted, h.words)
	return n + closeness*Unit(Hash(i.salt, h.address())), n > 0
}

// intent is to find more of the same.
func (u *Upload) intent() intent {
	i := about(u.Channel.field, u.Topic)
	i.wanted, i.salt = meantWords(words(u.title())), Hash(u.Channel.Seed, uint64(aboutNoise), u.address())
	return i
}

// intent is to find what the channel is about.
func (c *channel) intent() intent {
	i := about(c.field, c.topics[0])
	for _, t := range c.topics[1:] {
		i.topics[c.field][t] = besides
	}
	i.wanted, i.salt = meantWords(words(c.title)), Hash(c.Seed, uint64(aboutNoise), uint64(c.index))
	return i
}

// about is the intent to find a topic, and then its neighbours.
func about(niche, topic int) intent {
	i := intent{known: true, topics: make([][]float64, len(Niches))}
	for f := range Niches {
		i.topics[f] = make([]float64, len(Niches[f].Topics))
	}
	for t := range i.topics[niche] {
		i.topics[niche][t] = neighbour
	}
	i.topics[niche][topic] = named
	return i
}

// looksLike finds hits whose thumbnails are made in the same way.
func (u *Upload) looksLike() score[*Hit] {
	look, salt := u.Channel.look(), Hash(u.Channel.Seed, uint64(aboutLook), u.address())
	return func(h *Hit) (float64, bool) { return Unit(Hash(salt, h.address())), h.Channel.look() == look }
}

func (c *channel) look() uint64 {
	return Hash(c.Seed, uint64(aboutLook), uint64(c.index)) % looks
}
