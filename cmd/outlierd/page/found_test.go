package page

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// foundSite returns a site that finds outliers with find.
func foundSite(t *testing.T, find func(context.Context, Filter) (*Found, error)) *Site {
	return siteOf(t, Sources{Found: find})
}

func TestFoundShowsOutliers(t *testing.T) {
	views, ratio := int64(1234567), 12.34
	golden(t, answer(foundSite(t, func(context.Context, Filter) (*Found, error) {
		return &Found{Total: 1201, Outliers: []Outlier{
			{ID: "v0000000001", ChannelID: "UC1", Curve: []int64{5, 10, 30}, Title: "Moka pot & fire",
				Link: "https://youtu.be/v0000000001", Channel: "Coffee", Kind: "video", Language: "en",
				Views: &views, Ratio: &ratio, Score: &ratio, Published: "2026-11-01 08:00", Found: "2026-11-23 12:00"},
			{ID: "v0000000002", Title: "v0000000002"}, // all other columns are NULL
		}}, nil
	}), "/found?kind=video&ratio=2.5&days=30&order=ratio&page=2&channel=%40coffee"), "found.html")
}

// TestMapPlacesOutliers by age and ratio, and leaves out those without a positive age and ratio.
func TestMapPlacesOutliers(t *testing.T) {
	of := func(id string, age, ratio float64) Outlier {
		return Outlier{ID: id, Title: id, Age: age, Ratio: &ratio}
	}
	for name, c := range map[string]struct {
		all     []Outlier
		dots    string
		unknown int
	}{
		"corners":  {[]Outlier{of("a", 1, 1), of("b", 100, 100), of("c", 10, 10)}, "a 0,400; b 960,0; c 480,200; ", 0},
		"alone":    {[]Outlier{of("a", 3, 5)}, "a 0,400; ", 0},
		"no place": {[]Outlier{of("a", 0, 5), of("b", 5, 0), of("c", -1, 3), {ID: "d", Age: 3}}, "", 4},
		"empty":    {nil, "", 0},
	} {
		v := mapped(c.all)
		dots := ""
		for _, d := range v.Dots {
			dots += fmt.Sprintf("%s %d,%d; ", d.ID, d.X, d.Y)
		}
		if dots != c.dots || v.Unknown != c.unknown {
			t.Errorf("%s: got %q, %d left out; want %q, %d left out", name, dots, v.Unknown, c.dots, c.unknown)
		}
	}
}

func TestFoundShowsAMap(t *testing.T) {
	few, many := 1.5, 120.0
	golden(t, answer(foundSite(t, func(_ context.Context, f Filter) (*Found, error) {
		if !f.Map {
			t.Errorf("the filter is %+v, want one with Map", f)
		}
		return &Found{Total: 3, Outliers: []Outlier{
			{ID: "v0000000001", Title: "Moka pot & fire", Kind: "video", Ratio: &few, Age: 2, Published: "2026-11-22"},
			{ID: "v0000000002", Title: "<b>", Kind: "short", Ratio: &many, Age: 400, Published: "2025-10-20"},
			{ID: "v0000000003", Title: "unknown"},
		}}, nil
	}), "/found?as=map&kind=video"), "map.html")
}

func TestFilterFromForm(t *testing.T) {
	for form, want := range map[string]Filter{
		"":                     {Order: "found", Page: 1},
		"query=+moka+pot&job=": {Query: "moka pot", Order: "found", Page: 1},
		"ratio=0.5&days=7&page=3&order=views&kind=short&language=en&channel=c&job=j": {
			Job: "j", Channel: "c", Kind: "short", Language: "en", Ratio: .5, Days: 7, Order: "views", Page: 3},
		"as=map&ratio=3": {Order: "found", Page: 1, Map: true, Ratio: 3},
		"other=1":        {Order: "found", Page: 1},
	} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		got, err := filterOf(values)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", form, got, err, want)
		}
		again, err := url.Parse(got.address(got.Page))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := filterOf(again.Query()); err != nil || back != got {
			t.Errorf("%s: its address %s: got %+v, %v, want %+v", form, again, back, err, got)
		}
	}
}

