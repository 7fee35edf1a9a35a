//go:build otlp

package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"outlierd/outlier"
	"outlierd/sync/runs"
	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
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

// told returns a tracer with these variables, and its log.
func told(variables map[string]string) (*Tracer, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Options{
		Env:    func(name string) (string, bool) { text, set := variables[name]; return text, set },
		Redact: func(text string) string { return strings.ReplaceAll(text, "SECRET", "…") },
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	}), &log
}

// TestTraceHasSearchesAndRequests in more than one batch, also if it is sent again.
func TestTraceHasSearchesAndRequests(t *testing.T) {
	var spans []*otlp.Span
	var service string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, broken := gzip.NewReader(bytes.NewReader(body))
			if err = broken; err == nil {
				body, err = io.ReadAll(unpacked)
			}
		}
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		for _, from := range request.ResourceSpans {
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range from.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
		if strings.Contains(string(body), "SECRET") {
			t.Error("a secret is sent")
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	s, run := performed(t, batch)
	tracer, log := told(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	tracer.Start(s)
	tracer.RunEnded(run, false)
	tracer.RunEnded(run, false)
	if err := tracer.Close(); err != nil || log.Len() > 0 {
		t.Fatalf("error %v, log %s", err, log)
	}
	each := batch + 4 // the run, its search and two attempts at it
	if len(spans) != 2*each || service != "outlierd" {
		t.Fatalf("%d spans of service %q, want %d", len(spans), service, 2*each)
	}
	names, ids := map[string]int{}, map[string]bool{}
	parents := map[string]string{}
	for _, span := range spans[:each] {
		names[span.Name]++
		ids[string(span.SpanId)] = true
		parents[string(span.SpanId)] = string(span.ParentSpanId)
		if !bytes.Equal(span.TraceId, spans[0].TraceId) || span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("span %v is of another trace, or ends before it starts", span)
		}
	}
	if names["run"] != 1 || names["search"] != 3 || names["details"] != batch || len(ids) != each {
		t.Errorf("spans %v with %d ids", names, len(ids))
	}
	at := slices.IndexFunc(spans, func(span *otlp.Span) bool { return span.Name == "run" })
	if root := spans[at]; len(root.ParentSpanId) > 0 || root.Status.Code != otlp.Status_STATUS_CODE_ERROR || root.Status.Message != "the service refused …" {
		t.Errorf("the run is %v", root)
	}
	for _, span := range spans[each:] {
		if !ids[string(span.SpanId)] || parents[string(span.SpanId)] != string(span.ParentSpanId) {
			t.Errorf("sent again, span %s has another id", span.Name)
		}
	}
}

// TestMissingCollectorIsLoggedOnce, and holds nothing up.
func TestMissingCollectorIsLoggedOnce(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL)
	s, run := performed(t, 1)
	tracer, log := told(map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL})
	for range 2 * mostWaiting { // nobody reads yet
		tracer.RunEnded(run, false)
	}
	tracer.Start(s)
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
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=CANARY-4711")
		s, run := performed(t, 1)
		tracer, log := told(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
		tracer.RunEnded(run, false)
		tracer.Start(s)
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
		tracer, _ := told(off)
		if tracer != nil {
			t.Errorf("with %v traces are sent", off)
		}
		tracer.Start(nil)
		tracer.RunEnded(runs.Run{}, true)
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}
}
