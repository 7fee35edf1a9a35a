package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"outlierd/outlier/simulator"
)

// A promise is a row of docs/interface.md: which keys of the job file send a parameter
// of an endpoint, and the test that sees it arrive.
type promise struct {
	endpoint, parameter string
	keys                []string
	test                string
}

var promised = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (.+) \\| (Test\\w+) \\|$")

func promises(t *testing.T) []promise {
	t.Helper()
	page, err := os.ReadFile("../../docs/interface.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []promise
	for _, m := range promised.FindAllStringSubmatch(string(page), -1) {
		p := promise{endpoint: m[1], parameter: m[2], test: m[4]}
		for key := range strings.SplitSeq(m[3], " or ") {
			p.keys = append(p.keys, strings.Trim(key, "`"))
		}
		all = append(all, p)
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(all) || rows == 0 {
		t.Fatalf("of %d rows of docs/interface.md %d can be read", rows, len(all))
	}
	return all
}

// parameters are those of openapi.yaml: "GET /search/outliers query".
func parameters(t *testing.T) map[string]bool {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../outlier/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for _, p := range operation.Parameters {
				all[method+" "+path+" "+p.Value.Name] = true
			}
			if operation.RequestBody == nil {
				continue
			}
			for name := range operation.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties {
				all[method+" "+path+" "+name] = true
			}
		}
	}
	return all
}

func TestEveryParameterOfTheInterfaceHasARow(t *testing.T) {
	known := parameters(t)
	missing := maps.Clone(known)
	for _, p := range promises(t) {
		key := p.endpoint + " " + p.parameter
		if p.endpoint != "GET /search/trending-formats" && !known[key] {
			t.Errorf("docs/interface.md: there is no %s", key)
		}
		delete(missing, key)
	}
	for key := range missing {
		t.Errorf("docs/interface.md has no row for %s", key)
	}
}

func TestRowsOfTheInterfaceNameTestsThatExist(t *testing.T) {
	var sources strings.Builder
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range promises(t) {
		if !strings.Contains(sources.String(), "\nfunc "+p.test+"(t *testing.T)") {
			t.Errorf("%s %s: there is no %s", p.endpoint, p.parameter, p.test)
		}
	}
}

// listener is a service that notes what it is asked: "GET /search/outliers query". It
// tells of the first scan that is started.
type listener struct {
	service http.Handler

	mu    sync.Mutex
	heard map[string]bool
	scan  string
	stop  func()
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var members map[string]any
	_ = json.Unmarshal(body, &members) // the service judges what cannot be read
	answer := httptest.NewRecorder()
	l.service.ServeHTTP(answer, r)
	l.note(r, members, answer)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // whoever hung up notices
}

// withID are the paths that end in an id.
var withID = []string{"/channel/videos/", "/channel/shorts/", "/video/comments/", "/video/transcript/", "/video/", "/scan/"}

func (l *listener) note(r *http.Request, body map[string]any, answer *httptest.ResponseRecorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := r.URL.Path
	if i := slices.IndexFunc(withID, func(prefix string) bool { return strings.HasPrefix(path, prefix) }); i >= 0 {
		path = withID[i] + "{id}"
		l.heard[r.Method+" "+path+" id"] = true
	}
	for name := range r.URL.Query() {
		l.heard[r.Method+" "+path+" "+name] = true
	}
	for name := range body {
		l.heard[r.Method+" "+path+" "+name] = true
	}
	if r.Method != http.MethodPost {
		return
	}
	var scan struct{ ID string }
	if json.Unmarshal(answer.Body.Bytes(), &scan) == nil && scan.ID != "" {
		l.scan = scan.ID
		l.stop()
	}
}

// TestEveryParameterReachesTheService runs the jobs of testdata/interface.yaml, which
// have every key, and listens at the service. A scan is left when it has started, and
// looked at by hand: what it takes is hours.
func TestEveryParameterReachesTheService(t *testing.T) {
	service := &listener{service: simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000}), heard: map[string]bool{}}
	server := httptest.NewServer(service)
	defer server.Close()
	p := &person{T: t, dir: t.TempDir(), env: func(name string) (string, bool) {
		value, ok := map[string]string{"OUTLIERD_URL": server.URL, "OUTLIERD_KEY": "demo"}[name]
		return value, ok
	}}
	text, err := os.ReadFile("testdata/interface.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.write(string(text))
	p.must("run", "hits", "resembling", "people", "similar-people", "formats", "rivals", "favourites")
	p.must("search", "tea", "--pages", "1") // a second page of hits that the filters leave may not exist
	for _, job := range []string{"niche", "niche-of-channels"} {
		p.leaveScan(service, job)
	}
	p.refused(exitFailed, "scan", "read", service.scan)
	for _, promise := range promises(t) {
		if key := promise.endpoint + " " + promise.parameter; promise.test == t.Name() && !service.heard[key] {
			t.Errorf("the service was not asked %s, which %v should send", key, promise.keys)
		}
	}
}

// leaveScan runs a job of a scan and interrupts it when the scan has started.
func (p *person) leaveScan(service *listener, job string) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	service.mu.Lock()
	service.stop = cancel
	service.mu.Unlock()
	if _, told, code := p.do(ctx, "run", job); code != exitInterrupted {
		p.Fatalf("job %s: exit code %d: %s", job, code, told)
	}
}
