package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
)

// callers are the verbs of jobs that call an endpoint.
var callers = map[string]string{
	"GET /search/outliers":         "search",
	"GET /search/outliers/related": "related",
	"GET /search/trending-formats": "trending_formats",
	"GET /search/channels":         "find_channels",
	"GET /search/channels/related": "find_channels",
	"GET /channel/videos/{id}":     "channels",
	"GET /channel/shorts/{id}":     "channels",
	"GET /video/{id}":              "videos",
	"GET /video/comments/{id}":     "videos",
	"GET /video/transcript/{id}":   "videos",
	"POST /scan":                   "scan",
	"GET /scan/{id}":               "scan",
}

// keysThatSend returns the keys that send a parameter, as docs/jobs.md says under "What the service receives": those
// named there, and otherwise the parameter's name in snake case, below where for a filter.
func keysThatSend(endpoint, parameter string) []string {
	verb := callers[endpoint]
	switch endpoint + " " + parameter {
	case "POST /scan findBy", "POST /scan query":
		return []string{"scan.query", "scan.channel_id"}
	case "GET /scan/{id} id":
		return []string{"scan.poll"}
	case "GET /search/channels/related relatedChannelId":
		return []string{"find_channels.related_to"}
	}
	switch parameter {
	case "sortBy", "sortOrder":
		return []string{verb + ".sort"}
	case "from", "size":
		return []string{verb + ".pages"}
	}
	for _, op := range []outlier.Operation{outlier.OpSearch, outlier.OpFindChannels} {
		for _, p := range op.Params() {
			if p.Role == outlier.Filter && slices.Contains(p.Names(), parameter) && verb != "scan" {
				return []string{verb + ".where." + snakeCase(p.Name)}
			}
		}
	}
	return []string{verb + "." + snakeCase(parameter)}
}

func snakeCase(name string) string {
	return strings.ToLower(regexp.MustCompile("[A-Z]").ReplaceAllString(name, "_$0"))
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
	all["GET /search/trending-formats niche"] = true // stands for any: none is documented
	return all
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

// interfaceFile returns the job file of testdata/interface.yaml with every filter.
func interfaceFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/interface.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("FILTERS_OF_HITS", everyFilter(outlier.OpSearch),
		"FILTERS_OF_CHANNELS", everyFilter(outlier.OpFindChannels)).Replace(string(text))
}

// everyFilter returns a `where` with a value for each filter of an operation, and for both ends of each range.
func everyFilter(op outlier.Operation) string {
	keys := job.Filters(op)
	var all []string
	for _, p := range op.Params() {
		if p.Role != outlier.Filter {
			continue
		}
		value := p.Example
		switch {
		case len(p.OneOf) > 0:
			value = p.OneOf[0]
		case p.Form == outlier.Text:
			value = strconv.Quote(value)
		case p.Form == outlier.Flag:
			value = "true"
		case p.Form == outlier.Instants:
			value = "2020-01-01..2030-12-31"
		case p.Form == outlier.Integers, p.Form == outlier.Numbers:
			value = "1..100"
		}
		all = append(all, keys[len(all)]+": "+value)
	}
	return "{" + strings.Join(all, ", ") + "}"
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
	p.begin()
	p.write(interfaceFile(t))
	p.must("run", "hits", "resembling", "people", "similar-people", "formats", "rivals", "favourites")
	p.must("search", "tea", "--pages", "1") // with the filters there may be no second page
	for _, job := range []string{"niche", "niche-of-channels"} {
		p.interruptScan(service, job)
	}
	p.refused(exitFailed, "scan", "read", service.scan)
	for parameter := range parameters(t) {
		if !service.received[parameter] {
			t.Errorf("the service did not receive %s", parameter)
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
