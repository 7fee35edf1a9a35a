package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/notify"
	"outlierd/sync/serve"
)

// feedSite serves the feeds of two questions.
func feedSite(t *testing.T, published *time.Time, feed func(Question) ([]byte, error)) *Site {
	return siteOf(t, Sources{
		Questions: func() []Question { return []Question{{"Best & worst/?", "select 1"}, {"tea", "select 2"}} },
		PublishedAt: func() (time.Time, error) {
			if published.IsZero() {
				return *published, ErrNothingPublished
			}
			return *published, nil
		},
		Feed: func(_ context.Context, q Question, _ time.Time) ([]byte, error) { return feed(q) },
		Ask: func(_ context.Context, sql string) (*query.Rows, error) {
			return resultOf([]query.Field{{Name: map[bool]string{true: "video_id", false: "title"}[sql == "select 1"]}}, []string{"x"}), nil
		},
	})
}

// TestKnownFeedCostsNoQuery: a reader asks every minute, and the question runs once for each publication and hour.
func TestKnownFeedCostsNoQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		published, asked := time.Now().Add(-90*time.Minute), 0
		s := feedSite(t, &published, func(q Question) ([]byte, error) { asked++; return []byte("feed of " + q.SQL), nil })
		ask := func(header, value string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, Question{Name: "Best & worst/?"}.Feed(), nil)
			r.Header.Set(header, value)
			return answerTo(s, r)
		}
		w := ask("Accept", "*/*")
		if w.Code != 200 || w.Body.String() != "feed of select 1" || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/atom+xml") {
			t.Fatalf("HTTP %d %s %v", w.Code, w.Body, w.Header())
		}
		tag := w.Header().Get("ETag")
		unchanged := func(what string, want bool) {
			t.Helper()
			known := ask("If-None-Match", `"x", W/`+tag)
			if is := known.Code == http.StatusNotModified; is != want || is && known.Body.Len() > 0 {
				t.Errorf("%s: HTTP %d %s, want unchanged: %t", what, known.Code, known.Body, want)
			}
		}
		for range 59 {
			time.Sleep(time.Minute)
			unchanged("within the hour", true)
		}
		if asked != 1 {
			t.Errorf("the question ran %d times, want once", asked)
		}
		if w := ask("If-None-Match", `"other"`); w.Code != 200 || w.Header().Get("ETag") != tag {
			t.Errorf("another tag: HTTP %d with %s, want 200 with %s", w.Code, w.Header().Get("ETag"), tag)
		}
		published = time.Now()
		unchanged("after a publication", false)
		w = ask("Accept", "*/*")
		tag = w.Header().Get("ETag")
		unchanged("after it", true)
		time.Sleep(time.Minute)
		unchanged("in the next hour", false)
	})
}

func TestRefusedFeedSaysWhy(t *testing.T) {
	published := time.Now()
	var why error
	s := feedSite(t, &published, func(Question) ([]byte, error) { return nil, why })
	for _, c := range []struct {
		path string
		err  error
		code int
		says string
	}{
		{"/feed/coffee.atom", nil, 404, "No question of the job file has a feed at &#34;/feed/coffee.atom&#34;"},
		{"/feed/tea", nil, 404, "No question"},
		{"/feed/%3Cscript%3E.atom", nil, 404, "No question of the job file has a feed at &#34;/feed/&lt;script&gt;.atom&#34;"},
		{"/feed/tea.atom", notify.ErrNoFeed, 404, "a feed needs SQL that selects video_id and one of first_seen_at, observed_at, published_at."},
		{"/feed/tea.atom", serve.Refuse(http.StatusConflict, "there is no column <b>"), 409, "there is no column &lt;b&gt;"},
		{"/feed/tea.atom", context.DeadlineExceeded, 503, "took too long"},
	} {
		why = c.err
		w := answer(s, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("ETag") != "" {
			t.Errorf("%s: HTTP %d %s %v, want %d with %s and no tag", c.path, w.Code, w.Body, w.Header(), c.code, c.says)
		}
	}
	published = time.Time{}
	if w := answer(s, "/feed/tea.atom"); w.Code != 404 || !strings.Contains(w.Body.String(), "no published DuckDB file") {
		t.Errorf("HTTP %d %s, want 404 while nothing is published", w.Code, w.Body)
	}
}

func TestQuestionWithVideosLinksItsFeed(t *testing.T) {
	published := time.Now()
	s := feedSite(t, &published, nil)
	const address = "/feed/Best%20&amp;%20worst%2F%3F.atom"
	shows(t, answer(s, "/ask?sql=select+1"), `<link rel="alternate" type="application/atom+xml" href="`+address+`">`, `<a href="`+address+`">Feed</a>`)
	shows(t, answer(s, "/ask?sql=select+2"), "!/feed/")
	shows(t, answer(s, "/ask?sql=select+3"), "!/feed/")
}
