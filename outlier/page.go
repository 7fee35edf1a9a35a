package outlier

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	Kind      string // video or short, as given

	Comments *int64 // number of comments of the video; nil if the hit does not have it

	// Facts has the numbers that hits can be sorted by, by the values of the parameter sortBy, and other
	// numbers for a [HitFilter]; true is 1 and false is 0. Null and absent ones are omitted. See
	// [Hit.SortValue].
	Facts map[string]float64

	// Words has other texts for a [HitFilter].
	Words map[string]string

	Forgotten bool // it was removed from the answer ([Redact]), so nothing else is known about it
}

// SortValue returns the number that sortBy sorts by, and false if the hit has none. publishedAt is in
// Unix seconds. For revenue and rpm, the interface has an estimate from and to, but does not say which
// one the service sorts by: SortValue returns the middle, or the only one given.
func (h Hit) SortValue(sortBy string) (float64, bool) {
	v, ok := h.Facts[sortBy]
	return v, ok
}

// PageOf reads the answer of any search. An answer of trending_formats may be any JSON, so its page has
// no hits and no numbers.
func PageOf(op Operation, body []byte) (Page, error) {
	switch op {
	case OpSearch, OpRelated:
		return readPage(body, outlierMembers)
	case OpFindChannels, OpFindRelatedChannels:
		return readPage(body, channelMembers)
	case OpTrendingFormats:
		if !jx.Valid(body) {
			return Page{}, errors.New("read trending formats: not JSON")
		}
		return noPage, nil
	}
	return Page{}, fmt.Errorf("answers of %q have no pages", op)
}

// noPage is a page without known values.
var noPage = Page{Total: -1, From: -1, Size: -1}

// readPage reads an object with hits that have certain members, any of which may be null, absent or of another type.
// It returns an error only if body is not JSON, or not an object with hits.
func readPage(body []byte, of members) (Page, error) {
	p := noPage
	d := jx.DecodeBytes(body)
	if d.Next() != jx.Object {
		return Page{}, errors.New("read a page of hits: not a JSON object")
	}
	found, seen := false, false
	err := d.Obj(func(d *jx.Decoder, key string) error {
		switch {
		case key == "pagination":
			return p.readPagination(d)
		case key == "hits" && !seen:
			p.Null, seen = d.Next() == jx.Null, true
			found = d.Next() == jx.Array || p.Null
			return p.readHits(d, of)
		}
		return d.Skip()
	})
	if err == nil && !found {
		err = errors.New("the answer has no hits array")
	}
	if err != nil {
		return Page{}, fmt.Errorf("read a page of hits: %w", err)
	}
	return p, nil
}

func (p *Page) readPagination(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "total":
			return readWhole(d, &p.Total)
		case "from":
			return readWhole(d, &p.From)
		case "size":
			return readWhole(d, &p.Size)
		}
		return d.Skip()
	})
}

func (p *Page) readHits(d *jx.Decoder, of members) error {
	return readArray(d, func(d *jx.Decoder) error {
		h := Hit{Facts: map[string]float64{}}
		if d.Next() == jx.String {
			raw, err := d.Raw()
			h.Forgotten = string(raw) == Forgotten
			p.Hits = append(p.Hits, h)
			return err
		}
		named := false // of several ids the first one counts, as in the tables
		err := readObject(d, func(d *jx.Decoder, key string) error {
			if key == "id" && named {
				return d.Skip()
			}
			named = named || key == "id"
			return of[key].read(&h, d)
		})
		p.Hits = append(p.Hits, h)
		return err
	})
}

// members are the members of an object that are read, by name.
type members map[string]member

// A member is read into a fact or word of the hit, or is an object with members of its own.
type member struct {
	into func(h *Hit, d *jx.Decoder, name string) error
	name string // of the fact or word
	of   members
}

// read reads the next value in d, or skips it if the member is unknown.
func (m member) read(h *Hit, d *jx.Decoder) error {
	if m.into != nil {
		return m.into(h, d, m.name)
	}
	if m.of == nil {
		return d.Skip()
	}
	return readObject(d, func(d *jx.Decoder, key string) error { return m.of[key].read(h, d) })
}

// outlierMembers are the members of a hit of a search for outliers.
var outlierMembers = members{
	"id":   {into: (*Hit).readVideoID},
	"kind": {into: (*Hit).readKind},
	"snippet": {of: members{
		"channelId":          {into: (*Hit).readChannelID},
		"channelSubscribers": {into: (*Hit).readFact, name: "subscribers"},
		"publishedAt":        {into: (*Hit).readInstant, name: "publishedAt"},
		"duration":           {into: (*Hit).readFact, name: "duration"},
		"language":           {into: (*Hit).readWord, name: "language"},
		"monetization": {of: members{
			"adsense":               {into: (*Hit).readFlag, name: "adsense"},
			"revenueEstimationFrom": {into: (*Hit).readEstimate, name: "revenue"},
			"revenueEstimationTo":   {into: (*Hit).readEstimate, name: "revenue"},
			"rpmEstimationFrom":     {into: (*Hit).readEstimate, name: "rpm"},
			"rpmEstimationTo":       {into: (*Hit).readEstimate, name: "rpm"},
		}},
		"channelMonetization": {of: members{"adsense": {into: (*Hit).readFlag, name: "adsense"}}},
	}},
	"statistics": {of: members{
		"commentCount":      {into: (*Hit).readComments},
		"viewCount":         {into: (*Hit).readFact, name: "views"},
		"likeCount":         {into: (*Hit).readFact, name: "likes"},
		"zScore":            {into: (*Hit).readFact, name: "zScore"},
		"averageViewsRatio": {into: (*Hit).readFact, name: "averageViewsRatio"},
	}},
	"classification": classificationMembers,
}

