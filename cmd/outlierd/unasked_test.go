package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/outlier/simulator"
)

// TestUnsolicitedAnswersAreNotPrinted: a connection of free calls is kept, and net/http
// logs what arrives on it between two calls. That is a text of others, and may be long.
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
			// A whole line: if the next call is faster, it takes this for the start of its answer,
			// and would wait a minute for the end of the line.
			_, err = fmt.Fprintln(conn, "and something that nobody asked for")
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
	w.write(searches(1, 5))
	out := w.mustRun("run", "search-0")
	if strings.Contains(strings.ToLower(out), "unsolicited") || strings.Contains(out, "nobody asked for") {
		t.Errorf("it is printed:\n%s", out)
	}
}
