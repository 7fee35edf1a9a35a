package outlier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-faster/jx"
)

// Page is the part of a search's answer that controls paging, for outliers or for channels (interface,
// Pagination object). Missing numbers are -1.
type Page struct {
	Total int64 // a hint: it is said to stop at 10000
	From  int64
	Size  int64
	Hits  []Hit // in the order of the answer, one per element, even for an invalid element
	Null  bool  // hits is null
}

// Hit is the part of a hit that controls enrichment. Package schema makes the rows.
type Hit struct {
	VideoID   string // as given, in any form; "" if there is no id (see [IsID]), or for a channel
	ChannelID string // likewise

	Comments *int64 // number of comments of the video; nil if the hit does not have it

	Forgotten bool // it was removed from the answer ([Redact]), so nothing else is known about it

	value         // the hit itself
	of    factMap // where it has what hits are sorted and selected by
}

// SortValue returns the number that sortBy sorts by, and false if the hit has none. publishedAt is in
// Unix seconds. For revenue and rpm, the interface has an estimate from and to, but does not say which
// one the service sorts by: SortValue returns the middle, or the only one given.
func (h Hit) SortValue(sortBy string) (x float64, known bool) {
	for _, path := range h.of[sortBy] {
		y, ok := h.at(path).quantity()
		switch {
		case ok && known:
			x = x/2 + y/2
		case ok:
			x, known = y, true
		}
	}
	return x, known
}

// A factMap has the paths of what hits are sorted by, by the values of the parameter sortBy, and of what else a
// [HitFilter] selects them by. Of two numbers, the ends of an estimate, the middle counts.
type factMap map[string][]string

var outlierFacts = factMap{
	"kind":              {"kind"},
	"channelId":         {"snippet.channelId"},
	"subscribers":       {"snippet.channelSubscribers"},
	"publishedAt":       {"snippet.publishedAt"},
	"duration":          {"snippet.duration"},
	"language":          {"snippet.language"},
	"adsense":           {"snippet.monetization.adsense", "snippet.channelMonetization.adsense"},
	"revenue":           {"snippet.monetization.revenueEstimationFrom", "snippet.monetization.revenueEstimationTo"},
	"rpm":               {"snippet.monetization.rpmEstimationFrom", "snippet.monetization.rpmEstimationTo"},
	"comments":          {"statistics.commentCount"},
	"views":             {"statistics.viewCount"},
	"likes":             {"statistics.likeCount"},
	"zScore":            {"statistics.zScore"},
	"averageViewsRatio": {"statistics.averageViewsRatio"},
	"quality":           {"classification.quality"},
	"faceless":          {"classification.isFaceless"},
}

// channelFacts have none for recency, because the interface does not say which field it sorts by.
var channelFacts = factMap{
	"subscribers":                {"statistics.subscribers"},
	"averageViews":               {"statistics.averageViews"},
	"avgViewsToSubscribersRatio": {"statistics.avgViewsToSubscribersRatio"},
	"viewVariationCoefficient":   {"statistics.viewVariationCoefficient"},
	"adsense":                    {"monetization.adsense"},
	"revenueMonthly":             {"monetization.revenueMonthlyEstimationFrom", "monetization.revenueMonthlyEstimationTo"},
	"rpm":                        {"monetization.rpmEstimationFrom", "monetization.rpmEstimationTo"},
	"quality":                    {"classification.quality"},
	"faceless":                   {"classification.isFaceless"},
	"language":                   {"language.code"},
	"foundAt":                    {"foundAt"},
}

// PageOf reads the answer of any search. An answer of trending_formats may be any JSON, so its page has
// no hits and no numbers.
func PageOf(op Operation, body []byte) (Page, error) {
	switch op {
	case OpSearch, OpRelated:
		return readPage(body, func(v value) Hit {
			return Hit{VideoID: v.at("id").id(), ChannelID: v.at("snippet.channelId").id(), of: outlierFacts}
		})
	case OpFindChannels, OpFindRelatedChannels:
		return readPage(body, func(v value) Hit { return Hit{ChannelID: v.at("id").id(), of: channelFacts} })
	case OpTrendingFormats:
		if !jx.Valid(body) {
			return Page{}, errors.New("read trending formats: not JSON")
		}
		return Page{Total: -1, From: -1, Size: -1}, nil
	}
	return Page{}, fmt.Errorf("answers of %q have no pages", op)
}

// readPage reads an object with hits, which may have members of any type. It returns an error only if body is not JSON,
// or not an object with hits.
func readPage(body []byte, readHit func(value) Hit) (Page, error) {
	members, err := value(body).members()
	if err != nil {
		return Page{}, fmt.Errorf("read a page of hits: %w", err)
	}
	hits, numbers := members["hits"], members["pagination"]
	p := Page{Total: numbers.at("total").whole(), From: numbers.at("from").whole(), Size: numbers.at("size").whole(),
		Null: hits.kind() == jx.Null}
	if hits.kind() != jx.Array && !p.Null {
		return Page{}, errors.New("read a page of hits: the answer has no hits array")
	}
	for _, v := range hits.items() {
		h := readHit(v)
		h.value, h.Forgotten, h.Comments = v, string(v) == Forgotten, v.at("statistics.commentCount").count()
		p.Hits = append(p.Hits, h)
	}
	return p, nil
}

// Empty reports whether a complete answer of a data endpoint says that the service has no data about the
// requested entity: its items are an empty array, or, for a transcript, its events or its text are
// present without a word. A video without comments is not empty: a count of zero is an answer. An answer
// that lacks these members, has null for them, or is about another entity does not count as empty. The
// interface shows no such answer; this is our interpretation.
func Empty(op Operation, entity string, body []byte) bool {
	if op != OpDetails && op != OpComments && op != OpTranscript {
		return false
	}
	members, err := value(body).members()
	items, ids := members["items"], append(members["ids"].items(), members["id"])
	if err != nil || items.kind() != jx.Array {
		return false
	}
	for _, item := range items.items() {
		if op != OpTranscript || !isSilent(item) {
			return false
		}
		ids = append(ids, item.at("id"))
	}
	return !slices.ContainsFunc(ids, func(id value) bool { return id.text() != "" && id.text() != entity })
}

// isSilent reports whether an item is that of a transcript without a word.
func isSilent(item value) bool {
	events, text := item.at("events"), item.at("transcript")
	present := events.kind() == jx.Array || text.kind() == jx.String
	return present && len(events.items()) == 0 && (text.kind() != jx.String || strings.TrimSpace(text.text()) == "")
}