// channelMembers are those of a hit of a search for channels. There is no fact for recency, because the interface does
// not say which field it sorts by.
var channelMembers = members{
	"id":   {into: (*Hit).readChannelID},
	"kind": {into: (*Hit).readKind},
	"statistics": {of: members{
		"subscribers":                {into: (*Hit).readFact, name: "subscribers"},
		"averageViews":               {into: (*Hit).readFact, name: "averageViews"},
		"avgViewsToSubscribersRatio": {into: (*Hit).readFact, name: "avgViewsToSubscribersRatio"},
		"viewVariationCoefficient":   {into: (*Hit).readFact, name: "viewVariationCoefficient"},
	}},
	"monetization": {of: members{
		"adsense":                      {into: (*Hit).readFlag, name: "adsense"},
		"revenueMonthlyEstimationFrom": {into: (*Hit).readEstimate, name: "revenueMonthly"},
		"revenueMonthlyEstimationTo":   {into: (*Hit).readEstimate, name: "revenueMonthly"},
		"rpmEstimationFrom":            {into: (*Hit).readEstimate, name: "rpm"},
		"rpmEstimationTo":              {into: (*Hit).readEstimate, name: "rpm"},
	}},
	"classification": classificationMembers,
	"language":       {of: members{"code": {into: (*Hit).readWord, name: "language"}}},
	"foundAt":        {into: (*Hit).readInstant, name: "foundAt"},
}

var classificationMembers = member{of: members{
	"quality":    {into: (*Hit).readWord, name: "quality"},
	"isFaceless": {into: (*Hit).readFlag, name: "faceless"},
}}

func (h *Hit) readVideoID(d *jx.Decoder, _ string) error   { return readID(d, &h.VideoID) }
func (h *Hit) readChannelID(d *jx.Decoder, _ string) error { return readID(d, &h.ChannelID) }
func (h *Hit) readKind(d *jx.Decoder, _ string) error      { return readText(d, &h.Kind) }

// readFact reads a number.
func (h *Hit) readFact(d *jx.Decoder, name string) error {
	return readNumber(d, func(x float64) { h.Facts[name] = x })
}

// readFlag reads a boolean.
func (h *Hit) readFlag(d *jx.Decoder, name string) error {
	if d.Next() != jx.Bool {
		return d.Skip()
	}
	yes, err := d.Bool()
	h.Facts[name] = 0
	if yes {
		h.Facts[name] = 1
	}
	return err
}

// readWord reads a text.
func (h *Hit) readWord(d *jx.Decoder, name string) error {
	var s string
	err := readText(d, &s)
	if s != "" && h.Words == nil {
		h.Words = map[string]string{}
	}
	if s != "" {
		h.Words[name] = s
	}
	return err
}

// readInstant reads a date-time as Unix seconds.
func (h *Hit) readInstant(d *jx.Decoder, fact string) error {
	var s string
	if err := readText(d, &s); err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		h.Facts[fact] = float64(t.UnixMilli()) / 1000
	}
	return nil
}

// readEstimate reads one end of an estimate. The fact is the middle of both, or the only one.
func (h *Hit) readEstimate(d *jx.Decoder, name string) error {
	return readNumber(d, func(x float64) {
		if other, both := h.Facts[name]; both {
			x = other/2 + x/2
		}
		h.Facts[name] = x
	})
}

func (h *Hit) readComments(d *jx.Decoder, _ string) error {
	n := int64(-1)
	err := readWhole(d, &n)
	if n >= 0 {
		h.Comments = &n
		h.Facts["comments"] = float64(n)
	}
	return err
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
	items, silent, about := false, false, true // about: every id is that of the entity
	checkID := func(d *jx.Decoder) error {
		var id string
		err := readText(d, &id)
		about = about && (id == "" || id == entity)
		return err
	}
	d := jx.DecodeBytes(body)
	if d.Next() != jx.Object {
		return false
	}
	err := d.Obj(func(d *jx.Decoder, key string) error {
		switch {
		case key == "id":
			return checkID(d)
		case key == "ids":
			return readArray(d, checkID)
		case key == "items" && !items:
			items, silent = true, d.Next() == jx.Array
			return readArray(d, func(d *jx.Decoder) error {
				none, err := isSilent(d, op, checkID)
				silent = silent && none
				return err
			})
		}
		return d.Skip()
	})
	return err == nil && silent && about
}

// isSilent reads an item, and reports whether it is that of a transcript without a word.
func isSilent(d *jx.Decoder, op Operation, checkID func(*jx.Decoder) error) (bool, error) {
	if op != OpTranscript {
		return false, d.Skip()
	}
	present, words := false, false
	err := readObject(d, func(d *jx.Decoder, key string) error {
		switch {
		case key == "id":
			return checkID(d)
		case key == "events" && d.Next() == jx.Array:
			present = true
			return d.Arr(func(d *jx.Decoder) error {
				words = true
				return d.Skip()
			})
		case key == "transcript" && d.Next() == jx.String:
			present = true
			text, err := d.Str()
			words = words || strings.TrimSpace(text) != ""
			return err
		}
		return d.Skip()
	})
	return present && !words, err
}
