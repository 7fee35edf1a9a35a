package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
	"outlierd/sync/store"
)

// performed is a state with a run that has a search of two attempts and some data calls.
func performed(t *testing.T, details int) (*state.Store, runs.Run) {
	t.Helper()
	s := statetest.Open(t, t.TempDir())
	run := runs.Run{ID: "run-1", Job: "ideas", Trigger: runs.Manual, Started: time.Now(), Status: runs.Running}
	step := runs.Step{Query: outlier.UncheckedQuery(outlier.OpSearch, "query=tea"), Queries: []string{"tea"}, Total: -1}
	if err := s.Runs.Begin(run, []runs.Step{step}); err != nil {
		t.Fatal(err)
	}
	p := statetest.Capped(100)
	p.Step = 1
	statetest.Buy(t, s, p, statetest.Lost(statetest.SearchRequest("1")), outlier.Unknown)
	p.Attempt = 2
	statetest.Buy(t, s, p, statetest.AnswerTo(statetest.SearchRequest("1"), `{"items":[]}`), outlier.Charged)
	p.Step, p.Attempt = 0, 1
	for n := range details {
		statetest.Buy(t, s, p, statetest.AnswerTo(statetest.DetailsRequest(fmt.Sprintf("%011d", n)), `{"n":1}`), outlier.Charged)
	}
	run.Status, run.Ended, run.Error = runs.Failed, time.Now(), "the service refused SECRET"
	if err := s.Finish(run); err != nil {
		t.Fatal(err)
	}
	return s, run
}

// told returns a tracer of the runs in s with these variables, and its log.
func told(s *state.Store, variables map[string]string) (*Tracer, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Options{
		Store:  s,
		Env:    func(name string) (string, bool) { text, set := variables[name]; return text, set },
		Redact: func(text string) string { return strings.ReplaceAll(text, "SECRET", "…") },
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	}), &log
}

// TestTraceHasSearchesAndRequests in more than one batch, also if it is sent again.
func TestTraceHasSearchesAndRequests(t *testing.T) {
	var spans []span
	var service any
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, err := body.ReadFrom(r.Body)
		var request struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []attribute }
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err == nil {
			err = json.Unmarshal(body.Bytes(), &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Api-Key") != "a b" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		for _, from := range request.ResourceSpans {
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value["stringValue"]
				}
			}
			for _, scope := range from.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
		if strings.Contains(body.String(), "SECRET") {
			t.Error("a secret is sent")
		}
	}))
	defer server.Close()
	s, run := performed(t, batch)
	tracer, log := told(s, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL + "/",
		"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"})
	tracer.RunEnded(run, false)
	tracer.RunEnded(run, false)
	if err := tracer.Close(); err != nil || log.Len() > 0 {
		t.Fatalf("error %v, log %s", err, log)
	}
	each := batch + 4 // the run, its search and two attempts at it
	if len(spans) != 2*each || service != "outlierd" {
		t.Fatalf("%d spans of service %q, want %d", len(spans), service, 2*each)
	}
	names, parents := map[string]int{}, map[string]string{}
	for _, s := range spans[:each] {
		names[s.Name]++
		parents[s.ID] = s.Parent
		if s.Trace != spans[0].Trace || len(s.Trace) != 32 || len(s.ID) != 16 || s.End < s.Start {
			t.Errorf("span %v is of another trace, or ends before it starts", s)
		}
	}
	if names["run"] != 1 || names["search"] != 3 || names["details"] != batch || len(parents) != each {
		t.Errorf("spans %v with %d ids", names, len(parents))
	}
	if root := spans[0]; root.Name != "run" || root.Parent != "" || *root.Status != (status{2, "the service refused …"}) {
		t.Errorf("the run is %v", root)
	}
	for _, s := range spans[each:] {
		if parent, known := parents[s.ID]; !known || parent != s.Parent {
			t.Errorf("sent again, span %s has another id", s.Name)
		}
	}
}

// TestTraceWaitsForRunEnd, and is queued in the transaction that records it.
func TestTraceWaitsForRunEnd(t *testing.T) {
	sent := make(chan bool, 10)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent <- true }))
	defer server.Close()
	s, _ := performed(t, 1)
	tracer, log := told(s, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	for n := range 5 {
		run := runs.Run{ID: fmt.Sprint("ended-", n), Job: "ideas", Trigger: runs.Manual, Started: time.Now(), Status: runs.Running}
		if err := s.Runs.Begin(run, nil); err != nil {
			t.Fatal(err)
		}
		run.Status, run.Ended = runs.OK, time.Now()
		err := s.DB.Update(func(tx *store.Tx) error {
			tracer.RunEnded(run, false)
			runtime.Gosched()
			return runs.Finish(tx, run)
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-sent:
		case <-time.After(10 * time.Second):
			t.Fatal("no trace was sent")
		}
	}
	if err := tracer.Close(); err != nil || log.Len() > 0 {
		t.Errorf("error %v, log %s", err, log)
	}
}

// TestMissingCollectorIsLoggedOnce, and holds nothing up.
func TestMissingCollectorIsLoggedOnce(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s, run := performed(t, 1)
	tracer, log := told(s, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL})
	for range 2 * maxWaiting {
		tracer.RunEnded(run, false)
	}
	if err := tracer.Close(); err != nil || strings.Count(log.String(), "traces dropped") != 1 {
		t.Errorf("error %v, log %s", err, log)
	}
}

// TestRedirectingCollectorLeaksNoToken to where it redirects.
func TestRedirectingCollectorLeaksNoToken(t *testing.T) {
	reached := make(chan http.Header, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header }))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		defer server.Close()
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=CANARY-4711")
		s, run := performed(t, 1)
		tracer, log := told(s, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=CANARY-4711"})
		tracer.RunEnded(run, false)
		if err := tracer.Close(); err != nil || !strings.Contains(log.String(), "redirects are not followed") {
			t.Errorf("status %d: error %v, log %s", status, err, log)
		}
	}
	if len(reached) > 0 {
		t.Errorf("%d requests were sent on, with the headers %v", len(reached), <-reached)
	}
}

func TestTracesNeedNamedCollector(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, off := range []map[string]string{
		{}, {endpoint: ""}, {endpoint: "http://x", "OTEL_SDK_DISABLED": "True"}, {endpoint: "http://x", "OTEL_TRACES_EXPORTER": "none"},
	} {
		tracer, _ := told(nil, off)
		if tracer != nil {
			t.Errorf("with %v traces are sent", off)
		}
		tracer.RunEnded(runs.Run{}, true)
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
}
