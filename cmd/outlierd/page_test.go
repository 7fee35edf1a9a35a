package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/outlier/simulator"
)

// paged starts `up` with pages at an address that is free.
func (w *testWorld) paged(jobs string) (address string, stop func()) {
	w.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	address = port.Addr().String()
	if err := port.Close(); err != nil {
		w.Fatal(err)
	}
	w.write(jobs + "daemon: {listen: \"" + address + "\"}\n")
	stop = w.daemon()
	for ; ; time.Sleep(10 * time.Millisecond) { // the socket for commands is there first
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return "http://" + address, stop
		}
	}
}

// get is a page of a daemon, with the signs of HTML as the characters that they stand for.
func (w *testWorld) get(address string) string {
	w.Helper()
	r, err := http.Get(address)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		w.Fatalf("%s: HTTP %d %s %v", address, r.StatusCode, body, err)
	}
	return html.UnescapeString(string(body))
}

// TestPagesShowWhatTheCommandsShow of the runs that were before the daemon.
func TestPagesShowWhatTheCommandsShow(t *testing.T) {
	t.Parallel() // it runs processes of its own
	w := newWorld(t, simulator.Options{Seed: 1, Freeze: true, Limit: 1_000_000})
	jobs := strings.ReplaceAll(searches(2, 1), "    search: {", "    schedule: 0 0 1 1 *\n    search: {")
	w.write(jobs)
	w.mustRun("run", "--all", "--yes")
	address, stop := w.paged(jobs)
	defer stop()

	var runs []struct {
		Run    string `json:"run_id"`
		Job    string
		Status string
		Hits   int64
	}
	if err := json.Unmarshal([]byte(w.mustRun("runs", "-o", "json")), &runs); err != nil || len(runs) != 3 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	now := w.get(address + "/")
	spent := 0
	w.query("select sum(price)::bigint from ops.credits", func(row []any) { spent = int(row[0].(int64)) })
	for _, want := range []string{"search-0", "/runs/" + runs[0].Run, fmt.Sprint(1000-spent, " of 1\u202f000 left; spent evenly from")} {
		if !strings.Contains(now, want) {
			t.Errorf("the page of now lacks %q: %s", want, now)
		}
	}
	list := w.get(address + "/runs")
	for _, r := range runs {
		if !strings.Contains(list, "/runs/"+r.Run) {
			t.Errorf("the list lacks %+v", r)
		}
		var d runDetails
		if err := json.Unmarshal([]byte(w.mustRun("runs", r.Run, "-o", "json")), &d); err != nil {
			t.Fatal(err)
		}
		page := w.get(address + "/runs/" + r.Run)
		wants := []string{r.Job, r.Status, fmt.Sprintf("1 to %d of %[1]d", d.Requests)}
		for _, s := range d.Searches {
			wants = append(wants, s.Queries[0], s.Stop)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("run %s: the page lacks %q", r.Run, want)
			}
		}
		if bars := strings.Count(page, "<svg"); int64(bars) != d.Requests {
			t.Errorf("run %s: %d bars for %d requests", r.Run, bars, d.Requests)
		}
	}
	if only := w.get(address + "/runs?job=search-1&status=ok"); strings.Count(only, "/runs/0") != 1 {
		t.Errorf("runs of one job: %s", only)
	}
}
