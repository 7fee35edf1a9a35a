package engine

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// fiveFile returns a file with five jobs that search every morning.
func fiveFile() string {
	file := "\nversion: 1\nservice: {url: \"sim://\", limit: 10/min}\njobs:\n"
	for _, topic := range []string{"home espresso", "moka pot", "latte art", "cold brew", "pour over"} {
		name := strings.ReplaceAll(topic, " ", "-")
		file += fmt.Sprintf("  %s: {schedule: \"0 6 * * *\", search: {query: [%s]}, enrich: {details: {top: 8}}}\n", name, topic)
	}
	return file
}

// away makes the network unreachable for a while from a given time.
func (w *workshop) away(from time.Time, d time.Duration) {
	well := w.wire
	w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
		if now := time.Now(); !now.Before(from) && now.Before(from.Add(d)) {
			return nil, errors.New("no route to host")
		}
		return well.RoundTrip(r)
	})
}

// TestOutageDuringEnrichmentSkipsNoSearch: every job also searches on the next day.
func TestOutageDuringEnrichmentSkipsNoSearch(t *testing.T) {
	t.Parallel()
	bare(t, fiveFile(), func(w *workshop) {
		first := time.Now().Add(6 * time.Hour)
		w.away(first.Add(time.Minute), 20*time.Second)
		rows := w.serve(31 * time.Hour)
		for i := range w.config.Jobs {
			mine := runsOf(rows, w.config.Jobs[i].Name)
			if len(mine) != 2 {
				t.Errorf("%s has %d runs in two days, want 2: %+v", w.config.Jobs[i].Name, len(mine), mine)
				continue
			}
			for day, r := range mine {
				if due := first.Add(time.Duration(day) * 24 * time.Hour); !r.Due.Equal(due) || r.Pages != 1 || r.Status != runs.OK {
					t.Errorf("%s on day %d: %d pages, %s, due %s, want a page for %s",
						r.Job, day+1, r.Pages, r.Status, r.Due, due)
				}
			}
		}
		if got := w.calls(outlier.OpDetails); got < 40 {
			t.Errorf("%d details, want 8 for each of 5 jobs", got)
		}
	})
}

// TestStopAfterCountsFromRunStart, even after a restart.
func TestStopAfterCountsFromRunStart(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {every: 12h, search: {query: [home espresso]}, enrich: {details: {}, comments: {}}, stop_after: 5m}
`
	bare(t, file, func(w *workshop) {
		time.Sleep(12*time.Hour - time.Minute)
		var rows []runs.Run
		for range 8 {
			rows = w.serve(3 * time.Minute)
		}
		if len(rows) != 1 || rows[0].Status != runs.OK || rows[0].Ended.Sub(rows[0].Started) > 6*time.Minute {
			t.Errorf("runs %+v; want one that ended five minutes after it began", rows)
		}
	})
}

// TestSinkFailureSkipsNoSearch if it is at the end of runs: the runs fail, and every job searches on the next
// day. A child runs when its parent's pages can be read.
func TestSinkFailureSkipsNoSearch(t *testing.T) {
	t.Parallel()
	bare(t, fiveFile()+"  after: {after: moka-pot, search: {query: [ristretto]}}\n", func(w *workshop) {
		first := time.Now().Add(6 * time.Hour)
		w.withSinks(func(e *Engine) { w.see(e, "after") })
		sink := &fakeCopy{name: "duckdb", broken: between(6*time.Hour, 6*time.Hour+20*time.Minute)}
		rows, _ := w.serveInto(7*time.Hour, sink)
		if !slices.ContainsFunc(rows, func(r runs.Run) bool { return r.Status == runs.Failed && r.Pages == 1 }) {
			t.Fatal("no run failed for the sink: this test shows nothing")
		}
		rows, _ = w.serveInto(24*time.Hour, sink)
		for i := range w.config.Jobs {
			mine := runsOf(rows, w.config.Jobs[i].Name)
			if len(mine) != 2 {
				t.Errorf("%s has %d runs in two days, want 2: %+v", w.config.Jobs[i].Name, len(mine), mine)
				continue
			}
			for day, r := range mine {
				if due := first.Add(time.Duration(day) * 24 * time.Hour); !r.Due.Equal(due) || r.Pages != 1 {
					t.Errorf("%s on day %d: %d pages, %s, due %s, want a page for %s",
						r.Job, day+1, r.Pages, r.Status, r.Due, due)
				}
			}
			if mine[0].Job == "after" && mine[0].Started.Before(first.Add(20*time.Minute)) {
				t.Errorf("the child started at %s, before its parent's pages could be read", mine[0].Started)
			}
		}
	})
}
