package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/outlier/simulator"
)

// TestHitWithoutIDIsReported and counted because no table can store it, and the other hits of its page are
// stored.
func TestHitWithoutIDIsReported(t *testing.T) {
	t.Parallel()
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	p := answeredBy(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.Code)
		fmt.Fprint(w, strings.Replace(answer.Body.String(), `"id":`, `"was":`, 1))
	})
	_, stderr, code := p.do(p.Context(), "search", "tea")
	if code != exitPartial {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	contains(t, stderr, "the service's answers have changed", `"field":"hits[].id","problem":"missing"`)
	contains(t, p.must("schema", "drift", "-o", "ndjson"), `"path":"hits[].id","problem":"missing","count":1,`)
	if got := p.ask("select count(*) from outliers"); got != "39" {
		t.Errorf("%s hits are stored, want the 39 that have an id", got)
	}
	if _, stderr, _ := p.do(p.Context(), "search", "moka pot"); strings.Contains(stderr, "have changed") {
		t.Errorf("the change is reported again: %s", stderr)
	}
	contains(t, p.must("schema", "drift", "-o", "ndjson"), `"path":"hits[].id","problem":"missing","count":2,`)
	p.lose("state/warehouse.duckdb") // which is filled from the journal, whose answers are not counted again
	p.do(p.Context(), "search", "latte art")
	contains(t, p.must("schema", "drift", "-o", "ndjson"), `"path":"hits[].id","problem":"missing","count":3,`)
}

// TestForeignScanThresholdIsNotDrift: the service states it as an object or as a number, which has an unknown
// meaning for a scan that another client started.
func TestForeignScanThresholdIsNotDrift(t *testing.T) {
	t.Parallel()
	const id = "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	p := answeredBy(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/scan/") {
			service.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"`+id+`","name":"theirs","status":"Running","input":{"query":["tea"],"threshold":1000},`+
			`"endedAt":null,"createdAt":"2026-11-01T12:00:00.000Z","updatedAt":"2026-11-01T12:00:00.000Z"}`)
	})
	contains(t, p.refused(exitFailed, "scan", "read", id), "has not ended")
	_, stderr, _ := p.do(p.Context(), "search", "tea") // which publishes
	if drift := p.must("schema", "drift", "-o", "json"); drift != "[]\n" || strings.Contains(stderr, "have changed") {
		t.Errorf("the threshold is reported as drift: %s%s", stderr, drift)
	}
	if got := p.ask(`select extra ->> '$."input.threshold"' from scans`); got != "1000" {
		t.Errorf("the threshold is stored as %q, want 1000", got)
	}
}

// answeredBy returns a person whose service is a handler.
func answeredBy(t *testing.T, answer http.HandlerFunc) *person {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	p := &person{T: t, dir: t.TempDir(), env: func(name string) (string, bool) {
		key, ok := map[string]string{"OUTLIERD_KEY": "demo"}[name]
		return key, ok
	}}
	p.begin()
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min},
		budget: {per_month: 200}, sinks: [{duckdb: outliers.duckdb}], jobs: {tea: {search: {query: tea}}}}`)
	return p
}
