package daemon

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

const daemonToken, readToken = "CANARY-4711-CANARY", "CANARY-4711-READS"

// monitor is a server without a port.
type monitor struct {
	*Web
	handler http.Handler
}

// monitored returns a monitor for a job file with a daemon section, without a port.
func monitored(t *testing.T, section string) *monitor {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	env := func(name string) (string, bool) {
		token, ok := map[string]string{"TOKEN": daemonToken, "READ_TOKEN": readToken}[name]
		return token, ok
	}
	text := "version: 1\nservice: {url: \"sim://\"}\ndaemon: " + section + "\njobs: {a: {search: {query: x}}}\n"
	config, err := job.Parse(file, []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	w := &Web{Daemon: config.Daemon, Stuck: func() time.Duration { return 0 },
		Check: func() Readiness { return NewReadiness(nil, nil, nil) }}
	w.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "measured") })
	w.API = w.Metrics
	if config.Daemon.UI == job.UIOff {
		return &monitor{w, w.Handler()}
	}
	from := page.Sources{
		Now:     func(context.Context) (*page.Now, error) { return &page.Now{}, nil },
		Found:   func(context.Context, page.Filter) (*page.Found, error) { return &page.Found{}, nil },
		Runs:    func(context.Context, runs.Filter) (*page.Runs, error) { return &page.Runs{}, nil },
		Run:     func(context.Context, string, int) (*page.RunDetails, error) { return nil, page.ErrUnknown },
		Video:   func(context.Context, page.VideoFilter) (*page.Video, error) { return &page.Video{}, nil },
		Channel: func(context.Context, page.ChannelFilter) (*page.Channel, error) { return &page.Channel{}, nil },
		Ask:     func(context.Context, string) (*query.Rows, error) { return &query.Rows{}, nil },

		Questions: func() []page.Question { return nil },
	}
	if config.Daemon.UI == job.UIFull {
		from.Offer = func(context.Context, page.Action) (*page.Offer, error) {
			return &page.Offer{Do: func(context.Context) (string, error) { return "/", nil }}, nil
		}
	}
	w.Site = page.New(t.Context(), from, config.Daemon.Token.Reveal(), slog.New(slog.DiscardHandler))
	return &monitor{w, w.Handler()}
}

// answerOf returns the status and the body of an answer. The status is 0 if a required header is missing, or the
// answer has one that must not be there.
func answerOf(m *monitor, method, host, path, authorization string) (int, string) {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	for _, name := range []string{
		"Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy",
	} {
		if w.Header().Get(name) == "" {
			w.Code = 0
		}
	}
	for _, name := range []string{"Access-Control-Allow-Origin", "Server", "Set-Cookie"} {
		if w.Header().Get(name) != "" {
			w.Code = 0
		}
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		w.Code = 0
	}
	return w.Code, w.Body.String()
}

func TestHealthFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	m := monitored(t, `{listen: "127.0.0.1:7411"}`)
	for stuck, want := range map[time.Duration]int{0: http.StatusOK, 11 * time.Minute: http.StatusServiceUnavailable} {
		m.Stuck = func() time.Duration { return stuck }
		if code, text := answerOf(m, "GET", "127.0.0.1:7411", "/healthz", ""); code != want {
			t.Errorf("stuck for %s: HTTP %d %q, want %d", stuck, code, text, want)
		}
	}
}

