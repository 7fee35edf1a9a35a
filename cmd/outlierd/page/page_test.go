package page

import (
	"bytes"
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
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	serve  = flag.String("serve", "", "address on which TestServeHostile listens, such as 127.0.0.1:0")
)

// hostile are texts as anybody may write them in a title or a comment.
var hostile = map[string]string{
	"HTML":          `<script>alert(1)</script><img src=x onerror=alert(1)>`,
	"attribute":     `" onmouseover="alert(1)`,
	"right to left": "\u202eevil\u202c \u2067abc",
	"long":          strings.Repeat("long ", 2000),
}

func siteOf(t *testing.T, from Sources) *Site {
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

// golden compares an answer with a golden file.
func golden(t *testing.T, w *httptest.ResponseRecorder, name string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, w.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); w.Code != http.StatusOK || got != string(want) {
		t.Errorf("HTTP %d\n%s\nwant %d with %s; -update writes the file", w.Code, got, http.StatusOK, file)
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
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	from := Sources{Now: func(context.Context) (*Now, error) {
		return &Now{
			At: "2026-11-23 12:00 UTC", Time: at, Process: "process 7 since 2026-11-23 11:00 UTC: outlierd up",
			Notices: []string{"calls wait for room on the disk"},
			Jobs: []Job{
				{Name: "coffee", Run: "01a3-1", Last: "ok, 11:30, 40 new", Due: "18:00", DueAt: at.Add(6 * time.Hour),
					Doing: "running", Working: "01a3-2", Scheduled: true},
				{Name: "tea", Last: "never", Due: "by hand", Doing: "waiting",
					Why: "a cap of 10 credits <a day> is reached", Queued: true},
				{Name: "moka & co", Last: "never", Due: "paused until resumed", Doing: "–", Scheduled: true, Paused: true},
			},
			Blocked: true, Scans: []Scan{{7, "a start was not confirmed"}},
			Facts: []Fact{
				{"budget", "976 of 1000 credits left", &Meter{24, 1000}}, {"pace", "10/min", &Meter{7, 10}},
				{"", "outlierd runs 01a2", nil},
			},
			Cycle: &Cycle{From: month, To: month.AddDate(0, 1, 0), Max: 1000,
				Left: []Point{{month.AddDate(0, 0, 15), 900}, {at, 400}}},
			Troubles: []Run{{ID: "01a2-1", Short: "01a2", Job: "tea", Status: "failed", Started: "2026-11-22 10:00",
				Error: "HTTP 500 <oops>"}},
			Notifications: []Notification{
				{At: "2026-11-22 10:01", Title: "tea failed", Text: "HTTP 500 <oops>", Targets: "team", Waits: true},
				{At: "2026-11-21 08:00", Title: "3 new rows of breakout", Targets: "team, phone"},
			},
		}, nil
	}}
	if body := answer(siteOf(t, from), "/").Body.String(); strings.Contains(body, "/do/") || strings.Contains(body, "/login") {
		t.Errorf("a site without actions links to actions or to the login:\n%s", body)
	}
	from.Offer = func(context.Context, Action) (*Offer, error) { return nil, nil }
	from.Do = func(context.Context, Action) (*Done, error) { return nil, nil }
	golden(t, answer(siteOf(t, from), "/"), "now.html")
}

func TestMeterLength(t *testing.T) {
	for m, want := range map[Meter]int64{{0, 10}: 0, {7, 10}: 700, {12, 10}: 1000, {-1, 10}: 0, {0, 0}: 0, {5, -1}: 0, {1, 3}: 333} {
		if got := m.Length(); got != want {
			t.Errorf("%+v: length %d, want %d", m, got, want)
		}
	}
}

func TestTimeLineCoversOneDay(t *testing.T) {
	now := &Now{Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	for in, want := range map[time.Duration]int64{0: 0, -time.Hour: 0, 6 * time.Hour: 250, 24 * time.Hour: 990, 24*time.Hour + 1: -1} {
		if got := now.Place(Job{DueAt: now.Time.Add(in)}); got != want {
			t.Errorf("due in %s: place %d, want %d", in, got, want)
		}
	}
	if got := now.Place(Job{}); got != -1 {
		t.Errorf("not due: place %d, want -1", got)
	}
}

func TestCycleLineAndEvenSpending(t *testing.T) {
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return from.AddDate(0, 0, n) }
	for name, c := range map[string]struct {
		left []Point
		line string
		even int64
	}{
		"start":      {[]Point{{from, 900}}, "0,0 0,0", 900},
		"middle":     {[]Point{{day(10), 800}, {day(15), 0}}, "0,0 333,12 500,100", 450},
		"overdrawn":  {[]Point{{day(15), -50}}, "0,0 500,100", 450},
		"late clock": {[]Point{{day(40), 100}}, "0,0 1000,89", -300},
	} {
		cycle := &Cycle{From: from, To: day(30), Max: 900, Left: c.left}
		if line, even := cycle.Line(), cycle.Even(); line != c.line || even != c.even {
			t.Errorf("%s: line %q, even %d; want %q, %d", name, line, even, c.line, c.even)
		}
	}
}

// allOf returns a site whose sources return text in all fields.
func allOf(t *testing.T, text string) *Site {
	return siteOf(t, Sources{
		Now: func(context.Context) (*Now, error) {
			now := filled[Now](text)
			now.Cycle = &Cycle{Left: []Point{{}}}
			return now, nil
		},
		Found: func(context.Context, Filter) (*Found, error) {
			found := filled[Found](text)
			for i := range found.Outliers {
				found.Outliers[i].Age, *found.Outliers[i].Ratio = 1, 3
			}
			return found, nil
		},
		Runs:    func(context.Context, RunFilter) (*Runs, error) { return filled[Runs](text), nil },
		Run:     func(context.Context, string) (*RunDetails, error) { return filled[RunDetails](text), nil },
		Video:   func(context.Context, VideoFilter) (*Video, error) { return filled[Video](text), nil },
		Channel: func(context.Context, ChannelFilter) (*Channel, error) { return filled[Channel](text), nil },
		Ask:     func(context.Context, string) (*Result, error) { return filled[Result](text), nil },
		Tables:  *filled[[]Table](text), Questions: func() []Question { return *filled[[]Question](text) },
		Offer: func(context.Context, Action) (*Offer, error) { return filled[Offer](text), nil },
		Do:    func(context.Context, Action) (*Done, error) { return &Done{Message: text, To: "/"}, nil },
	})
}

// allPages has an address of each page, with %s for the text of its form.
var allPages = []string{
	"/", "/found?query=%s&channel=%[1]s", "/found?as=map&query=%s", "/runs?job=%s", "/runs/%s",
	"/videos/%s?words=%[1]s", "/channels/%s", "/ask?sql=%s", "/ask?as=chart&sql=%s",
	"/do/run?job=%s", "/do/pause?until=%s&why=%[1]s", "/do/adopt?intent=1&scan=%s",
}

// pathWith returns an address of [allPages] with a text in its form.
func pathWith(path, text string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	return fmt.Sprintf(path, url.PathEscape(text[:min(len(text), longest)]))
}

func TestHostileTextIsEscaped(t *testing.T) {
	for name, text := range hostile {
		for _, path := range allPages {
			path = pathWith(path, text)
			s := allOf(t, text)
			w := answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, path, nil)))
			body := w.Body.String()
			for _, mark := range []string{"<script>", "<img", `" on`, "javascript:"} {
				if w.Code != http.StatusOK || strings.Contains(body, mark) {
					t.Errorf("%s on %.30s: HTTP %d, want %d and a page without %s", name, path, w.Code, http.StatusOK, mark)
				}
			}
			// Text of others is isolated in <bdi>, so that its directional marks end with it.
			opened, closed := strings.Count(body, "<bdi"), strings.Count(body, "</bdi>")
			if opened == 0 && !strings.Contains(path, "as=map") || closed != opened {
				t.Errorf("%s on %.30s: %d <bdi and %d </bdi>, want as many, and some", name, path, opened, closed)
			}
		}
	}
}

