package page

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/marks"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
)

var (
	serveAt = flag.String("serve", "", "address on which TestServeHostile and TestServeSample listen, such as 127.0.0.1:0")
)

// hostile are texts as anybody may write them in a title or a comment.
var hostile = map[string]string{
	"HTML":          `<script>alert(1)</script><img src=x onerror=alert(1)>`,
	"attribute":     `" onmouseover="alert(1)`,
	"right to left": "\u202eevil\u202c \u2067abc",
	"long":          strings.Repeat("long ", 2000),
	"empty":         "",
}

func siteOf(t *testing.T, from Sources) *Site {
	if from.Now == nil {
		from.Now = func(context.Context) (*Now, error) { return &Now{}, nil }
	}
	if from.Questions == nil {
		from.Questions = func() []Question { return nil }
	}
	return New(t.Context(), from, "", slog.New(slog.DiscardHandler))
}

// filled returns a value in which all strings, including those of nested values, are text.
func filled[T any](text string) *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), text)
	return v
}

func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), text)
		fill(v.Index(1), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	}
}

// shows reports the texts that a page lacks, or has although it must not: those that begin with "!".
func shows(t *testing.T, w *httptest.ResponseRecorder, texts ...string) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("HTTP %d %s, want %d", w.Code, w.Body, http.StatusOK)
	}
	for _, text := range texts {
		want, unwanted := strings.CutPrefix(text, "!")
		body := strings.ReplaceAll(w.Body.String(), "&#43;", "+") // the template is cautious
		if strings.Contains(body, want) == unwanted {
			t.Errorf("the page must show %q:\n%s", text, w.Body)
		}
	}
}

// answer returns the answer to a request of a browser without a session.
func answer(s *Site, path string) *httptest.ResponseRecorder {
	return answerTo(s, httptest.NewRequest(http.MethodGet, path, nil))
}

func answerTo(s *Site, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	muxOf(s).ServeHTTP(w, r)
	return w
}

// muxOf serves all pages of a site.
func muxOf(s *Site) *http.ServeMux {
	mux := http.NewServeMux()
	for _, routes := range []map[string]http.HandlerFunc{s.Routes(), s.Open()} {
		for pattern, handler := range routes {
			mux.HandleFunc(pattern, handler)
		}
	}
	return mux
}

func TestNowShowsStatus(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pause := &runs.Pause{Job: "moka & co"}
	from := Sources{Now: func(context.Context) (*Now, error) {
		return &Now{
			Status: forecast.Status{At: at, Process: &forecast.Process{PID: 7}, Refused: []ledger.Block{{Reason: "HTTP 402 <oops>"}},
				Budget: []facts.CapBalance{{}}},
			In: report.Style{Near: true},
			Rows: []Job{
				{JobStatus: forecast.JobStatus{Job: "coffee", Last: &runs.Run{ID: "01a3-1", Status: runs.OK, Ended: at.Add(-30 * time.Minute), NewHits: 40, Hits: 40},
					Due: at.Add(6 * time.Hour), Doing: forecast.JobRunning, Run: "01a3-2"}, DueAt: []time.Time{at.Add(6 * time.Hour)},
					Recent: []runs.Run{{NewHits: 1}, {Status: runs.Failed}, {NewHits: 4}}},
				{JobStatus: forecast.JobStatus{Job: "tea", Why: "a cap of 10 credits <a day> is reached"}, Price: "free"},
				{JobStatus: forecast.JobStatus{Job: "moka & co", Due: at, Paused: pause}},
				{JobStatus: forecast.JobStatus{Job: "games", Last: &runs.Run{ID: "01a2-1", Status: runs.Failed, Error: "HTTP 503 <oops>"},
					Streak: &runs.Streak{Runs: 2}}},
				{JobStatus: forecast.JobStatus{Job: job.OnceMark + "search", Unlisted: true, Doing: forecast.JobWaiting, Run: "01a2-2"}},
			},
			Unconfirmed: []runs.Scan{{Job: "coffee"}},
			Cycle:       &Cycle{From: at.AddDate(0, 0, -22), To: at.AddDate(0, 0, 8), Now: at, Max: 400, Left: 104},
			Runs:        []runs.Run{{ID: "01a2-1", Job: "tea", Status: runs.Failed, Started: at.Add(-26 * time.Hour)}},
			Notifications: []notify.Notification{
				{Event: notify.Event{Time: at, Title: "tea failed", Text: "HTTP 500 <oops>"}, Targets: "team", Waits: true},
			},
		}, nil
	}}
	shows(t, answer(siteOf(t, from), "/now"), "!/do/", "!/login", "Read the run")
	from.Offer = func(context.Context, Action) (*Offer, error) { return nil, nil }
	shows(t, answer(siteOf(t, from), "/now"), "<h1 id=\"headline\">3 things need you</h1>", "1 job at work, the next is due 18:00",
		`<span class="count" title="3 problems">3</span>`, "games failed 2 times.", "HTTP 503 &lt;oops&gt;", "/do/lift", "HTTP 402 &lt;oops&gt;",
		"11:30, 40 new", `href="/runs?job=once%3asearch"`, "!/do/run?job=once",
		"/do/cancel?run=01a3-2", "/do/resume?job=moka%20%26%20co", `class="kbad"`,
		`<rect class="due" x="24.25%"`, `width="26%"`, `<a href="/money">104`, "&lt;a day&gt; is reached", "team</bdi>, waits", "!/do/pause?job=moka")
}