func TestAccessRules(t *testing.T) {
	t.Parallel()
	const (
		open, guarded = `{listen: "127.0.0.1:7411"}`, `{listen: "0.0.0.0:7411", token: "${TOKEN}"}`
		both          = `{listen: "0.0.0.0:7411", token: "${TOKEN}", read_token: "${READ_TOKEN}"}`
		reading       = `{listen: "127.0.0.1:7411", read_token: "${READ_TOKEN}"}`
		view, off     = `{listen: "127.0.0.1:7411", ui: view}`, `{listen: "127.0.0.1:7411", ui: off}`
	)
	for _, c := range []struct {
		section, method, host, path, authorization string
		want                                       int
	}{
		{open, "GET", "127.0.0.1:7411", "/healthz", "", 200},
		{open, "HEAD", "[::1]:7411", "/healthz", "", 200},
		{open, "GET", "localhost", "/healthz", "", 200},
		{open, "GET", "rebound.example:7411", "/healthz", "", 403},
		{open, "POST", "127.0.0.1:7411", "/healthz", "", 405},
		{open, "GET", "127.0.0.1:7411", "/", "", 200},
		{open, "GET", "localhost:7411", "/style.css", "", 200},
		{open, "GET", "rebound.example:7411", "/", "", 403},
		{open, "GET", "rebound.example:7411", "/style.css", "", 403},
		{open, "POST", "127.0.0.1:7411", "/", "", 405},
		{open, "GET", "127.0.0.1:7411", "/found?order=views", "", 200},
		{open, "GET", "127.0.0.1:7411", "/found?page=0", "", 400},
		{open, "GET", "127.0.0.1:7411", "/found?query=moka;pot", "", 400}, // the filter would be dropped
		{open, "GET", "rebound.example:7411", "/found", "", 403},
		{open, "POST", "127.0.0.1:7411", "/found", "", 405},
		{guarded, "GET", "outlierd:7411", "/found", "", 401},
		{open, "GET", "127.0.0.1:7411", "/runs?status=ok", "", 200},
		{open, "GET", "127.0.0.1:7411", "/runs/01a2?page=0", "", 400},
		{open, "GET", "127.0.0.1:7411", "/runs/..%2f..%2fetc/passwd", "", 404},
		{open, "GET", "127.0.0.1:7411", "/runs/01a2", "", 404},
		{open, "POST", "127.0.0.1:7411", "/runs", "", 405},
		{open, "GET", "rebound.example:7411", "/runs", "", 403},
		{guarded, "GET", "outlierd:7411", "/runs", "", 401},
		{guarded, "GET", "outlierd:7411", "/runs/01a2", "", 401},
		{open, "GET", "127.0.0.1:7411", "/videos/v0000000001?words=a&page=2", "", 200},
		{open, "GET", "127.0.0.1:7411", "/videos/v0000000001?page=-1", "", 400},
		{open, "GET", "127.0.0.1:7411", "/channels/UC1", "", 200},
		{open, "GET", "127.0.0.1:7411", "/channels/UC1?page=x", "", 400},
		{open, "GET", "127.0.0.1:7411", "/videos/", "", 404},
		{guarded, "GET", "outlierd:7411", "/videos/v0000000001", "", 401},
		{guarded, "GET", "outlierd:7411", "/channels/UC1", "", 401},
		{open, "GET", "127.0.0.1:7411", "/ask?sql=select+1", "", 200},
		{open, "POST", "127.0.0.1:7411", "/ask?sql=select+1", "", 405},
		{open, "GET", "rebound.example:7411", "/ask?sql=select+1", "", 403},
		{open, "GET", "rebound.example:7411", "/ask/result/csv?sql=select+1", "", 403},
		{guarded, "GET", "outlierd:7411", "/ask?sql=select+1", "", 401},
		{guarded, "GET", "outlierd:7411", "/ask/result/csv?sql=select+1", "", 401},
		{open, "GET", "127.0.0.1:7411", "/feed/a.atom", "", 404},
		{open, "GET", "rebound.example:7411", "/feed/a.atom", "", 403},
		{guarded, "GET", "outlierd:7411", "/feed/a.atom", "", 401},
		{both, "GET", "outlierd:7411", "/feed/a.atom", "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+readToken)), 404},
		{open, "GET", "127.0.0.1:7411", "/do/run?job=a", "", 401},
		{open, "POST", "127.0.0.1:7411", "/do/run?job=a", "", 401},
		{open, "PUT", "127.0.0.1:7411", "/do/run?job=a", "", 405},
		{open, "GET", "rebound.example:7411", "/do/run?job=a", "", 403},
		{open, "GET", "127.0.0.1:7411", "/login", "", 200},
		{open, "GET", "127.0.0.1:7411", "/login?ticket=x", "", 403},
		{open, "POST", "127.0.0.1:7411", "/login", "", 403},
		{open, "GET", "rebound.example:7411", "/login", "", 403},
		{open, "POST", "127.0.0.1:7411", "/logout", "", 401},
		{open, "GET", "127.0.0.1:7411", "/logout", "", 405},
		{guarded, "GET", "outlierd:7411", "/login", "", 200},
		{guarded, "GET", "outlierd:7411", "/style.css", "", 200},
		{guarded, "GET", "outlierd:7411", "/page.js", "", 200},
		{guarded, "GET", "outlierd:7411", "/do/run?job=a", "", 401},
		{guarded, "POST", "outlierd:7411", "/do/run?job=a", "", 401},
		{guarded, "POST", "outlierd:7411", "/do/run?job=a", "Bearer " + daemonToken, 401},
		{view, "GET", "127.0.0.1:7411", "/", "", 200},
		{view, "GET", "127.0.0.1:7411", "/do/run?job=a", "", 404},
		{view, "POST", "127.0.0.1:7411", "/do/run?job=a", "", 404},
		{off, "GET", "127.0.0.1:7411", "/", "", 404},
		{off, "GET", "127.0.0.1:7411", "/login", "", 404},
		{off, "GET", "127.0.0.1:7411", "/healthz", "", 200},
		{open, "GET", "127.0.0.1:7411", "/now.html", "", 404},
		{open, "GET", "127.0.0.1:7411", "/page/../../etc/passwd", "", 307}, // to /etc/passwd, which is 404
		{open, "GET", "127.0.0.1:7411", "//evil.example/", "", 307},        // to /evil.example/
		{open, "GET", "127.0.0.1:7411", "/do/..%2fmetrics", "", 401},
		{open, "GET", "127.0.0.1:7411", "/.git/config", "", 404},
		{open, "GET", "127.0.0.1:7411", "/debug/pprof/", "", 404},
		{open, "TRACE", "127.0.0.1:7411", "/", "", 405},
		{open, "OPTIONS", "127.0.0.1:7411", "/", "", 405},
		{open, "CONNECT", "127.0.0.1:7411", "/", "", 405},
		{open, "GET", "127.0.0.1:7411", "/..%2f..%2fetc/passwd", "", 404},
		{guarded, "GET", "outlierd:7411", "/", "", 401},
		{guarded, "GET", "outlierd:7411", "/", "Bearer " + daemonToken + "x", 401},
		{guarded, "GET", "outlierd:7411", "/", "Bearer " + daemonToken, 200},
		{open, "GET", "127.0.0.1:7411", "/healthz/", "", 404},
		{guarded, "GET", "outlierd:7411", "/healthz", "", 200},
		{guarded, "GET", "outlierd:7411", "/healthz", "Bearer " + daemonToken, 200},
		{open, "GET", "127.0.0.1:7411", "/metrics", "", 200},
		{guarded, "GET", "outlierd:7411", "/metrics", "", 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "Bearer", 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "Bearer " + daemonToken + "x", 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "Basic " + daemonToken, 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "Basic " + base64.StdEncoding.EncodeToString([]byte("any:"+daemonToken)), 200},
		{guarded, "GET", "outlierd:7411", "/metrics", "Basic " + base64.StdEncoding.EncodeToString([]byte(daemonToken+":")), 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "Bearer " + readToken, 401},
		{both, "GET", "outlierd:7411", "/metrics", "Bearer " + readToken, 200},
		{both, "GET", "outlierd:7411", "/found", "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+readToken)), 200},
		{both, "GET", "outlierd:7411", "/do/run?job=a", "Bearer " + readToken, 401},
		{both, "POST", "outlierd:7411", "/do/run?job=a", "Bearer " + readToken, 401},
		{both, "GET", "outlierd:7411", "/metrics", "Bearer ", 401},
		{reading, "GET", "outlierd:7411", "/metrics", "Bearer " + readToken, 200},
		{reading, "GET", "127.0.0.1:7411", "/metrics", "Bearer ", 401},
		{reading, "GET", "127.0.0.1:7411", "/found", "Bearer " + daemonToken, 401},
		{guarded, "GET", "outlierd:7411", "/metrics", "bearer " + daemonToken, 200},
		{open, "GET", "127.0.0.1:7411", "/api/v1/status", "", 200},
		{open, "GET", "rebound.example:7411", "/api/v1/status", "", 403},
		{open, "POST", "127.0.0.1:7411", "/api/v1/jobs/a/runs", "", 403},
		{guarded, "POST", "outlierd:7411", "/api/v1/jobs/a/runs", "", 401},
		{guarded, "POST", "outlierd:7411", "/api/v1/jobs/a/runs", "Bearer " + daemonToken, 200},
		{both, "HEAD", "outlierd:7411", "/api/v1/status", "Bearer " + readToken, 200},
		{both, "DELETE", "outlierd:7411", "/api/v1/status", "Bearer " + readToken, 403},
		{guarded, "POST", "outlierd:7411", "/v1/Adjust", "Bearer " + daemonToken, 404},
		{off, "GET", "127.0.0.1:7411", "/api/v1/status", "", 200},
		{guarded, "DELETE", "outlierd:7411", "/healthz", "Bearer " + daemonToken, 405},
	} {
		code, text := answerOf(monitored(t, c.section), c.method, c.host, c.path, c.authorization)
		if code != c.want || strings.Contains(text, "CANARY") {
			t.Errorf("%s %s of %s with %q: HTTP %d %q, want %d without the token",
				c.method, c.path, c.host, c.authorization, code, text, c.want)
		}
	}
}

// TestFeedAsksForPassword, which readers of feeds know; pages have a login of their own.
func TestFeedAsksForPassword(t *testing.T) {
	t.Parallel()
	m := monitored(t, `{listen: "0.0.0.0:7411", token: "${TOKEN}"}`)
	for path, want := range map[string]bool{"/feed/a.atom": true, "/found": false} {
		w := httptest.NewRecorder()
		m.handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		asks := w.Header().Values("WWW-Authenticate")
		if slices.Contains(asks, `Basic realm="outlierd"`) != want || !slices.Contains(asks, `Bearer realm="outlierd"`) {
			t.Errorf("%s asks for %q, want a password: %t", path, asks, want)
		}
	}
}

func TestUnauthorizedRequestsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := monitored(t, `{listen: "0.0.0.0:7411", token: "${TOKEN}"}`)
		refused := 0
		for range 5 * atOnce {
			if code, _ := answerOf(m, "GET", "outlierd", "/metrics", "Bearer wrong"); code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 4*atOnce {
			t.Errorf("%d of %d requests were refused, want %d", refused, 5*atOnce, 4*atOnce)
		}
		if code, _ := answerOf(m, "GET", "outlierd", "/metrics", "Bearer "+daemonToken); code != http.StatusOK {
			t.Errorf("a request with the token, after many without: HTTP %d, want %d", code, http.StatusOK)
		}
	})
}