// TestServeHostile serves each of the hostile texts on all pages, without a login, until its standard
// input ends. It prints the addresses and an empty line for .ci/browser, which checks the pages.
func TestServeHostile(t *testing.T) {
	if *serve == "" {
		t.Skip("without -serve")
	}
	for _, text := range hostile {
		listener, err := net.Listen("tcp", *serve)
		if err != nil {
			t.Fatal(err)
		}
		s := allOf(t, text)
		session := cookieOf(t, answer(s, s.Ticket()))
		mux := muxOf(s)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.AddCookie(session)
			mux.ServeHTTP(w, r)
		})}
		go func() { _ = server.Serve(listener) }() // until it is closed
		defer server.Close()
		for _, path := range allPages {
			fmt.Printf("http://%s%s\n", listener.Addr(), pathWith(path, text))
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
		Runs:     func(context.Context, RunFilter) (*Runs, error) { return nil, eio },
		Run:      func(context.Context, string) (*RunDetails, error) { return nil, eio },
		Video:    func(context.Context, VideoFilter) (*Video, error) { return nil, eio },
		Channel:  func(context.Context, ChannelFilter) (*Channel, error) { return nil, eio },
		Ask:      func(context.Context, string) (*Result, error) { return nil, eio },
		Download: func(context.Context, string, string) (io.ReadCloser, error) { return nil, eio },
	})
	for path, want := range map[string]int{
		"/":                     http.StatusInternalServerError,
		"/style.css":            http.StatusOK,
		"/found":                http.StatusInternalServerError,
		"/found?page=x":         http.StatusBadRequest,
		"/runs":                 http.StatusInternalServerError,
		"/runs/01a2":            http.StatusInternalServerError,
		"/runs/01a2?calls=x":    http.StatusBadRequest,
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

// TestRequestsShareOneStatus: reading the status may have to wait for a call of the schedule.
func TestRequestsShareOneStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		s := siteOf(t, Sources{Now: func(context.Context) (*Now, error) {
			reads.Add(1)
			time.Sleep(patience / 2)
			return &Now{At: "12:00"}, nil
		}})
		var asking sync.WaitGroup
		for range 200 {
			asking.Go(func() {
				if w := answer(s, "/"); w.Code != http.StatusOK {
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

func TestBusyScheduleShowsStaleStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := time.Duration(0)
		s := siteOf(t, Sources{Now: func(context.Context) (*Now, error) {
			time.Sleep(call)
			return &Now{At: "12:00"}, nil
		}})
		const old = "This was the state"
		if w := answer(s, "/"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), old) {
			t.Errorf("without a call: HTTP %d %s, want %d without %q", w.Code, w.Body, http.StatusOK, old)
		}
		time.Sleep(shared)
		call = time.Minute
		began := time.Now()
		if w := answer(s, "/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), old) {
			t.Errorf("during a call: HTTP %d %s, want %d with %q", w.Code, w.Body, http.StatusOK, old)
		}
		if waited := time.Since(began); waited != patience {
			t.Errorf("the page waited %s for a call, want %s", waited, patience)
		}
		time.Sleep(call) // lets the read finish
	})
}

// TestStatusThatCannotBeRead is said to be old, and why stands in the log, once.
func TestStatusThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		var log bytes.Buffer
		s := New(t.Context(), Sources{Now: func(context.Context) (*Now, error) { return &Now{At: "12:00"}, failure }}, "",
			slog.New(slog.NewTextHandler(&log, nil)))
		answer(s, "/")
		failure = errors.New("EIO")
		for range 3 {
			time.Sleep(shared)
			w := answer(s, "/")
			if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "It could not be read again; the log") ||
				strings.Contains(body, "busy") || strings.Contains(body, "EIO") {
				t.Errorf("HTTP %d %s, want that the state is old because it cannot be read", w.Code, body)
			}
		}
		if n := strings.Count(log.String(), "err=EIO"); n != 1 {
			t.Errorf("%d lines about the failure, want one:\n%s", n, log.String())
		}
		failure = nil
		time.Sleep(shared)
		if body := answer(s, "/").Body.String(); strings.Contains(body, "This was the state") {
			t.Errorf("after the failure: %s", body)
		}
	})
}