func TestInvalidFilterIsRefused(t *testing.T) {
	s := foundSite(t, func(context.Context, Filter) (*Found, error) {
		t.Error("the tables were queried")
		return &Found{}, nil
	})
	for form, says := range map[string]string{
		"ratio=many": `ratio: must be a number of at least 0, got "many"`, "ratio=-1": "ratio:", "ratio=NaN": "ratio:",
		"days=0": "days:", "days=1e9": "days:", "page=-1": "page:", "page=99999999999999999999": "page:",
		"order=title%3B--": `order: unknown value "title;--"`, "query=" + strings.Repeat("x", 501): `"query": 501 characters are too many`,
	} {
		if w := answer(s, "/found?"+form); w.Code != http.StatusBadRequest || !strings.Contains(html.UnescapeString(w.Body.String()), says) {
			t.Errorf("%s: HTTP %d %s, want %d with %s", form, w.Code, w.Body, http.StatusBadRequest, says)
		}
	}
}

func TestLinksToPreviousAndNextPage(t *testing.T) {
	for _, c := range []struct {
		page           int
		total          int64
		previous, next string
	}{
		{1, 0, "", ""}, {1, PerPage, "", ""}, {1, PerPage + 1, "", "/found?kind=short&page=2"},
		{2, PerPage + 1, "/found?kind=short", ""}, {3, 1000, "/found?kind=short&page=2", "/found?kind=short&page=4"},
	} {
		v := foundView{Found: &Found{Total: c.total}, Filter: Filter{Kind: "short", Order: "found", Page: c.page}}
		if diff := cmp.Diff([]string{c.previous, c.next}, []string{v.Previous(), v.Next()}); diff != "" {
			t.Errorf("page %d of %d (-want +got):\n%s", c.page, c.total, diff)
		}
	}
}

func TestFoundReportsUnreadableTables(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"not published": {ErrNothingPublished, http.StatusOK, "there is no published DuckDB file yet"},
		"damaged":       {errors.New("block 7 is damaged"), http.StatusInternalServerError, "the log of outlierd up has the reason"},
	} {
		w := answer(foundSite(t, func(context.Context, Filter) (*Found, error) { return nil, c.err }), "/found")
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "block 7") {
			t.Errorf("%s: HTTP %d %s, want %d with %q and without the error", name, w.Code, w.Body, c.code, c.says)
		}
	}
}

// TestConcurrentRequestsShareOneQuery, which continues if the client that started it disconnects.
func TestConcurrentRequestsShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := 0
		s := foundSite(t, func(context.Context, Filter) (*Found, error) {
			queries++
			time.Sleep(time.Second)
			return &Found{}, nil
		})
		ctx, disconnect := context.WithCancel(t.Context())
		go answerTo(s, httptest.NewRequestWithContext(ctx, http.MethodGet, "/found", nil))
		synctest.Wait()
		var asking sync.WaitGroup
		for range 200 {
			asking.Go(func() {
				if w := answer(s, "/found"); w.Code != http.StatusOK {
					t.Errorf("HTTP %d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		disconnect()
		asking.Wait()
		if queries != 1 {
			t.Errorf("%d queries, want 1", queries)
		}
	})
}

// TestQueriesAreLimited: each query needs memory, so that the others wait, for a limited time.
func TestQueriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			now += by
			most = max(most, now)
		}
		s := foundSite(t, func(ctx context.Context, f Filter) (*Found, error) {
			count(1)
			defer count(-1)
			select {
			case <-time.After(time.Duration(f.Days) * 40 * time.Millisecond):
				return &Found{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		ask := func(path string, want int) {
			var asking sync.WaitGroup
			for i := range 200 {
				asking.Go(func() {
					if w := answer(s, fmt.Sprint(path, "&page=", i+1)); w.Code != want {
						t.Errorf("%s: HTTP %d %s, want %d", path, w.Code, w.Body, want)
					}
				})
			}
			asking.Wait()
		}
		ask("/found?days=1", http.StatusOK)
		ask("/found?days=1000", http.StatusServiceUnavailable)
		if most != 1 || now != 0 {
			t.Errorf("%d queries at once, %d still running; want 1 and 0", most, now)
		}
	})
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", -123456: "-123 456", 1234567890: "1 234 567 890"} {
		if got := strings.ReplaceAll(thousands(n), "\u202f", " "); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
