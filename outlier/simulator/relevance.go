package simulator

import (
	"math"
	"net/url"
	"slices"
	"strings"
)

// Meaning here is coarse: a query means a topic if it shares words with it, and
// then also, less, the topics around it. A query that means no topic finds a
// stable share of the library, so that every query finds something.
const (
	named      = 1.0  // the query has the topic's name
	neighbour  = 0.45 // of the best score within the niche, for its other topics
	sameWords  = 0.25 // all words of the query stand in the title
	closeness  = 0.2  // spread between hits that are equal otherwise
	enough     = 0.2  // below it a topic is not meant
	strayShare = 0.15 // of the library, found by a query that means no topic
)

// idle words mean nothing by themselves.
const idle = " a an and at best for good home how i in is make making my of on the tips to tools top vs what why with your "

// relevanceOf returns what scores hits for the queries of p, of which the best
// counts: several queries find the union. Without a query all hits are found, the
// largest ratio first.
func relevanceOf(p url.Values, seed uint64) func(*hit) (float64, bool) {
	queries := p["query"]
	if len(queries) == 0 {
		return func(h *hit) (float64, bool) { return h.ratio, true }
	}
	score := make([]func(*hit) (float64, bool), len(queries))
	for i, q := range queries {
		if p.Get("by") == "lexical" {
			score[i] = lexical(q)
		} else {
			score[i] = meaning(q, seed)
		}
	}
	return func(h *hit) (best float64, found bool) {
		for _, of := range score {
			if r, ok := of(h); ok {
				best, found = max(best, r), true
			}
		}
		return best, found
	}
}

// lexical finds hits that have every word of the query in the title or in the
// channel's name. Scripts without spaces are searched inside words.
func lexical(query string) func(*hit) (float64, bool) {
	wanted := strings.Fields(words(query))
	for i, w := range wanted {
		if isASCII(w) {
			wanted[i] = " " + w + " "
		}
	}
	return func(h *hit) (float64, bool) {
		for _, w := range wanted {
			if !strings.Contains(h.words, w) {
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

// meaning finds hits near the query.
func meaning(query string, seed uint64) func(*hit) (float64, bool) {
	text := words(query)
	wanted := slices.DeleteFunc(strings.Fields(text), func(w string) bool { return strings.Contains(idle, " "+w+" ") })
	topics, known := topicScores(wanted, text)
	salt := hash(seed, uint64(aboutNoise), hashText(text))
	return func(h *hit) (float64, bool) {
		noise := unit(hash(salt, h.address()))
		if !known {
			return noise, noise > 1-strayShare
		}
		r := topics[h.channel.field][h.topic]
		return r + sameWords*quotient(shared(wanted, h.words), float64(len(wanted))) + closeness*noise, r >= enough
	}
}

// topicScores is how much each topic is meant, by niche and topic.
func topicScores(wanted []string, text string) (scores [][]float64, known bool) {
	for f := range niches {
		n := &niches[f]
		var best float64
		of := make([]float64, len(n.topics))
		for i := range n.topics {
			of[i] = n.topics[i].score(wanted, text)
			best = max(best, of[i])
		}
		best = max(best, meant(wanted, " "+n.words+" "))
		for i := range of {
			of[i] = max(of[i], neighbour*best)
		}
		known = known || neighbour*best >= enough
		scores = append(scores, of)
	}
	return scores, known
}

// score is how much a query means the topic, by its name in any language or by
// words that belong to it.
func (t *topic) score(wanted []string, text string) float64 {
	for _, name := range t.names {
		if strings.Contains(text, words(name)) || !isASCII(name) && strings.Contains(text, strings.TrimSpace(words(name))) {
			return named
		}
	}
	return meant(wanted, words(t.names[0]+" "+t.words))
}

// meant is one half for one shared word, three quarters for two, and so on.
func meant(wanted []string, text string) float64 {
	return 1 - math.Exp2(-shared(wanted, text))
}

// shared counts the wanted words that stand in a text of [words].
func shared(wanted []string, text string) float64 {
	var n float64
	for _, w := range wanted {
		if strings.Contains(text, " "+w+" ") {
			n++
		}
	}
	return n
}