// TestPageAfterAnActionShowsItsResult, also if the state was being read while the action was carried out.
func TestPageAfterAnActionShowsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state atomic.Value
		state.Store("before")
		s := siteOf(t, Sources{
			Now: func(context.Context) (*Now, error) {
				now := &Now{At: state.Load().(string)}
				time.Sleep(patience / 4)
				return now, nil
			},
			Offer: func(context.Context, Action) (*Offer, error) { return &Offer{}, nil },
			Do: func(context.Context, Action) (*Done, error) {
				state.Store("after")
				return &Done{To: "/"}, nil
			},
		})
		r := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/do/pause?job=coffee", nil))
		form := between(answerTo(s, r).Body.String(), `name="form" value="`, `"`)
		go answer(s, "/") // as a page that is updated live
		time.Sleep(patience / 8)
		p := post("/do/pause", url.Values{"form": {form}, "job": {"coffee"}})
		p.Header["Cookie"] = r.Header["Cookie"]
		if w := answerTo(s, p); w.Code != http.StatusSeeOther {
			t.Fatalf("HTTP %d, want %d", w.Code, http.StatusSeeOther)
		}
		if body := answer(s, "/").Body.String(); !strings.Contains(body, "after") || strings.Contains(body, "This was the state") {
			t.Errorf("the page shows %s, want the state after the action", body)
		}
	})
}

func TestBusyScheduleWithoutStatusAsksToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := siteOf(t, Sources{Now: func(context.Context) (*Now, error) {
			time.Sleep(time.Minute)
			return &Now{}, nil
		}})
		w := answer(s, "/")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("HTTP %d %s, want %d with Retry-After", w.Code, w.Body, http.StatusServiceUnavailable)
		}
		time.Sleep(time.Minute) // lets the read finish
	})
}
