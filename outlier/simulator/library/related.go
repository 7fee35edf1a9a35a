package library

import (
	"net/url"
	"slices"
)

// Related search (interface, GET /search/outliers/related) finds what resembles the seeds,
// without the seeds themselves.

const (
	secondary       = 0.8 // weight of a channel's further topics; its main one has 1
	thumbnailStyles = 16  // number of thumbnail styles
)

// Related returns all hits that resemble a seed in p, the nearest first.
func (x *Index) Related(p url.Values, l *Library) []*Hit {
	s := x.readSeeds(p, l)
	resembles := bestScore(s.scores)
	return searchAll(x.Hits(), p, &hitTerms, target[*Hit]{most: limitOf(p), score: func(h *Hit) (float64, bool) {
		r, ok := resembles(h)
		return r, ok && !s.hasHit(h)
	}})
}

// seeds are those of one related search.
type seeds struct {
	lexical  bool
	scores   []score[*Hit] // one for each seed
	uploads  []uint64      // by address
	channels []*channel
}

func (s *seeds) hasHit(h *Hit) bool {
	return slices.Contains(s.uploads, h.address()) || slices.Contains(s.channels, h.Channel)
}

// readSeeds reads the seeds in p. Nothing resembles an unknown id.
func (x *Index) readSeeds(p url.Values, l *Library) *seeds {
	s := &seeds{lexical: p.Get("by") == "lexical"}
	for _, title := range p["title"] {
		s.addIntent(queryIntent(title, l.Seed))
	}
	for _, id := range p["videoId"] {
		if u, ok := l.findUpload(id, x.At); ok {
			s.addIntent(u.intent())
			s.uploads = append(s.uploads, u.address())
		}
	}
	if u, ok := l.findUpload(p.Get("thumbnailVideoId"), x.At); ok {
		s.scores = append(s.scores, u.sameThumbnailStyle())
		s.uploads = append(s.uploads, u.address())
	}
	for _, id := range p["relatedChannelId"] {
		if c, ok := l.ByID[id]; ok {
			s.addIntent(c.intent())
			s.channels = append(s.channels, c)
		}
	}
	return s
}

func (s *seeds) addIntent(i intent) {
	if s.lexical {
		s.scores = append(s.scores, i.sharedWords)
	} else {
		s.scores = append(s.scores, i.ofHit)
	}
}

// sharedWords finds hits with any of the words, those with the most first.
func (i intent) sharedWords(h *Hit) (float64, bool) {
	n := countShared(i.wanted, h.foldTexts().words)
	return n + closeness*Unit(Hash(i.salt, h.address())), n > 0
}

// intent is the topic and the words of the upload.
func (u *Upload) intent() intent {
	i := setOf(u.Channel.nicheIndex, u.Topic).setIntent(Hash(u.Channel.Seed, uint64(forRelevance), u.address()))
	i.wanted = meantWords(foldWords(u.makeTitle()))
	return i
}

// intent is the topics of the channel and the words of its title.
func (c *channel) intent() intent {
	i := setOf(c.nicheIndex, c.topics[0]).setIntent(Hash(c.Seed, uint64(forRelevance), uint64(c.index)))
	for _, t := range c.topics[1:] {
		i.topics[c.nicheIndex][t] = secondary
	}
	i.wanted = meantWords(foldWords(c.title))
	return i
}

// sameThumbnailStyle finds hits with thumbnails of the same style.
func (u *Upload) sameThumbnailStyle() score[*Hit] {
	style, salt := u.Channel.thumbnailStyle(), Hash(u.Channel.Seed, uint64(forThumbnails), u.address())
	return func(h *Hit) (float64, bool) {
		return Unit(Hash(salt, h.address())), h.Channel.thumbnailStyle() == style
	}
}

func (c *channel) thumbnailStyle() uint64 {
	return Hash(c.Seed, uint64(forThumbnails), uint64(c.index)) % thumbnailStyles
}
