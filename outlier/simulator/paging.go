package simulator

import (
	"net/url"
	"strconv"

	"outlierd/outlier/simulator/library"
)

// Quirk is an oddity of the pages of all searches. Quirks combine: TotalNull |
// SizeIgnored.
type Quirk uint

// The quirks. Without any, total is how many there are, at most 10,000.
const (
	TotalNull     Quirk = 1 << iota // total is null
	TotalGrows                      // by ten with every page
	TotalShrinks                    // by ten with every page, down to none
	TotalStands                     // at 10,000, where counting ends, however few there are
	SizeIgnored                     // a page holds 20 whatever was asked, and says so
	PagesRepeated                   // every page after the first one is the first one again
	PagesEndless                    // after the last one the first follows again, without a seam
)

const (
	maxTotal    = 10_000 // pagination.total counts no further
	defaultSize = 20
)

// paging is how a service cuts pages, by its [Options].
type paging struct {
	items  bool // from counts items
	quirks Quirk
}

func (g paging) has(q Quirk) bool { return g.quirks&q != 0 }

// listing is one page of any search (interface, Pagination object).
type listing[S any] struct {
	Pagination pagination `json:"pagination"`
	Hits       []S        `json:"hits"`
}

// searchAnswer is a page of outliers.
type searchAnswer = listing[library.HitShape]

type pagination struct {
	Total *int  `json:"total"`
	From  int64 `json:"from"`
	Size  int   `json:"size"`
}

// hitPage is one page of the hits that were found in an index.
func hitPage(x *library.Index, found []*library.Hit, p url.Values, g paging) searchAnswer {
	return cutPage(found, p, g, func(h *library.Hit) library.HitShape { return h.Shape(x.At) })
}

// channelPage is one page of the channels that were found.
func channelPage(found []*library.Sample, p url.Values, g paging) listing[library.ChannelShape] {
	return cutPage(found, p, g, (*library.Sample).Shape)
}

// cutPage cuts the page that p asks for out of what was found. The parameters
// have passed the rules.
func cutPage[T, S any](found []T, p url.Values, g paging, shape func(T) S) listing[S] {
	from, size := integerOf(p, "from", 0), integerOf(p, "size", defaultSize)
	if g.has(SizeIgnored) {
		size = defaultSize
	}
	skip := from
	if !g.items {
		skip = from * size
	}
	a := listing[S]{Pagination: pagination{Total: g.total(int64(len(found)), skip/size), From: from, Size: int(size)}, Hits: []S{}}
	for i := range g.places(skip, size, int64(len(found))) {
		a.Hits = append(a.Hits, shape(found[i]))
	}
	return a
}

// total is what the n-th page says of how many there are.
func (g paging) total(there, n int64) *int {
	total := min(there, maxTotal)
	switch {
	case g.has(TotalNull):
		return nil
	case g.has(TotalStands):
		total = maxTotal
	case g.has(TotalGrows):
		total = min(total+10*n, maxTotal)
	case g.has(TotalShrinks):
		total = max(total-10*n, 0)
	}
	return new(int(total))
}

// places are the places of a page among all that was found.
func (g paging) places(skip, size, there int64) func(yield func(int64) bool) {
	if g.has(PagesRepeated) {
		skip = 0
	}
	end := skip + size
	if !g.has(PagesEndless) || there == 0 {
		end = min(end, there)
	}
	return func(yield func(int64) bool) {
		for i := skip; i < end && yield(i%there); i++ {
		}
	}
}

func integerOf(p url.Values, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(p.Get(name), 10, 64)
	if err != nil { // absent; the rules let nothing else through
		return otherwise
	}
	return n
}
