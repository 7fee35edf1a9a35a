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
		return readOutlierPage(body)
	case OpFindChannels, OpFindRelatedChannels:
		return readChannelPage(body)
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

// readOutlierPage reads the answer of a search for outliers. Any field may be null, absent or of another
// type. It returns an error only if body is not JSON, or not an object with hits.
func readOutlierPage(body []byte) (Page, error) {
	p, err := readPage(body, (*Hit).readMember)
	if err != nil {
		return Page{}, fmt.Errorf("read a page of hits: %w", err)
	}
	return p, nil
}

// readPage reads an object with hits, and each hit with read.
func readPage(body []byte, read func(*Hit, *jx.Decoder) error) (Page, error) {
	p := noPage
	d := jx.DecodeBytes(body)
	if d.Next() != jx.Object {
		return p, errors.New("not a JSON object")
	}
	found, seen := false, false
	err := d.Obj(func(d *jx.Decoder, key string) error {
		switch {
		case key == "pagination":
			return p.readPagination(d)
		case key == "hits" && !seen:
			p.Null, seen = d.Next() == jx.Null, true
			found = d.Next() == jx.Array || p.Null
			return p.readHits(d, read)
		}
		return d.Skip()
	})
	if err == nil && !found {
		err = errors.New("the answer has no hits array")
	}
	return p, err
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

func (p *Page) readHits(d *jx.Decoder, read func(*Hit, *jx.Decoder) error) error {
	return readArray(d, func(d *jx.Decoder) error {
		h := Hit{Facts: map[string]float64{}}
		if d.Next() == jx.String {
			raw, err := d.Raw()
			h.Forgotten = string(raw) == Forgotten
			p.Hits = append(p.Hits, h)
			return err
		}
		err := read(&h, d)
		p.Hits = append(p.Hits, h)
		return err
	})
}

func (h *Hit) readMember(d *jx.Decoder) error {
	named := false // of several ids the first one counts, as in the tables
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch {
		case key == "id" && !named:
			named = true
			return readID(d, &h.VideoID)
		case key == "kind":
			return readText(d, &h.Kind)
		case key == "snippet":
			return h.readSnippet(d)
		case key == "statistics":
			return h.readStatistics(d)
		case key == "classification":
			return h.readClassification(d)
		}
		return d.Skip()
	})
}

func (h *Hit) readSnippet(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "channelId":
			return readID(d, &h.ChannelID)
		case "publishedAt":
			return h.readInstant(d, key)
		case "monetization":
			return h.readEstimates(d, hitEstimates)
		case "channelMonetization":
			return h.readEstimates(d, nil)
		case "channelSubscribers":
			return h.readFact(d, "subscribers")
		case "duration":
			return h.readFact(d, key)
		case "language":
			return h.readWord(d, key)
		}
		return d.Skip()
	})
}

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

func (h *Hit) readClassification(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "quality":
			return h.readWord(d, key)
		case "isFaceless":
			return h.readFlag(d, "faceless")
		}
		return d.Skip()
	})
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

// hitEstimates maps the names of estimates on the wire, without From and To, to facts.
var hitEstimates = map[string]string{"revenueEstimation": "revenue", "rpmEstimation": "rpm"}

// readEstimates reads each pair of From and To into one fact, and the flag adsense.
func (h *Hit) readEstimates(d *jx.Decoder, facts map[string]string) error {
	ends := map[string][]float64{}
	err := readObject(d, func(d *jx.Decoder, key string) error {
		if key == "adsense" {
			return h.readFlag(d, key)
		}
		stem := strings.TrimSuffix(strings.TrimSuffix(key, "From"), "To")
		if name, ok := facts[stem]; ok && key != stem {
			return readNumber(d, func(x float64) { ends[name] = append(ends[name], x) })
		}
		return d.Skip()
	})
	for name, values := range ends {
		sum := 0.0
		for _, x := range values {
			sum += x / float64(len(values))
		}
		h.Facts[name] = sum
	}
	return err
}

func (h *Hit) readStatistics(d *jx.Decoder) error {
	return readObject(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "commentCount":
			return h.readComments(d)
		case "viewCount":
			return h.readFact(d, "views")
		case "likeCount":
			return h.readFact(d, "likes")
		case "zScore", "averageViewsRatio":
			return h.readFact(d, key)
		}
		return d.Skip()
	})
}

func (h *Hit) readComments(d *jx.Decoder) error {
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
	// Iterators, because most answers have data in their first item: a callback could end the reading there only
	// with an error, to which jx adds a stack trace.
	d := jx.DecodeBytes(body)
	members, err := d.ObjIter()
	if err != nil {
		return false
	}
	empty, seen := false, false
	for members.Next() {
		none := true
		switch key := string(members.Key()); {
		case key == "id":
			none = isOrAbsent(d, entity)
		case key == "ids":
			none = trueForAll(d, func() bool { return isOrAbsent(d, entity) })
		case key == "items" && !seen:
			empty, seen = d.Next() == jx.Array, true
			none = trueForAll(d, func() bool { return isSilent(d, op, entity) })
		default:
			none = d.Skip() == nil
		}
		if !none {
			return false
		}
	}
	return members.Err() == nil && empty
}

// trueForAll reports whether f is true for every element of the next array in d, up to the first one for which it
// is not. Another value is skipped.
func trueForAll(d *jx.Decoder, f func() bool) bool {
	if d.Next() != jx.Array {
		return d.Skip() == nil
	}
	elements, err := d.ArrIter()
	if err != nil {
		return false
	}
	for elements.Next() {
		if !f() {
			return false
		}
	}
	return elements.Err() == nil
}

// isOrAbsent reads an id, and reports whether it is that of the entity or absent.
func isOrAbsent(d *jx.Decoder, entity string) bool {
	var id string
	return readText(d, &id) == nil && (id == "" || id == entity)
}

// isSilent reads an item, and reports whether it is that of a transcript without a word.
func isSilent(d *jx.Decoder, op Operation, entity string) bool {
	if op != OpTranscript || d.Next() != jx.Object {
		return false
	}
	members, err := d.ObjIter()
	if err != nil {
		return false
	}
	said := false // whether the transcript is present and empty
	for members.Next() {
		none := true
		switch key := string(members.Key()); {
		case key == "id":
			none = isOrAbsent(d, entity)
		case key == "events" && d.Next() == jx.Array:
			said = true
			none = trueForAll(d, func() bool { return false })
		case key == "transcript" && d.Next() == jx.String:
			said = true
			words, err := d.Str()
			none = err == nil && strings.TrimSpace(words) == ""
		default:
			none = d.Skip() == nil
		}
		if !none {
			return false
		}
	}
	return members.Err() == nil && said
}
