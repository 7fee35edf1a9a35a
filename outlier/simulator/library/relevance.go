package library

import (
	"math"
	"net/url"
	"slices"
	"strings"
)

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

// queryTarget returns the target of the queries of p, and the niches in which they may find something. A hit's best
// query counts, so several queries find the union. Without a query all hits are found, the largest ratio first.
func queryTarget(p url.Values, seed uint64) (wanted target[*Hit], niches func(niche int) bool) {
	if len(p["query"]) == 0 {
		return target[*Hit]{score: func(h *Hit) (float64, bool) { return h.ratio, true }}, anyNiche
	}
	var scores []score[*Hit]
	if p.Get("by") == "lexical" {
		for _, q := range p["query"] {
			scores = append(scores, matchLexically(q))
		}
		return target[*Hit]{score: bestScore(scores)}, anyNiche
	}
	intents := queryIntents(p, seed)
	for _, i := range intents {
		scores = append(scores, i.ofHit)
	}
	return target[*Hit]{bestScore(scores), nearest}, nichesOf(intents)
}

// nichesOf returns the niches of which one of the intents may find something.
func nichesOf(intents []intent) func(niche int) bool {
	return func(niche int) bool {
		return slices.ContainsFunc(intents, func(i intent) bool { return i.matches(niche) })
	}
}

// limitOf is how many hits a search finds at most; 0 means all, as for a lexical one.
func limitOf(p url.Values) int {
	if p.Get("by") == "lexical" {
		return 0
	}
	return nearest
}

// bestScore is the best of several scores.
func bestScore[T entity](scores []score[T]) score[T] {
	return func(v T) (best float64, found bool) {
		for _, of := range scores {
			if r, ok := of(v); ok {
				best, found = max(best, r), true
			}
		}
		return best, found
	}
}

// matchLexically finds hits with every word of the query in the title or the channel's name. Words
// in scripts without spaces are also found inside words.
func matchLexically(query string) score[*Hit] {
	wanted := strings.Fields(foldWords(query))
	for i, w := range wanted {
		if isASCII(w) {
			wanted[i] = " " + w + " "
		}
	}
	return func(h *Hit) (float64, bool) {
		for _, w := range wanted {
			if !strings.Contains(h.foldTexts().words, w) {
				return 0, false
			}
		}
		return h.ratio, len(wanted) > 0
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// intent is what a query or a seed asks for.
type intent struct {
	topics [][]float64 // how well each matches, by niche and topic
	known  bool        // whether any does
	wanted []string    // words
	salt   uint64      // of the random spread
}

// queryIntent is the intent of a query.
func queryIntent(query string, seed uint64) intent {
	text := foldWords(query)
	i := intent{wanted: meantWords(text), salt: Hash(seed, uint64(forRelevance), HashText(text))}
	i.topics, i.known = topicScores(i.wanted, text)
	return i
}

// queryIntents are the intents of the queries of p.
func queryIntents(p url.Values, seed uint64) (intents []intent) {
	for _, q := range p["query"] {
		intents = append(intents, queryIntent(q, seed))
	}
	return intents
}

func meantWords(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(w string) bool {
		return strings.Contains(stopWords, " "+w+" ")
	})
}

// matches reports whether anything of a niche matches.
func (i intent) matches(niche int) bool { return !i.known || slices.Max(i.topics[niche]) >= enough }

func (i intent) ofHit(h *Hit) (float64, bool) {
	return i.scoreOf(h.Channel.nicheIndex, h.Topic, func() string { return h.foldTexts().words }, h.address())
}

// scoreOf returns how well something with this topic of a niche and these words matches. The words are requested only
// if the topic matches.
func (i intent) scoreOf(niche, topic int, text func() string, address uint64) (float64, bool) {
	noise := Unit(Hash(i.salt, address))
	if !i.known {
		return noise, noise > 1-unknownShare
	}
	r := i.topics[niche][topic]
	if r < enough {
		return 0, false
	}
	return r + sameWords*divideOrZero(countShared(i.wanted, text()), float64(len(i.wanted))) + closeness*noise, true
}

// topicScores is how well each topic matches, by niche and topic.
func topicScores(wanted []string, text string) (scores [][]float64, known bool) {
	for f := range Niches {
		n := &Niches[f]
		var best float64
		of := make([]float64, len(n.Topics))
		for i := range n.Topics {
			of[i] = n.Topics[i].score(wanted, text)
			best = max(best, of[i])
		}
		best = max(best, wordScore(wanted, " "+n.words+" "))
		for i := range of {
			of[i] = max(of[i], neighbour*best)
		}
		known = known || neighbour*best >= enough
		scores = append(scores, of)
	}
	return scores, known
}

// score is how well a query matches the topic, by its name in any language or by related
// words.
func (t *topic) score(wanted []string, text string) float64 {
	for _, name := range t.Names {
		folded := foldWords(name)
		if strings.Contains(text, folded) || !isASCII(name) && strings.Contains(text, strings.TrimSpace(folded)) {
			return named
		}
	}
	return wordScore(wanted, foldWords(t.Names[0]+" "+t.words))
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
