package simulator

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier/simulator/library"
)

// readPages returns the first n pages of 40 of a search that finds 100 to 1,000 hits.
func readPages(t *testing.T, g paging, n int) (pages []searchAnswer) {
	for page := range n {
		from := page
		if g.items {
			from *= 40
		}
		q := url.Values{"query": {"moka pot"}, "size": {"40"}, "from": {fmt.Sprint(from)}}
		pages = append(pages, pageOf(t, q, g))
	}
	return pages
}

func idsOf(pages ...searchAnswer) (ids []string) {
	for _, page := range pages {
		for _, h := range page.Hits {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// mokaPots returns the ids of all hits of that search.
func mokaPots() []string {
	return ids(library.Open(1).Index(Epoch).Find(url.Values{"query": {"moka pot"}}, library.Open(1)))
}

func TestPagesCountPagesOrItems(t *testing.T) {
	whole := mokaPots()
	for _, items := range []bool{false, true} {
		pages := readPages(t, paging{items: items}, len(whole)/40+2)
		for n, a := range pages {
			from := int64(n)
			if items {
				from *= 40
			}
			if diff := cmp.Diff(pagination{new(len(whole)), from, 40}, a.Pagination); diff != "" {
				t.Errorf("items %t: pagination of page %d (-want +got):\n%s", items, n, diff)
			}
		}
		if got := idsOf(pages...); !slices.Equal(got, whole) {
			t.Errorf("items %t: pages contain %d hits, want %d in order", items, len(got), len(whole))
		}
	}
	far := pageOf(t, url.Values{"from": {"9007199254740991"}, "size": {"40"}}, paging{})
	if len(far.Hits) != 0 || far.Hits == nil {
		t.Errorf("the page with the largest from contains %v, want []", far.Hits)
	}
}

func TestQuirksOfTotals(t *testing.T) {
	n := len(mokaPots())
	for _, tt := range []struct {
		quirks Quirk
		want   []*int
	}{
		{0, []*int{&n, &n, &n}},
		{TotalNull, []*int{nil, nil, nil}},
		{TotalGrows, []*int{&n, new(n + 10), new(n + 20)}},
		{TotalShrinks, []*int{&n, new(n - 10), new(n - 20)}},
		{TotalStands, []*int{new(10_000), new(10_000), new(10_000)}},
	} {
		for _, items := range []bool{false, true} {
			var got []*int
			for _, page := range readPages(t, paging{items, tt.quirks}, 3) {
				got = append(got, page.Pagination.Total)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("quirks %b, items %t (-want +got):\n%s", tt.quirks, items, diff)
			}
		}
	}
	far := pageOf(t, url.Values{"from": {"9007199254740991"}}, paging{quirks: TotalShrinks})
	if *far.Pagination.Total != 0 {
		t.Errorf("the total shrinks to %d, want 0 at the end", *far.Pagination.Total)
	}
}

func TestSizeMayBeIgnored(t *testing.T) {
	whole := mokaPots()
	for items, second := range map[bool]int{false: 20, true: 40} { // a client that counts items by its own size misses some
		pages := readPages(t, paging{items, SizeIgnored}, 2)
		if got := idsOf(pages[1]); pages[1].Pagination.Size != 20 || !slices.Equal(got, whole[second:second+20]) {
			t.Errorf("items %t: the second page states size %d and contains %v, want size 20 and %v",
				items, pages[1].Pagination.Size, got, whole[second:second+20])
		}
	}
}

func TestPagesMayRepeat(t *testing.T) {
	whole := mokaPots()
	for _, items := range []bool{false, true} {
		for n, page := range readPages(t, paging{items, PagesRepeated}, 3) {
			if !slices.Equal(idsOf(page), whole[:40]) {
				t.Errorf("items %t: page %d contains %v, want the hits of the first page", items, n, idsOf(page))
			}
		}
	}
}

func TestPagesMayNeverEnd(t *testing.T) {
	whole := mokaPots()
	for _, items := range []bool{false, true} {
		got := idsOf(readPages(t, paging{items, PagesEndless}, 3*len(whole)/40)...)
		for i, id := range got {
			if id != whole[i%len(whole)] {
				t.Fatalf("items %t: hit %d is %s, want %s", items, i, id, whole[i%len(whole)])
			}
		}
		if len(got) < 2*len(whole) || len(got)%40 != 0 {
			t.Errorf("items %t: %d hits, want full pages with at least twice the %d that exist", items, len(got), len(whole))
		}
	}
	a := pageOf(t, url.Values{"channelId": {"none"}}, paging{quirks: PagesEndless})
	if len(a.Hits) != 0 {
		t.Errorf("a search that finds nothing has %d hits", len(a.Hits))
	}
}

func TestQuirksAreOptions(t *testing.T) {
	s := unlimited(Options{Seed: 1, Quirks: TotalNull | SizeIgnored})
	got, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers?size=40")
	if got.Pagination.Total != nil || len(got.Hits) != 20 {
		t.Errorf("pagination %+v, %d hits; want no total and 20 hits", got.Pagination, len(got.Hits))
	}
}
