package page

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/internal/figures"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/forecast"
	"outlierd/sync/marks"
)

// foundSite returns a site that finds outliers with find.
func foundSite(t *testing.T, find func(context.Context, Filter) (*Found, error)) *Site {
	return siteOf(t, Sources{Found: find})
}

// cardsOf returns outliers with these ids.
func cardsOf(ids ...string) (all []Card) {
	for _, id := range ids {
		all = append(all, Card{ID: id, Title: "title of " + id})
	}
	return all
}

func TestFoundShowsCards(t *testing.T) {
	views, ratio, subscribers, seconds := int64(1234567), 41.2, int64(9400), int64(522)
	s := foundSite(t, func(_ context.Context, f Filter) (*Found, error) {
		return &Found{Total: 1201, SQL: "SELECT 1", Cards: []Card{
			{ID: "v0000000001", ChannelID: "UC1", Title: "Moka pot & fire", Channel: "Coffee", Kind: "video", Views: &views, Ratio: &ratio,
				Median: &ratio, Seconds: &seconds, Subscribers: &subscribers, OneHit: true, Published: time.Now().AddDate(0, 0, -16), Mark: marks.Mark{Starred: true}},
			{ID: "v0000000002", Title: "v0000000002"}, // all other columns are NULL
		}, Views: viewsOf(40, "New this week", "/", 1201, "Everything", "/found", 7, "Hooks <3", "/found?kind=short")}, nil
	})
	shows(t, answer(s, "/found"), "<h1>1\u202f201 outliers</h1>", `<b class="times t4" title="41.2 times the channel’s average views">41×`,
		`<rect class="f4" width="80.74%"`, "title=\"1\u202f234\u202f567 views\">1.2M<", ">9.4K<", ">2 wk<", "one-hit", "Moka pot &amp; fire",
		`/videos/v0000000001?in=%2Ffound&amp;n=1`, `aria-label="starred"`, "Hooks &lt;3", `<a href="/found" aria-current="page">`,
		`rel="next"`, "!rel=\"prev\"", "!<img", `class="grid words"`, "!name=\"star\"", `/ask/result/xlsx?sql=SELECT+1`)
	s.from.Thumbnails, s.from.ImageSources = func(http.ResponseWriter, *http.Request) {}, "'self'"
	w := answer(s, "/found")
	shows(t, w, `<img src="/thumbnails/v0000000001?s=320" alt="" width="480" height="270"`, `<span class="len">8:42</span>`)
	if got := w.Header().Get("Content-Security-Policy"); got != policy+"; img-src 'self'" {
		t.Errorf("the policy is %q", got)
	}
	shows(t, answer(s, "/found?as=table&order=views"), `aria-sort="descending"><a class="sort" href="/found?as=table&amp;order=views">Views ↓</a>`,
		"1\u202f234\u202f567", ">Grid</a>")
}

func TestVisitorLearnsHowToLogIn(t *testing.T) {
	find := func(context.Context, Filter) (*Found, error) {
		return &Found{Total: 1, Hidden: 6, Cards: cardsOf("a")}, nil
	}
	s := siteOf(t, Sources{Found: find, Offer: func(context.Context, Action) (*Offer, error) { return nil, nil }})
	shows(t, answer(s, "/found"), "To star, tag, save views or run jobs, log in", `href="/found?show=hidden"`)
	shows(t, answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/found", nil))), "!log in:", ">Logged in<")
	shows(t, answer(foundSite(t, find), "/found"), "!log in:", "!/login") // daemon.ui: view
}

func TestMenusCountAndToggle(t *testing.T) {
	s := foundSite(t, func(context.Context, Filter) (*Found, error) {
		return &Found{Total: 3, Cards: cardsOf("a"), Values: map[string][]Option{
			"topic":    {{Value: "moka pot", Count: 11}, {Value: "tea & milk", Count: 8}},
			"ratio":    {{Value: "30", Count: 5}},
			"language": {{Value: "de", Count: 4}},
		}}, nil
	})
	shows(t, answer(s, "/found?topic=moka+pot&topic=gone&page=3"),
		`<summary><bdi>moka pot +1</bdi></summary>`, `href="/found?topic=gone" aria-current="true"`, // what is chosen can be removed
		`href="/found?topic=moka+pot&amp;topic=gone&amp;topic=tea+%26+milk"`, `href="/found?ratio=30&amp;topic=moka+pot&amp;topic=gone"`,
		`<bdi>German</bdi>`, `<span class="n">11</span>`, `<input type="hidden" name="topic" value="moka pot">`)
	shows(t, answer(s, "/found?ratio=30&job=x"), `href="/found?job=x" aria-current="true"`, `<a class="chip on" href="/found?ratio=30"><bdi>job: x</bdi> ✕</a>`)
}

// TestNothingNewShowsEverything, and says since when nothing is new.
func TestNothingNewShowsEverything(t *testing.T) {
	s := foundSite(t, func(_ context.Context, f Filter) (*Found, error) {
		if f.Show == ShowNew {
			return &Found{}, nil
		}
		return &Found{Total: 1, Cards: cardsOf("a"), Newest: time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)}, nil
	})
	shows(t, answer(s, "/"), "<h1>Nothing new since 14 November</h1>", "title of a", `in=%2Ffound&amp;n=1`)
}

