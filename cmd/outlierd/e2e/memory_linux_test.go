package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
)

// TestLargeAnswersFitIntoMemory of a small container: each is loaded alone, and none is decoded beside another one.
// Two transcripts have 350,000 lines each. Twice as many lines take 260 MB.
func TestLargeAnswersFitIntoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds, and is about a program without the race detector, which takes memory of its own")
	}
	w := newWorld(t, simulator.Options{Seed: 1, Limit: 1000})
	lines := strings.TrimSuffix(strings.Repeat(`{"endMs":1,"text":"a"},`, 350_000), ",")
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		id, is := strings.CutPrefix(r.URL.Path, "/video/transcript/")
		if !is {
			w.service.ServeHTTP(to, r)
			return
		}
		to.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(to, `{"ids":[%[1]q],"items":[{"id":%[1]q,"events":[%[2]s],"transcript":"a"}]}`, id, lines)
	}))
	defer server.Close()
	w.url = server.URL
	w.write(`version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000/min}
budget: {per_month: 100}
jobs: {large: {search: {query: espresso}, enrich: {transcript: {top: 2}}}}
`)
	status := filepath.Join(t.TempDir(), "status")
	for _, args := range [][]string{{"run"}, {"rebuild"}} {
		cmd, out := w.command(t.Context(), args...)
		cmd.Env = append(cmd.Env, "OUTLIERD_DUCKDB_MEMORY=124MB", "GOGC=", programtest.StatusFile+"="+status)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		text, err := os.ReadFile(status)
		if err != nil {
			t.Fatal(err)
		}
		peak := 0
		for line := range strings.Lines(string(text)) {
			fmt.Sscanf(line, "VmHWM: %d kB", &peak)
		}
		if peak >>= 10; peak == 0 || peak > 225 {
			t.Errorf("%q took %d MB", args, peak)
		}
		t.Logf("%q took %d MB", args, peak)
	}
	w.query("select count(*) from transcript_events", func(row []any) {
		if row[0] != int64(700_000) {
			t.Errorf("%v lines", row[0])
		}
	})
}
