package library

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Searches (interface, GET /search/outliers and /search/outliers/related; that of channels is documented by its
// price alone): filter, rank, keep the nearest, sort.

// thing is what a search finds: an outlier, or a channel by one of its samples.
type thing interface {
	address() uint64 // identifies it in the library
	maker() *channel
	about() []Topic
	words() string // its texts, see [foldWords]
	size() float64 // the order of a search for nothing
}

// Hit is one outlier in the index, with the values that a search needs.
type Hit struct {
	entry
	sample *Sample
	Gaps   Gaps
	Title  string
	lower  string // title for patterns and excluded keywords
	folded string // title and channel
	rpm    estimate
}

func newHit(e *entry, s *Sample) *Hit {
	h := &Hit{entry: *e, sample: s, Gaps: e.gaps(), Title: e.makeTitle()}
	h.lower, h.folded = strings.ToLower(h.Title), foldWords(h.Title+" "+h.Channel.title)
	h.rpm = estimateOf(s.channel.rpm, Random(e.Channel.Seed, forGaps, e.address(), 1))
	return h
}

// revenue is the estimated revenue of the upload.
func (h *Hit) revenue() estimate { return h.rpm.revenueOf(float64(h.Views)) }

func (h *Hit) maker() *channel { return h.Channel }
func (h *Hit) about() []Topic  { return h.Channel.topics[h.topic:][:1] }
func (h *Hit) words() string   { return h.folded }
func (h *Hit) size() float64   { return h.ratio }

func (s *Sample) address() uint64 { return uint64(s.channel.index) }
func (s *Sample) maker() *channel { return s.channel }
func (s *Sample) about() []Topic  { return s.channel.topics }
func (s *Sample) words() string   { return s.channel.words }
func (s *Sample) size() float64   { return float64(s.subscribers) }

// Find returns all hits of a search for outliers in order.
func (x *Index) Find(p url.Values, l *Library) []*Hit {
	w := l.readWishes(p, x.At)
	return search(x.hitsIn(w.looksIn), p, &hitTerms, w)
}

// FindChannels returns all channels of a search in order, by the samples that filterBy names.
func (x *Index) FindChannels(p url.Values, l *Library) (found []*Sample) {
	kind := Video
	if p.Get("filterBy") == Short.String() {
		kind = Short
	}
	w := l.readWishes(p, x.At)
	for _, of := range x.listedIn(w.looksIn) {
		found = append(found, of.samples[kind]...)
	}
	return search(found, p, &channelTerms, w)
}

// nearest is how many things a semantic search finds at most.
const nearest = 1_000

// search returns what passes the filters of p and matches, the most relevant first, unless p
// asks for another order.
func search[T entity](all []T, p url.Values, t *terms[T], w *wishes) []T {
	passes := t.readFilters(p)
	found := rank(all, func(v T) (float64, bool) {
		if !passes(v) || w.isSeed(v) {
			return 0, false
		}
		return w.score(v)
	})
	if w.semantic && len(found) > nearest {
		found = found[:nearest]
	}
	if p.Has("seed") {
		salt := HashText(p.Get("seed"))
		slices.SortFunc(found, func(v, w T) int { return cmp.Compare(Hash(salt, v.address()), Hash(salt, w.address())) })
	}
	if value, ok := t.numbers[t.orders[p.Get("sortBy")]]; ok {
		slices.SortStableFunc(found, orderBy(value, p.Get("sortOrder") == "asc"))
	}
	return found
}

// rank returns the things with a score, the highest first.
func rank[T entity](all []T, score score[T]) []T {
	type ranked struct {
		thing T
		score float64
	}
	var ranking []ranked
	for _, v := range all {
		if r, ok := score(v); ok {
			ranking = append(ranking, ranked{v, r})
		}
	}
	slices.SortFunc(ranking, func(v, w ranked) int {
		return cmp.Or(cmp.Compare(w.score, v.score), cmp.Compare(v.thing.address(), w.thing.address()))
	})
	found := make([]T, len(ranking))
	for i := range ranking {
		found[i] = ranking[i].thing
	}
	return found
}

// wishes are what the parameters of a search ask for. The best of them counts, so several queries or seeds find the
// union. Without any, all things are found, the largest first. A seed is a query for its topic.
type wishes struct {
	scores   []score[thing]
	intents  []*intent // of the scores of a semantic search
	semantic bool
	seeds    []uint64   // uploads by address, which are not found themselves
	channels []*channel // the same of channels
}

// readWishes reads the queries and seeds of p. Nothing resembles an unknown id.
func (l *Library) readWishes(p url.Values, at time.Time) *wishes {
	w := &wishes{semantic: p.Get("by") != "lexical"}
	look := func(text string) {
		if w.semantic {
			i := queryIntent(text, l.Seed)
			w.scores, w.intents = append(w.scores, i.score), append(w.intents, i)
		} else {
			w.scores = append(w.scores, allWords(text))
		}
	}
	for _, text := range slices.Concat(p["query"], p["title"]) {
		look(text)
	}
	for _, id := range slices.Concat(p["videoId"], p["thumbnailVideoId"]) {
		if u, ok := l.findUpload(id, at); ok {
			look(u.Topic().Name())
			w.seeds = append(w.seeds, u.address())
		}
	}
	for _, id := range p["relatedChannelId"] {
		if c, ok := l.ByID[id]; ok {
			look(c.topics[0].Name())
			w.channels = append(w.channels, c)
		}
	}
	for _, name := range []string{"query", "title", "videoId", "thumbnailVideoId", "relatedChannelId"} {
		if p.Has(name) {
			return w
		}
	}
	return &wishes{scores: []score[thing]{func(v thing) (float64, bool) { return v.size(), true }}}
}

func (w *wishes) isSeed(v thing) bool {
	return slices.Contains(w.seeds, v.address()) || slices.Contains(w.channels, v.maker())
}

func (w *wishes) score(v thing) (best float64, found bool) {
	for _, of := range w.scores {
		if r, ok := of(v); ok {
			best, found = max(best, r), true
		}
	}
	return best, found
}

// looksIn reports whether anything of a niche may match.
func (w *wishes) looksIn(niche int) bool {
	matches := func(i *intent) bool { return i.matches(niche) }
	return len(w.intents) < len(w.scores) || slices.ContainsFunc(w.intents, matches)
}

// allWords finds things with every word of the query. Words in scripts without spaces are also found inside words.
func allWords(query string) score[thing] {
	wanted := strings.Fields(foldWords(query))
	for i, w := range wanted {
		if isASCII(w) {
			wanted[i] = " " + w + " "
		}
	}
	return func(v thing) (float64, bool) {
		lacks := slices.ContainsFunc(wanted, func(w string) bool { return !strings.Contains(v.words(), w) })
		return v.size(), len(wanted) > 0 && !lacks
	}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// Semantic search is approximated: a query matches a topic if they share words. It then also
// matches the other topics of the niche, less well. A query that matches no topic finds the
// same share of the library each time, so that every query finds something.
const (
	named        = 1.0  // the query contains the topic's name
	neighbour    = 0.45 // for the other topics of a niche, relative to its best score
	sameWords    = 0.25 // all words of the query are in the title
	closeness    = 0.2  // random spread between hits that are equal otherwise
	enough       = 0.2  // below it a topic does not match
	unknownShare = 0.15 // of the library, found by a query that matches no topic
)

// stopWords are ignored in queries.
const stopWords = " a an and at best for good home how i in is make making my of on the tips to tools top " +
	"vs what why with your "

// intent is what a query asks for.
type intent struct {
	topics [topicCount]float64 // how well each matches
	known  bool                // whether any does
	wanted []string            // words
	salt   uint64              // of the random spread
}

// queryIntent is the intent of a query.
func queryIntent(query string, seed uint64) *intent {
	text := foldWords(query)
	i := &intent{wanted: meantWords(text), salt: Hash(seed, uint64(forRelevance), HashText(text))}
	for t := range Topic(topicCount) {
		i.topics[t] = t.subject().score(i.wanted, text)
	}
	for n := range niches {
		of := i.ofNiche(n)
		best := neighbour * max(slices.Max(of), wordScore(i.wanted, " "+niches[n].words+" "))
		for t := range of {
			of[t] = max(of[t], best)
		}
		i.known = i.known || best >= enough
	}
	return i
}

func meantWords(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(w string) bool {
		return strings.Contains(stopWords, " "+w+" ")
	})
}

// ofNiche is how well the topics of a niche match.
func (i *intent) ofNiche(n int) []float64 { return i.topics[n*perNiche:][:perNiche] }

// matches reports whether anything of a niche matches.
func (i *intent) matches(niche int) bool { return !i.known || slices.Max(i.ofNiche(niche)) >= enough }

// score is how well something matches, by the best of its topics.
func (i *intent) score(v thing) (float64, bool) {
	noise := Unit(Hash(i.salt, v.address()))
	if !i.known {
		return noise, noise > 1-unknownShare
	}
	var best float64
	for _, t := range v.about() {
		best = max(best, i.topics[t])
	}
	if best < enough {
		return 0, false
	}
	return best + sameWords*divideOrZero(countShared(i.wanted, v.words()), float64(len(i.wanted))) + closeness*noise, true
}

// score is how well a query matches the subject, by its name in any language or by related
// words.
func (s *subject) score(wanted []string, text string) float64 {
	for _, name := range s.names {
		folded := foldWords(name)
		if strings.Contains(text, folded) || !isASCII(name) && strings.Contains(text, strings.TrimSpace(folded)) {
			return named
		}
	}
	return wordScore(wanted, foldWords(s.names[0]+" "+s.words))
}

// wordScore is one half for one shared word, three quarters for two, and so on.
func wordScore(wanted []string, text string) float64 {
	return 1 - math.Exp2(-countShared(wanted, text))
}

// countShared counts the wanted words in a text folded by [foldWords].
func countShared(wanted []string, text string) float64 {
	var n float64
	for _, w := range wanted {
		if strings.Contains(text, " "+w+" ") {
			n++
		}
	}
	return n
}

// Nearest is an index of at most the given number of outliers, those nearest to the topics.
func (x *Index) Nearest(topics TopicSet, seed uint64, most int) *Index {
	nearby := x.byDistance(topics, seed)
	return &Index{At: x.At, results: nearby[:min(most, len(nearby))]}
}

// NearestChannels is an index of all outliers of at most the given number of channels, those
// nearest to the topics.
func (x *Index) NearestChannels(topics TopicSet, seed uint64, most int) *Index {
	nearby := x.byDistance(topics, seed)
	found := map[*channel]bool{}
	for _, h := range nearby {
		if len(found) < most {
			found[h.Channel] = true
		}
	}
	return &Index{At: x.At, results: slices.DeleteFunc(nearby, func(h *Hit) bool { return !found[h.Channel] })}
}

// byDistance returns all outliers, those nearest to the topics first.
func (x *Index) byDistance(topics TopicSet, seed uint64) []*Hit {
	i := queryIntent(strings.Join(topics.Names(), " "), seed)
	return rank(x.Hits(), func(h *Hit) (float64, bool) {
		r, _ := i.score(h)
		return r, true
	})
}