// TestHeaderCallsThePerson on every page, also if the status takes long.
func TestHeaderCallsThePerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := time.Duration(0)
		s := siteOf(t, Sources{
			Now: func(context.Context) (*Now, error) {
				time.Sleep(slow)
				return &Now{}, nil // nothing runs, which is a problem
			},
			Found: func(context.Context, Filter) (*Found, error) { return &Found{Total: 1}, nil },
		})
		shows(t, answer(s, "/found"), `title="1 problem"`)
		time.Sleep(shared)
		slow = time.Minute
		began := time.Now()
		shows(t, answer(s, "/found"), `title="1 problem"`)
		if waited := time.Since(began); waited != glance {
			t.Errorf("the page waited %s for the status, want %s", waited, glance)
		}
		time.Sleep(slow)
	})
}

// TestLoginPageTellsNothing about the state or the data.
func TestLoginPageTellsNothing(t *testing.T) {
	s := siteOf(t, Sources{Now: func(context.Context) (*Now, error) {
		running := forecast.JobStatus{Job: "secret-job", Doing: forecast.JobRunning, Run: "01a3-2"}
		return &Now{Status: forecast.Status{Newest: time.Date(2026, 11, 23, 6, 45, 0, 0, time.UTC)}, Rows: []Job{{JobStatus: running}}}, nil
	}})
	for _, path := range []string{"/login", "/login?ticket=x"} {
		if body := answer(s, path).Body.String(); strings.Contains(body, "secret-job") || strings.Contains(body, "problem") || strings.Contains(body, "06:45") {
			t.Errorf("%s tells the status:\n%s", path, body)
		}
	}
}

func TestMeterLength(t *testing.T) {
	for m, want := range map[Meter]string{{0, 10, 0}: "0%", {7, 10, 0}: "70%", {12, 10, 0}: "100%", {-1, 10, 0}: "0%", {0, 0, 0}: "0%", {1, 3, 0}: "33.33%"} {
		if got := m.Length(); got != want {
			t.Errorf("%+v: length %s, want %s", m, got, want)
		}
	}
}

