package simulator

import (
	"net/url"
	"strconv"
)

// Quirk is an oddity of the pages of all searches. Quirks combine: TotalNull |
// SizeIgnored.
type Quirk uint

// The quirks. Without any, total is the number of results, at most 10,000.
const (
	TotalNull     Quirk = 1 << iota // total is null
	TotalGrows                      // by ten with every page
	TotalShrinks                    // by ten with every page, down to 0
	TotalStands                     // at 10,000, where counting ends, even if there are fewer
	SizeIgnored                     // a page has 20 hits whatever size was asked, and says so
	PagesRepeated                   // every page is the first one
	PagesEndless                    // the first hit follows the last, also within a page
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

func (g paging) hasQuirk(q Quirk) bool { return g.quirks&q != 0 }

// listing is one page of any search (interface, Pagination object).
type listing struct {
	Pagination pagination `json:"pagination"`
	Hits       []any      `json:"hits"`
}

type pagination struct {
	Total *int  `json:"total"`
	From  int64 `json:"from"`
	Size  int64 `json:"size"`
}

// cutPage is the page that p asks for, of as many results as there are. The parameters have been checked.
func (g paging) cutPage(p url.Values, there int, answer func(i int) any) listing {
	from, size := integerOf(p, "from", 0), integerOf(p, "size", defaultSize)
	if g.hasQuirk(SizeIgnored) {
		size = defaultSize
	}
	skip := from
	if !g.items {
		skip = from * size
	}
	total := g.statedTotal(int64(there), skip/size)
	a := listing{Pagination: pagination{Total: total, From: from, Size: size}, Hits: []any{}}
	for i := range g.pageIndexes(skip, size, int64(there)) {
		a.Hits = append(a.Hits, answer(int(i)))
	}
	return a
}

// statedTotal is pagination.total of the n-th page.
func (g paging) statedTotal(there, n int64) *int {
	total := min(there, maxTotal)
	switch {
	case g.hasQuirk(TotalNull):
		return nil
	case g.hasQuirk(TotalStands):
		total = maxTotal
	case g.hasQuirk(TotalGrows):
		total = min(total+10*n, maxTotal)
	case g.hasQuirk(TotalShrinks):
		total = max(total-10*n, 0)
	}
	return new(int(total))
}

// pageIndexes are those of the hits of a page among all found.
func (g paging) pageIndexes(skip, size, there int64) func(yield func(int64) bool) {
	if g.hasQuirk(PagesRepeated) {
		skip = 0
	}
	end := skip + size
	if !g.hasQuirk(PagesEndless) || there == 0 {
		end = min(end, there)
	}
	return func(yield func(int64) bool) {
		for i := skip; i < end && yield(i%there); i++ {
		}
	}
}

func integerOf(p url.Values, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(p.Get(name), 10, 64)
	if err != nil { // absent, since the rules were checked
		return otherwise
	}
	return n
}