// TestNoMatchOffersToRemoveFilters that exclude everything.
func TestNoMatchOffersToRemoveFilters(t *testing.T) {
	s := foundSite(t, func(_ context.Context, f Filter) (*Found, error) {
		switch {
		case f.Words == "":
			return &Found{Total: 12}, nil
		case len(f.Chosen["language"]) == 0:
			return &Found{Total: 1}, nil
		}
		return &Found{}, nil
	})
	shows(t, answer(s, "/found?q=oat&language=de&ratio=30"), "No video matches all filters",
		`<a class="chip" href="/found?language=de&amp;ratio=30"><bdi>“oat”</bdi> ✕ <span class="n quiet">12</span></a>`,
		`<a class="chip" href="/found?q=oat&amp;ratio=30"><bdi>language: German</bdi> ✕ <span class="n quiet">1</span></a>`, "!ratio: 30")
}

// viewsOf returns views: for each its count, name and address.
func viewsOf(all ...any) (views []Link) {
	for i := 0; i < len(all); i += 3 {
		views = append(views, Link{Text: all[i+1].(string), Address: all[i+2].(string), Count: new(int64(all[i].(int)))})
	}
	return views
}

func TestFirstRunIsAnnounced(t *testing.T) {
	from := Sources{
		Found: func(context.Context, Filter) (*Found, error) { return nil, ErrNothingPublished },
		Now: func(context.Context) (*Now, error) {
			return &Now{Rows: []Job{{JobStatus: forecast.JobStatus{Job: "coffee", After: "tea"}, Price: "≤ 10 credits"}}}, nil
		},
		Offer: func(context.Context, Action) (*Offer, error) { return nil, nil },
	}
	s := siteOf(t, from)
	shows(t, answer(s, "/now"))
	shows(t, answer(s, "/"), "Nothing is here yet", "after tea", `href="/do/run?job=coffee"`, "≤ 10 credits")
	from.Now = func(context.Context) (*Now, error) {
		return &Now{Rows: []Job{{JobStatus: forecast.JobStatus{Job: "coffee", Doing: forecast.JobRunning, Run: "01a3"}}}}, nil
	}
	s = siteOf(t, from)
	shows(t, answer(s, "/now"))
	shows(t, answer(s, "/"), "Your first outliers are on their way", `id="live"`)
}

func TestFilterFromAddress(t *testing.T) {
	none := map[string][]string{}
	for address, want := range map[string]Filter{
		"/":                                {Show: ShowNew, Outliers: query.Outliers{Order: "ratio", Chosen: none}},
		"/found":                           {Show: ShowAll, Outliers: query.Outliers{Order: "ratio", Chosen: none}},
		"/?seed=v1":                        {Show: ShowAll, Outliers: query.Outliers{Order: "ratio", Chosen: map[string][]string{"seed": {"v1"}}}},
		"/found?show=starred&q=+oat+milk+": {Show: ShowStarred, Outliers: query.Outliers{Words: "oat milk", Order: "ratio", Chosen: none}},
		"/found?query=moka&ratio=0.5&days=7&order=views&kind=short&language=en&channel=c&job=j": {Show: ShowAll, Outliers: query.Outliers{Order: "views",
			Chosen: map[string][]string{"ratio": {"0.5"}, "days": {"7"}, "kind": {"short"}, "language": {"en"}, "query": {"moka"}, "job": {"j"}, "channel": {"c"}}}},
		"/found?topic=b&topic=a&topic=b&as=table&other=1": {Show: ShowAll, Table: true,
			Outliers: query.Outliers{Order: "ratio", Chosen: map[string][]string{"topic": {"b", "a"}}}},
	} {
		want.Page, want.Limit = 1, PerPage
		got, err := FilterOf(address)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Filter{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", address, err, diff)
		}
		if back, err := FilterOf(got.address(1)); err != nil || !cmp.Equal(got, back, cmp.AllowUnexported(Filter{})) {
			t.Errorf("%s: its address %s: got %+v, %v", address, got.address(1), back, err)
		}
	}
}