func TestTimeLineCoversOneDay(t *testing.T) {
	now := &Now{Status: forecast.Status{At: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}}
	for in, want := range map[time.Duration]string{0: "[0%]", -time.Hour: "[0%]", 6 * time.Hour: "[24.25%]", 24 * time.Hour: "[97%]", 24*time.Hour + 1: "[]"} {
		if got := fmt.Sprint(now.Places(Job{DueAt: []time.Time{now.At.Add(in)}})); got != want {
			t.Errorf("due in %s: %s, want %s", in, got, want)
		}
	}
}

func TestFilesAreKeptByBrowsers(t *testing.T) {
	s := siteOf(t, Sources{})
	for address, want := range map[string]string{styleAddress: "public, max-age=31536000, immutable",
		scriptAddress: "public, max-age=31536000, immutable", "/style.css": "no-store", "/page.js?00": "no-store"} {
		if w := answer(s, address); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != want {
			t.Errorf("%s: HTTP %d, Cache-Control: %s, want %s", address, w.Code, w.Header().Get("Cache-Control"), want)
		}
	}
	if len(style) > 30_000 || len(script) > 20_000 {
		t.Errorf("style of %d bytes, script of %d; want at most 30000 and 20000", len(style), len(script))
	}
}

// allOf returns a site whose sources return text in all fields.
func allOf(t *testing.T, text string) *Site {
	return siteOf(t, Sources{
		Now: func(context.Context) (*Now, error) { return filled[Now](text), nil },
		Found: func(_ context.Context, f Filter) (*Found, error) {
			found := filled[Found](text)
			found.Total = 2
			found.Values = map[string][]Option{"topic": *filled[[]Option](text), "language": *filled[[]Option](text)}
			return found, nil
		},
		Runs: func(context.Context, runs.Filter) (*Runs, error) { return filled[Runs](text), nil },
		Run:  func(context.Context, string, int) (*RunDetails, error) { return filled[RunDetails](text), nil },
		Video: func(context.Context, VideoFilter) (*Video, error) {
			v := filled[Video](text)
			v.LineCount = 2
			return v, nil
		},
		Channel:   func(context.Context, ChannelFilter) (*Channel, error) { return filled[Channel](text), nil },
		Niche:     func(context.Context, string) (*Niche, error) { return filled[Niche](text), nil },
		Money:     func(context.Context) (*Money, error) { m := filled[Money](text); m.Cycle = nil; return m, nil },
		Picked:    func(context.Context, []string) ([]Card, error) { return *filled[[]Card](text), nil },
		Ask:       func(context.Context, string) (*query.Rows, error) { return filled[query.Rows](text), nil },
		Questions: func() []Question { return *filled[[]Question](text) },
		Offer:     func(context.Context, Action) (*Offer, error) { return filled[Offer](text), nil },
		Mark:      func(context.Context, marks.Edit) error { return nil },
		Views:     func() ([]marks.View, error) { return *filled[[]marks.View](text), nil },
		SaveView:  func(string, string, string) error { return nil },
		Thumbnails: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = w.Write(icon)
		},
		ImageSources: "'self'",
	})
}

// allPages has an address of each page, with %s for the text of its form.
var allPages = []string{
	"/", "/?q=%s", "/found?query=%s&channel=%[1]s&topic=%[1]s", "/found?as=table&language=%s", "/now", "/runs?job=%s", "/runs/%s",
	"/videos/%s?words=%[1]s", "/channels/%s", "/niches/%s", "/money", "/picked?v=%s", "/views?address=/found%%3Fq=%s", "/ask?sql=%s",
	"/do/run?job=%s", "/do/pause?until=%s&why=%[1]s", "/do/adopt?intent=1&scan=%s",
}

// pathWith returns an address of [allPages] with a text in its form.
func pathWith(path, text string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	return fmt.Sprintf(path, url.PathEscape(cmp.Or(text[:min(len(text), maxField)], "x")))
}