// TestProbesAreNotLimited, and read the readiness once a second.
func TestProbesAreNotLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := monitored(t, `{listen: "0.0.0.0:7411", token: "${TOKEN}"}`)
		checks := 0
		m.Check = func() Readiness {
			checks++
			return NewReadiness(nil, nil, nil)
		}
		for range 10 * atOnce {
			for _, path := range []string{"/healthz", "/readyz"} {
				if code, text := answerOf(m, "GET", "outlierd", path, ""); code != http.StatusOK {
					t.Fatalf("%s: HTTP %d %q, want %d", path, code, text, http.StatusOK)
				}
			}
		}
		if checks != 1 {
			t.Errorf("the readiness was read %d times within a second", checks)
		}
	})
}

// TestManyConcurrentReadsAreAnswered, as when many people reload a page.
func TestManyConcurrentReadsAreAnswered(t *testing.T) {
	t.Parallel()
	m := monitored(t, `{listen: "127.0.0.1:7411"}`)
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() {
			if code, text := answerOf(m, "GET", "127.0.0.1:7411", "/", ""); code != http.StatusOK {
				t.Errorf("HTTP %d %q, want %d", code, text, http.StatusOK)
			}
		})
	}
	asking.Wait()
}

// TestStyleAndScriptAreNotLimited: each page loads them.
func TestStyleAndScriptAreNotLimited(t *testing.T) {
	t.Parallel()
	m := monitored(t, `{listen: "127.0.0.1:7411"}`)
	for range 2 * atOnce {
		for _, path := range []string{"/style.css", "/page.js"} {
			if code, _ := answerOf(m, "GET", "127.0.0.1:7411", path, ""); code != http.StatusOK {
				t.Fatalf("%s: HTTP %d, want %d", path, code, http.StatusOK)
			}
		}
	}
}