// TestVideoLeadsThroughItsList, also over the border of a page.
func TestVideoLeadsThroughItsList(t *testing.T) {
	ids := []string{}
	for i := range 100 {
		ids = append(ids, fmt.Sprint("v", i+1))
	}
	s := siteOf(t, Sources{
		Found: func(_ context.Context, f Filter) (*Found, error) {
			return &Found{Total: 100, Cards: cardsOf(ids[f.Offset:min(100, f.Offset+f.Limit)]...), Views: viewsOf(100, "Shorts", "/found?kind=short")}, nil
		},
		Video: func(_ context.Context, f VideoFilter) (*Video, error) {
			return &Video{Card: Card{ID: f.ID, Title: f.ID}}, nil
		},
	})
	way := func(id string, n int) string { return html.EscapeString(videoAddress(id, "/found?kind=short", n)) }
	for n, want := range map[int][]string{
		1:   {"1 of 100", way("v2", 2), `!rel="prev"`},
		48:  {"<bdi>Shorts</bdi></a> · 48 of 100", way("v47", 47), way("v49", 49)},
		100: {way("v99", 99), `!rel="next"`},
	} {
		shows(t, answer(s, videoAddress(ids[n-1], "/found?kind=short", n)), want...)
	}
	for _, strange := range []string{"/videos/v1?in=https://evil.example/&n=1", "/videos/v1?in=/ask&n=1", "/videos/v1?in=/&n=0", "/videos/v1?in=/found%3Forder%3Dx&n=2"} {
		shows(t, answer(s, strange), `!rel="next"`, "!evil")
	}
}

func TestInvalidFilterIsRefused(t *testing.T) {
	s := foundSite(t, func(context.Context, Filter) (*Found, error) {
		t.Error("the tables were queried")
		return &Found{}, nil
	})
	for form, says := range map[string]string{
		"ratio=many": `ratio: must be a number from 0 to 1000000, got "many"`, "ratio=-1": "ratio:", "ratio=NaN": "ratio:",
		"days=x": "days:", "days=1e9": "days:", "show=x": "show:", "page=-1": "page:", "page=99999999999999999999": "page:",
		"order=title%3B--": `order: unknown value "title;--"`, "query=" + strings.Repeat("x", 501): `"query": 501 characters are too many`,
		"q=%00": `"q": must be text`, "job=a&job=%ff": `"job": must be text`,
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
		f, err := FilterOf("/found?kind=short&page=" + fmt.Sprint(c.page))
		if err != nil {
			t.Fatal(err)
		}
		v := Found{Total: c.total, Filter: f}
		if diff := cmp.Diff([]string{c.previous, c.next}, []string{v.Pages().Previous, v.Pages().Next}); diff != "" {
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
			return &Found{Total: 1}, nil
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
			case <-time.After(map[string]time.Duration{"1": 40 * time.Millisecond, "1000": time.Minute}[f.Chosen["days"][0]]):
				return &Found{Total: 1}, nil
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
		if got := strings.ReplaceAll(formatThousands(n), "\u202f", " "); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNumbersForAGlance(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 612: "612", 999: "999", 1000: "1K", 9400: "9.4K", 9999: "10K", 183_900: "184K", 999_950: "1M", 1_234_567: "1.2M", 2_500_000_000: "2.5B"} {
		if got := formatShort(&n); got != want {
			t.Errorf("short(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0.5: "0.5×", 3: "3×", 9.64: "9.6×", 9.96: "10×", 41.2: "41×"} {
		if got := formatTimes(&n); got != want {
			t.Errorf("times(%g) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{22_100: "+22K/d", -512: "−512/d", 0: "+0/d"} {
		if got := formatGained(&n); got != want {
			t.Errorf("gained(%g) = %q, want %q", n, got, want)
		}
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for days, want := range map[int]string{0: "0 h", 9: "9 d", 13: "13 d", 16: "2 wk", 59: "8 wk", 70: "2 mo", 800: "2 y"} {
		if got := figures.Age(now, now.AddDate(0, 0, -days)); got != want {
			t.Errorf("%d days: %q, want %q", days, got, want)
		}
	}
	for ratio, want := range map[float64]string{0.2: "0%", 1: "0%", 10: "50%", 100: "100%", 4000: "100%"} {
		if got := onRuler(ratio); got != want {
			t.Errorf("onRuler(%g) = %q, want %q", ratio, got, want)
		}
	}
}

func TestAxesHaveRoundNumbers(t *testing.T) {
	for most, want := range map[float64]string{0: "0 1", 1: "0 1", 4: "0 1 2 3 4", 13: "0 5 10 15", 389_000: "0 100K 200K 300K 400K", 1000: "0 200 400 600 800 1K", 60: "0 20 40 60"} {
		var got []string
		for _, tick := range upTo(most).ticks() {
			got = append(got, tick.Text)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("up to %g: %s, want %s", most, text, want)
		}
	}
}

// TestWordsCanBeSearchedForOnce: by somebody who may spend, and what they typed is data.
func TestWordsCanBeSearchedForOnce(t *testing.T) {
	s := siteOf(t, Sources{
		Found: func(context.Context, Filter) (*Found, error) { return &Found{}, nil },
		Offer: func(context.Context, Action) (*Offer, error) { return nil, nil },
	})
	const path, offered = "/found?q=%3Ctea%3E+%26+milk", `href="/do/search?query=%3ctea%3e%20%26%20milk"`
	shows(t, answer(s, path), "!/do/search")
	shows(t, answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, path, nil))), offered)
	shows(t, answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/found", nil))), "!/do/search")
}
