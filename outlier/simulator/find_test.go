package simulator

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/outlier/simulator/library"
)

func TestPagesOfChannelsHoldAllOfThem(t *testing.T) {
	for _, items := range []bool{false, true} {
		s := unhurried(Options{Seed: 1, PagingItems: items})
		seen := map[string]bool{}
		for from := 0; ; from++ {
			at := from
			if items {
				at *= 40
			}
			a, _ := ask[listing[library.ChannelShape]](t, s.Transport(), "/search/channels?size=40&from="+strconv.Itoa(at))
			if *a.Pagination.Total != library.ChannelCount {
				t.Fatalf("pagination %+v", a.Pagination)
			}
			if len(a.Hits) == 0 {
				break
			}
			for _, h := range a.Hits {
				seen[h.ID] = true
			}
		}
		if len(seen) != library.ChannelCount || s.Books().Total.Charged != 5*(library.ChannelCount/40+1) {
			t.Errorf("items %v: %d channels for %d credits", items, len(seen), s.Books().Total.Charged)
		}
	}
}

func TestFormatsTrendForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 1000, CachePeriod: 1})
		trending := func() []library.Format {
			a, _ := ask[[]library.Format](t, s.Transport(), "/search/trending-formats?language=en&from=1")
			return a
		}
		monday := trending()
		time.Sleep(23 * time.Hour)
		evening := trending()
		time.Sleep(time.Hour)
		tuesday := trending()
		if len(monday) != library.MaxFormats || !gocmp.Equal(monday, evening) || gocmp.Equal(monday, tuesday) {
			t.Errorf("%d formats, the same at night: %v, the next day: %v", len(monday), gocmp.Equal(monday, evening), gocmp.Equal(monday, tuesday))
		}
		if b := s.Books(); b.Total.Charged != 3 || len(b.UnknownParams) != 0 {
			t.Errorf("charged %d, unknown parameters %v", b.Total.Charged, b.UnknownParams)
		}
	})
}