func TestHostileTextIsEscaped(t *testing.T) {
	for name, text := range hostile {
		for _, path := range allPages {
			path = pathWith(path, text)
			s := allOf(t, text)
			w := answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, path, nil)))
			body := w.Body.String()
			for _, mark := range []string{"<script>", "<img src=x", `" on`, "javascript:"} {
				if w.Code != http.StatusOK || strings.Contains(body, mark) {
					t.Errorf("%s on %.30s: HTTP %d, want %d and a page without %s", name, path, w.Code, http.StatusOK, mark)
				}
			}
			// Text of others is isolated in <bdi>, so that its directional marks end with it.
			opened, closed := strings.Count(body, "<bdi"), strings.Count(body, "</bdi>")
			if opened == 0 || closed != opened {
				t.Errorf("%s on %.30s: %d <bdi and %d </bdi>, want as many, and some", name, path, opened, closed)
			}
		}
	}
}

// TestServeHostile serves each of the hostile texts on all pages, logged in, until its standard input ends. .ci/browser
// checks these pages.
func TestServeHostile(t *testing.T) {
	if *serveAt == "" {
		t.Skip("without -serve")
	}
	pages := map[*Site][]string{}
	for _, text := range hostile {
		s := allOf(t, text)
		for _, path := range allPages {
			pages[s] = append(pages[s], pathWith(path, text))
		}
	}
	serveUntilEnd(t, pages)
}

// serveUntilEnd serves pages of sites without a login, until its input ends. It prints their addresses and an empty
// line.
func serveUntilEnd(t *testing.T, pages map[*Site][]string) {
	for s, paths := range pages {
		listener, err := net.Listen("tcp", *serveAt)
		if err != nil {
			t.Fatal(err)
		}
		session := cookieOf(t, answer(s, s.Ticket()))
		mux := muxOf(s)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookieName(r), Value: session.Value}) // whose name has the port
			mux.ServeHTTP(w, r)
		})}
		go func() { _ = server.Serve(listener) }() // until it is closed
		defer server.Close()
		for _, path := range paths {
			fmt.Printf("http://%s%s\n", listener.Addr(), path)
		}
	}
	fmt.Println()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
}

func TestEveryPageHasSecurityHeaders(t *testing.T) {
	eio := errors.New("EIO at 0x7f")
	s := siteOf(t, Sources{
		Now:      func(context.Context) (*Now, error) { return nil, eio },
		Found:    func(context.Context, Filter) (*Found, error) { return nil, eio },
		Runs:     func(context.Context, runs.Filter) (*Runs, error) { return nil, eio },
		Run:      func(context.Context, string, int) (*RunDetails, error) { return nil, eio },
		Video:    func(context.Context, VideoFilter) (*Video, error) { return nil, eio },
		Channel:  func(context.Context, ChannelFilter) (*Channel, error) { return nil, eio },
		Niche:    func(context.Context, string) (*Niche, error) { return nil, eio },
		Money:    func(context.Context) (*Money, error) { return nil, eio },
		Picked:   func(context.Context, []string) ([]Card, error) { return nil, eio },
		Ask:      func(context.Context, string) (*query.Rows, error) { return nil, eio },
		Download: func(context.Context, string, string) (io.ReadCloser, error) { return nil, eio },
	})
	for path, want := range map[string]int{
		"/":                     http.StatusInternalServerError,
		"/now":                  http.StatusInternalServerError,
		"/niches/moka":          http.StatusInternalServerError,
		"/money":                http.StatusInternalServerError,
		"/picked?v=a":           http.StatusInternalServerError,
		"/style.css":            http.StatusOK,
		"/found":                http.StatusInternalServerError,
		"/found?page=x":         http.StatusBadRequest,
		"/runs":                 http.StatusInternalServerError,
		"/runs/01a2":            http.StatusInternalServerError,
		"/runs/01a2?page=x":     http.StatusBadRequest,
		"/videos/v1":            http.StatusInternalServerError,
		"/videos/v1?page=0":     http.StatusBadRequest,
		"/ask":                  http.StatusOK,
		"/ask?sql=x":            http.StatusInternalServerError,
		"/ask/result/csv?sql=x": http.StatusInternalServerError,
		"/ask/result/csv":       http.StatusBadRequest,
		"/channels/c1":          http.StatusInternalServerError,
		"/channels/c1?page=0":   http.StatusBadRequest,
	} {
		w := answer(s, path)
		if w.Code != want || strings.Contains(w.Body.String(), "EIO") {
			t.Errorf("%s: HTTP %d %s, want %d without the error", path, w.Code, w.Body, want)
		}
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Set-Cookie": "",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s: %q, want %q", path, name, got, value)
			}
		}
	}
	for _, name := range []string{"unsafe", "http:", "https:", "data:", "*"} {
		if strings.Contains(policy, name) {
			t.Errorf("the policy allows %s", name)
		}
	}
}

