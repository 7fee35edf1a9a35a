package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
)

// TestUnsolicitedAnswersAreNotPrinted: connections of free calls are kept, and net/http would log what arrives on
// them between two calls, whatever that is and however long.
func TestUnsolicitedAnswersAreNotPrinted(t *testing.T) {
	t.Parallel() // it runs processes of its own
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Close { // a paid call has a connection of its own
			service.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		result := answer.Result()
		result.ContentLength = int64(answer.Body.Len())
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			err = result.Write(conn)
		}
		if err == nil {
			// A complete line: if the next call is sent first, it reads this as the start of its answer, and would
			// otherwise wait a minute for the end of the line. Its error then quotes the second word.
			_, err = fmt.Fprintln(conn, "an answer that was not requested")
		}
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Read(make([]byte, 1)) // until the client closes it or sends another request
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	w := &testWorld{TB: t, dir: t.TempDir(), service: service, url: server.URL}
	w.write(programtest.Searches(1, 5))
	out := w.mustRun("run", "search-0")
	if strings.Contains(strings.ToLower(out), "unsolicited") || strings.Contains(out, "not requested") {
		t.Errorf("the unsolicited text is printed:\n%s", out)
	}
}