// TestSessionOpensThePages, and no other paths.
func TestSessionOpensThePages(t *testing.T) {
	t.Parallel()
	m := monitored(t, `{listen: "0.0.0.0:7411", token: "${TOKEN}"}`)
	login := httptest.NewRecorder()
	m.handler.ServeHTTP(login, httptest.NewRequest("GET", "http://outlierd:7411"+m.Site.Ticket(), nil))
	for path, want := range map[string]int{"/": 200, "/found": 200, "/do/run?job=a": 200, "/metrics": 401} {
		r := httptest.NewRequest("GET", "http://outlierd:7411"+path, nil)
		for _, c := range login.Result().Cookies() {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		if m.handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: HTTP %d, want %d", path, w.Code, want)
		}
	}
}

// TestPostsAreLimited, and reads are answered nevertheless.
func TestPostsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose clock stands still, however slow the machine is
		m := monitored(t, `{listen: "127.0.0.1:7411"}`)
		refused := 0
		for range 200 {
			if code, _ := answerOf(m, "POST", "127.0.0.1:7411", "/do/run", ""); code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 200-atOnce {
			t.Errorf("%d of 200 posts were refused, want %d", refused, 200-atOnce)
		}
		if code, text := answerOf(m, "GET", "127.0.0.1:7411", "/", ""); code != http.StatusOK {
			t.Errorf("a read after the posts: HTTP %d %q, want %d", code, text, http.StatusOK)
		}
	})
}
