package command

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
)

// answers is a service that gives the same answer to every request.
type answers struct {
	status  int
	body    string
	date    time.Duration // of the Date header, relative to now
	down    bool          // whether connections are refused
	calls   int
	methods string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.calls++
	a.methods += r.Method + " " + r.URL.Path + "\n"
	if a.down {
		return nil, errors.New("connection refused")
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	kind := "application/json"
	if strings.HasPrefix(a.body, "<") {
		kind = "text/html"
	}
	return &http.Response{
		StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}, "Date": {time.Now().Add(a.date).UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}, nil
}

const doctorFile = `version: 1
service: {url: "https://service.example", key: "${OUTLIERD_KEY}"}
budget: {per_month: 400}
notify: {bell: {command: [/bin/sh, -c, "exit 0"]}, lost: {command: [/nowhere/bell]}}
jobs: {a: {search: {query: x}}}
`

// TestDoctorChecksServiceWithFreeCall: one call checks its address, key, subscription and clock, and the key
// is never printed.
func TestDoctorChecksServiceWithFreeCall(t *testing.T) {
	t.Parallel()
	const key = "CANARY-4711"
	missing := `{"status":"error","error":{"message":"no such video"}}`
	for name, c := range map[string]struct {
		service answers
		want    []string
	}{
		"no problem": {
			answers{status: 404, body: missing},
			[]string{"ok    address", "ok    clock", "ok    key", "ok    subscription"},
		},
		"wrong key": {
			answers{status: 401, body: `{"status":"error","error":{"message":"CANARY-4711 is unknown"}}`},
			[]string{"ok    address", "fail  key"},
		},
		"no credits": {
			answers{status: 402, body: `{"status":"error","error":{"message":"Insufficient credits"}}`},
			[]string{"ok    key", "fail  subscription"},
		},
		"rate limit": {
			answers{status: 429, body: `{"status":"error","error":{"message":"slow down"}}`},
			[]string{"ok    address", "warn  key"},
		},
		"page of a gateway": {
			answers{status: 200, body: `<html>CANARY-4711</html>`},
			[]string{"fail  address"},
		},
		"server error": {
			answers{status: 500, body: `{"status":"error","error":{"message":"oops"}}`},
			[]string{"warn  address"},
		},
		"connection refused": {answers{down: true}, []string{"fail  address"}},
		"clock 1 h off": {
			answers{status: 404, body: missing, date: -time.Hour},
			[]string{"fail  clock           it is 1h0m0s off"},
		},
		"clock 2 min off": {
			answers{status: 404, body: missing, date: 2 * time.Minute},
			[]string{"warn  clock           it is -2m0s off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, doctorFile, func(p *person) {
				service := c.service
				p.env = func(name string) (string, bool) {
					if name == "OUTLIERD_KEY" {
						return key, true
					}
					return "", false
				}
				p.network = func(string) (http.RoundTripper, error) { return &service, nil }
				out, stderr, code := p.do(p.Context(), "doctor")
				for _, want := range append(c.want, "ok    notify bell", "fail  notify lost") {
					if !strings.Contains(out, want) {
						t.Errorf("no %q in\n%s", want, out)
					}
				}
				if code != exitFailed || !strings.Contains(stderr, "checks failed") {
					t.Errorf("exit code %d, want %d: %s", code, exitFailed, stderr)
				}
				if strings.Contains(out+stderr, "CANARY") {
					t.Errorf("the key is printed:\n%s%s", out, stderr)
				}
				if service.calls != 1 || !strings.HasPrefix(service.methods, "GET /video/") {
					t.Errorf("%d calls: %s, want one GET /video/", service.calls, service.methods)
				}
			})
		})
	}
}

func TestDoctorMakesNoPaidCall(t *testing.T) {
	t.Parallel()
	search, err := outlier.UncheckedQuery(outlier.OpSearch, "query=x").Page(0, outlier.Prices{"search": 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (free{}).Reserve(t.Context(), search); err == nil {
		t.Error("a search was allowed")
	}
}

// TestDoctorCreatesNoFiles, and no state.
func TestDoctorCreatesNoFiles(t *testing.T) {
	t.Parallel()
	bubble(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {a: {search: {query: x}}}\n", func(p *person) {
		p.lose("")
		out := p.must("doctor")
		if !strings.Contains(out, "ok    state           not created yet") || strings.Contains(out, "fail") {
			t.Errorf("want a state that is not created yet, and no failures, got\n%s", out)
		}
		if files, err := os.ReadDir(p.dir); err != nil || len(files) != 1 {
			t.Errorf("the folder has %v, error %v; want only the job file", files, err)
		}
	})
}
