package command

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

// interfaceRow is a row of docs/interface.md: the keys of the job file that send a parameter of an endpoint, and the
// test that checks it.
type interfaceRow struct {
	endpoint, parameter string
	keys                []string
	test                string
}

var rowPattern = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (.+) \\| (Test\\w+) \\|$")

func interfaceRows(t *testing.T) []interfaceRow {
	t.Helper()
	page, err := os.ReadFile("../../../docs/interface.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []interfaceRow
	for _, m := range rowPattern.FindAllStringSubmatch(string(page), -1) {
		p := interfaceRow{endpoint: m[1], parameter: m[2], test: m[4]}
		for key := range strings.SplitSeq(m[3], " or ") {
			p.keys = append(p.keys, strings.Trim(key, "`"))
		}
		all = append(all, p)
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(all) || rows == 0 {
		t.Fatalf("%d of the %d rows of docs/interface.md can be parsed", len(all), rows)
	}
	return all
}

// parameters returns the parameters of openapi.yaml, in the form "GET /search/outliers query".
func parameters(t *testing.T) map[string]bool {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../../outlier/openapi.yaml")
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
	t.Parallel()
	known := parameters(t)
	missing := maps.Clone(known)
	for _, p := range interfaceRows(t) {
		key := p.endpoint + " " + p.parameter
		if p.endpoint != "GET /search/trending-formats" && !known[key] {
			t.Errorf("docs/interface.md has a row for %s, which openapi.yaml does not have", key)
		}
		delete(missing, key)
	}
	for key := range missing {
		t.Errorf("docs/interface.md has no row for %s", key)
	}
}

func TestInterfaceRowsNameExistingTests(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	err := fs.WalkDir(os.DirFS("../../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../../..", path))
		sources.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range interfaceRows(t) {
		if !strings.Contains(sources.String(), "\nfunc "+p.test+"(t *testing.T)") {
			t.Errorf("docs/interface.md: %s %s: test %s does not exist", p.endpoint, p.parameter, p.test)
		}
	}
}

// recorder is a service that records the parameters that it receives, in the form "GET /search/outliers query". It
// calls stop when a scan is started.
type recorder struct {
	service http.Handler

	mu       sync.Mutex
	received map[string]bool
	scan     string // the id of the last scan
	stop     func()
}

func (l *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var members map[string]any
	_ = json.Unmarshal(body, &members) // the service refuses an invalid body
	answer := httptest.NewRecorder()
	l.service.ServeHTTP(answer, r)
	l.note(r, members, answer)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // it fails if the client has closed the connection
}

// withID are the paths that end with an id.
var withID = []string{"/channel/videos/", "/channel/shorts/", "/video/comments/", "/video/transcript/", "/video/", "/scan/"}

func (l *recorder) note(r *http.Request, body map[string]any, answer *httptest.ResponseRecorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := r.URL.Path
	if i := slices.IndexFunc(withID, func(prefix string) bool { return strings.HasPrefix(path, prefix) }); i >= 0 {
		path = withID[i] + "{id}"
		l.received[r.Method+" "+path+" id"] = true
	}
	for name := range r.URL.Query() {
		l.received[r.Method+" "+path+" "+name] = true
	}
	for name := range body {
		l.received[r.Method+" "+path+" "+name] = true
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

// TestEveryParameterReachesTheService runs the jobs of testdata/interface.yaml, which have every key, and checks what
// the service receives. Scans take hours: their runs are interrupted after the start, and one is then read by hand.
func TestEveryParameterReachesTheService(t *testing.T) {
	t.Parallel()
	service := &recorder{
		service: simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000}), received: map[string]bool{},
	}
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
	p.must("search", "tea", "--pages", "1") // with the filters there may be no second page
	for _, job := range []string{"niche", "niche-of-channels"} {
		p.interruptScan(service, job)
	}
	p.refused(exitFailed, "scan", "read", service.scan)
	for _, row := range interfaceRows(t) {
		if key := row.endpoint + " " + row.parameter; row.test == t.Name() && !service.received[key] {
			t.Errorf("the service did not receive %s, which %v should send", key, row.keys)
		}
	}
}

// interruptScan runs a scan job and interrupts it when the scan has started.
func (p *person) interruptScan(service *recorder, job string) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	service.mu.Lock()
	service.stop = cancel
	service.mu.Unlock()
	if _, stderr, code := p.do(ctx, "run", job, "--yes"); code != exitInterrupted {
		p.Fatalf("job %s: exit code %d, want %d: %s", job, code, exitInterrupted, stderr)
	}
}
