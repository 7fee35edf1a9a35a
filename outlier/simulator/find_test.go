package simulator

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/outlier/simulator/library"
)

func TestChannelPagesContainEveryChannel(t *testing.T) {
	for _, items := range []bool{false, true} {
		s := unlimited(Options{Seed: 1, PagingItems: items})
		seen := map[string]bool{}
		for from := 0; ; from++ {
			at := from
			if items {
				at *= 40
			}
			a, _ := ask[searchAnswer](t, s.Transport(), "/search/channels?size=40&from="+strconv.Itoa(at))
			if *a.Pagination.Total != library.ChannelCount {
				t.Fatalf("pagination %+v, want a total of %d", a.Pagination, library.ChannelCount)
			}
			if len(a.Hits) == 0 {
				break
			}
			for _, h := range a.Hits {
				seen[h.ID] = true
			}
		}
		const credits = 5 * (library.ChannelCount/40 + 1)
		if got := s.Books().Total.Charged; len(seen) != library.ChannelCount || got != credits {
			t.Errorf("items %t: %d channels for %d credits, want %d for %d", items, len(seen), got, library.ChannelCount, credits)
		}
	}
}

func TestTrendingFormatsChangeDaily(t *testing.T) {
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
			t.Errorf("%d formats, the same in the evening: %t, the next day: %t; want %d, true and false",
				len(monday), gocmp.Equal(monday, evening), gocmp.Equal(monday, tuesday), library.MaxFormats)
		}
		if b := s.Books(); b.Total.Charged != 3 || len(b.UnknownParams) != 0 {
			t.Errorf("charged %d credits, unknown parameters %v; want 3 and none", b.Total.Charged, b.UnknownParams)
		}
	})
}
