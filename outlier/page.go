package outlier

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-faster/jx"
)

// Page is what steers paging in the answer of a search (interface, Pagination
// object). A number that was not given is -1.
type Page struct {
	Total int64 // a hint: it is said to stop counting at 10000
	From  int64
	Size  int64
	Hits  []Hit // in the order answered, one per element even if the element is odd
}

// Hit is what steers enrichment in one hit. Its rows come from package schema.
type Hit struct {
	VideoID   string // "" if it does not have the form of the interface
	ChannelID string // likewise
	Kind      string // video or short, as given

	// Facts holds what the hit can be ordered by, under the names of the sortBy
	// parameter; what is null or absent is not in it. See [Hit.SortValue].
	Facts map[string]float64
}

// SortValue is the number that sortBy orders by, and false if the hit has none.
// publishedAt is in unix seconds. For revenue and rpm the interface shows an
// estimate from and to, but not which of them is ordered by: the middle of both
// stands for them, or the only one given.
func (h Hit) SortValue(sortBy string) (float64, bool) {
	v, ok := h.Facts[sortBy]
	return v, ok
}

// ReadPage reads the answer of a search. It takes any field to be null, absent or
// of another type, and fails only if body is not JSON or is not a search answer:
// an object with hits.
func ReadPage(body []byte) (Page, error) {
	p := Page{Total: -1, From: -1, Size: -1}
	d := jx.DecodeBytes(body)
	if d.Next() != jx.Object {
		return Page{}, errors.New("read a page of hits: not a JSON object")
	}
	found := false
	err := d.Obj(func(d *jx.Decoder, key string) error {
		switch key {
		case "pagination":
			return p.readPagination(d)
		case "hits":
			found = d.Next() == jx.Array || d.Next() == jx.Null
			return p.readHits(d)
		}
		return d.Skip()
	})
	if err != nil {
		return Page{}, fmt.Errorf("read a page of hits: %w", err)
	}
	if !found {
		return Page{}, errors.New("read a page of hits: the answer has no hits array")
	}
	return p, nil
}

func (p *Page) readPagination(d *jx.Decoder) error {
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "total":
			return whole(d, &p.Total)
		case "from":
			return whole(d, &p.From)
		case "size":
			return whole(d, &p.Size)
		}
		return d.Skip()
	})
}

func (p *Page) readHits(d *jx.Decoder) error {
	return array(d, func(d *jx.Decoder) error {
		h := Hit{Facts: map[string]float64{}}
		err := h.read(d)
		p.Hits = append(p.Hits, h)
		return err
	})
}

func (h *Hit) read(d *jx.Decoder) error {
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "id":
			err := text(d, &h.VideoID)
			if !videoID.MatchString(h.VideoID) {
				h.VideoID = ""
			}
			return err
		case "kind":
			return text(d, &h.Kind)
		case "snippet":
			return h.readSnippet(d)
		case "statistics":
			return h.readStatistics(d)
		}
		return d.Skip()
	})
}

func (h *Hit) readSnippet(d *jx.Decoder) error {
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "channelId":
			err := text(d, &h.ChannelID)
			if !channelID.MatchString(h.ChannelID) {
				h.ChannelID = ""
			}
			return err
		case "publishedAt":
			return h.readPublished(d)
		case "monetization":
			return h.readMonetization(d)
		}
		return d.Skip()
	})
}

func (h *Hit) readPublished(d *jx.Decoder) error {
	var s string
	if err := text(d, &s); err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		h.Facts["publishedAt"] = float64(t.UnixMilli()) / 1000
	}
	return nil
}

func (h *Hit) readMonetization(d *jx.Decoder) error {
	ends := map[string][]float64{}
	err := object(d, func(d *jx.Decoder, key string) error {
		name, _, _ := strings.Cut(key, "Estimation")
		switch key {
		case "rpmEstimationFrom", "rpmEstimationTo", "revenueEstimationFrom", "revenueEstimationTo":
			return number(d, func(x float64) { ends[name] = append(ends[name], x) })
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
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "viewCount":
			return number(d, func(x float64) { h.Facts["views"] = x })
		case "zScore", "averageViewsRatio":
			return number(d, func(x float64) { h.Facts[key] = x })
		}
		return d.Skip()
	})
}

// Empty reports whether a whole answer of a data endpoint says "there is none":
// an items array (for channels: an item) that is empty or null, and for a
// transcript also items whose events and text are all empty. A video with no
// comments is not empty: its count of zero is an answer. The interface shows no
// such answer; that these mean "none" is our reading.
func Empty(op Operation, body []byte) bool {
	empty := false
	err := object(jx.DecodeBytes(body), func(d *jx.Decoder, key string) error {
		switch {
		case key == "item" && (op == OpChannelVideos || op == OpChannelShorts):
			empty = d.Next() == jx.Null
		case key == "items" && (op == OpDetails || op == OpComments || op == OpTranscript):
			kind := d.Next()
			empty = kind == jx.Array || kind == jx.Null
			return array(d, func(d *jx.Decoder) error { return nothing(d, op) })
		}
		return d.Skip()
	})
	return err == nil && empty
}

// errSomething ends the search for something where it was found: most answers have
// something in their first item, and the rest of them need not be read.
var errSomething = errors.New("there is something")

// nothing reads an item that is null or a silent transcript, and fails with
// errSomething at any other.
func nothing(d *jx.Decoder, op Operation) error {
	if d.Next() == jx.Null {
		return d.Skip()
	}
	if op != OpTranscript {
		return errSomething
	}
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "events":
			return array(d, func(*jx.Decoder) error { return errSomething })
		case "transcript":
			var s string
			if err := text(d, &s); err != nil || strings.TrimSpace(s) != "" {
				return cmp.Or(err, errSomething)
			}
			return nil
		}
		return d.Skip()
	})
}