// TestRequestsShareOneStatus: twenty open pages cost as much as one.
func TestRequestsShareOneStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		s := siteOf(t, Sources{Now: func(context.Context) (*Now, error) {
			reads.Add(1)
			time.Sleep(time.Second)
			return &Now{}, nil
		}})
		var asking sync.WaitGroup
		for range 200 {
			asking.Go(func() {
				if w := answer(s, "/now"); w.Code != http.StatusOK {
					t.Errorf("HTTP %d %s", w.Code, w.Body)
				}
			})
		}
		asking.Wait()
		time.Sleep(time.Hour)
		if n := reads.Load(); n != 1 {
			t.Errorf("the status was read %d times for 200 requests at once and an hour without any, want once", n)
		}
	})
}

// TestStatusThatCannotBeRead is in the log with its reason, once; every other page is shown without it.
func TestStatusThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := New(t.Context(), Sources{
		Now:   func(context.Context) (*Now, error) { return nil, errors.New("EIO") },
		Found: func(context.Context, Filter) (*Found, error) { return &Found{Total: 1}, nil },
	}, "", slog.New(slog.NewTextHandler(&log, nil)))
	answer(s, "/now")
	w := answer(s, "/now")
	if body := w.Body.String(); w.Code != http.StatusInternalServerError || !strings.Contains(body, "the log of outlierd up has the reason") ||
		strings.Contains(body, "EIO") {
		t.Errorf("HTTP %d %s, want that the log has the reason", w.Code, body)
	}
	if w := answer(s, "/found"); w.Code != http.StatusOK || strings.Count(log.String(), "err=EIO") != 1 {
		t.Errorf("HTTP %d, and the log %s; want a page, and one line", w.Code, log.String())
	}
}

// TestNextPageShowsActionsResult, also if the state was being read while the action was carried out.
func TestNextPageShowsActionsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state atomic.Value
		state.Store("before")
		s := siteOf(t, Sources{
			Now: func(context.Context) (*Now, error) {
				now := &Now{Status: forecast.Status{Process: &forecast.Process{PID: 7, Command: state.Load().(string)}}}
				time.Sleep(time.Second)
				return now, nil
			},
			Offer: func(context.Context, Action) (*Offer, error) {
				return &Offer{Do: func(context.Context) (string, error) {
					state.Store("after")
					return "/", nil
				}}, nil
			},
		})
		r := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/do/pause?job=coffee", nil))
		form := between(answerTo(s, r).Body.String(), `name="form" value="`, `"`)
		go answer(s, "/now") // as a page that is updated live
		time.Sleep(time.Second / 2)
		p := post("/do/pause", url.Values{"form": {form}, "job": {"coffee"}})
		p.Header["Cookie"] = r.Header["Cookie"]
		if w := answerTo(s, p); w.Code != http.StatusSeeOther {
			t.Fatalf("HTTP %d, want %d", w.Code, http.StatusSeeOther)
		}
		if body := answer(s, "/now").Body.String(); !strings.Contains(body, "after") {
			t.Errorf("the page shows %s, want the state after the action", body)
		}
	})
}
