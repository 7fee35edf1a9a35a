package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sync/ledger"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func TestRunsPage(t *testing.T) {
	shows(t, answer(siteOf(t, Sources{Runs: func(_ context.Context, f runs.Filter) (*Runs, error) {
		if want := (runs.Filter{Job: "tea & milk", Status: "failed", Before: "01a4"}); f != want {
			t.Errorf("asked for %+v, want %+v", f, want)
		}
		return &Runs{Statuses: []string{"ok", "failed"}, More: true, Runs: []runs.Run{
			{ID: "01a3-1", Job: "tea & milk", Status: runs.Failed, Error: "HTTP 401 <Unauthorized>"},
			{ID: "01a2-1", Job: "tea & milk", Status: runs.Failed, Hits: 1200, NewHits: 40, Credits: 6},
		}}, nil
	}}), "/runs?job=+tea+%26+milk&status=failed&before=01a4"), "/runs/01a3-1", "HTTP 401 &lt;Unauthorized&gt;", "1\u202f200",
		"<option selected>failed</option>", "before=01a2-1", `<span class="dot bad">`, "Newest runs")
}

func TestRunPageShowsCalls(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	shows(t, answer(siteOf(t, Sources{Run: func(_ context.Context, id string, _ int) (*RunDetails, error) {
		return &RunDetails{
			Run: &report.Run{Run: runs.Run{ID: id, Job: "tea", Status: runs.Partial, Trigger: "schedule", Due: at, Failures: 1}, Searches: []report.Search{
				report.NewSearch(runs.Step{ID: 1, Queries: []string{"green tea"}, Pages: 3, Hits: 120, NewHits: 80, Credits: 3, Total: 480, Left: 9, Stop: "cap"}),
				report.NewSearch(runs.Step{ID: 2, Queries: []string{"black tea"}, Total: -1, Left: -1}),
			}},
			Count: 3, Attempts: []ledger.Call{
				{Op: outlier.OpTranscript, Entity: "v1", SentAt: at.Add(9 * time.Second), Waited: store.Seconds{Duration: 3 * time.Second}, Outcome: outlier.Unknown},
				{Op: outlier.OpSearch, Step: 1, SentAt: at.Add(4 * time.Second), Waited: store.Seconds{Duration: 4 * time.Second}, AnsweredAt: at.Add(6 * time.Second),
					Price: 1, Outcome: outlier.Charged, Status: http.StatusOK},
				{Op: outlier.OpTranscript, Entity: "v2", AnsweredAt: at.Add(10 * time.Second), Outcome: outlier.Refunded, Price: 1},
			},
		}, nil
	}}), "/runs/01a3-1"), "Run 01a3-1 of <bdi>tea</bdi>: partial", "due 2026-11-23 12:00 UTC", "1 call failed", "green tea", ">480<", ">9<", ">0.04<", ">cap<", "1 to 3 of 3",
		`<strong class="down">unknown</strong>`, ">4.0<", ">HTTP 200<", `<strong class="down">not sent</strong>`)
}

func TestLongRunIsPaginated(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var all []ledger.Call
	for i := range 2*CallsPerPage + 1 {
		sent := at.Add(time.Duration(i) * time.Minute)
		all = append(all, ledger.Call{Entity: fmt.Sprint("v", i), SentAt: sent, AnsweredAt: sent.Add(time.Minute)})
	}
	s := siteOf(t, Sources{Run: func(_ context.Context, id string, page int) (*RunDetails, error) {
		first := min((page-1)*CallsPerPage, len(all))
		return &RunDetails{Run: &report.Run{Run: runs.Run{ID: id}}, Attempts: all[first:min(first+CallsPerPage, len(all))], Count: len(all)}, nil
	}})
	for page, c := range map[int]struct {
		first, last string
		next        bool
	}{1: {"v0", "v99", true}, 2: {"v100", "v199", true}, 3: {"v200", "v200", false}} {
		body := answer(s, fmt.Sprint("/runs/01a3?page=", page)).Body.String()
		for _, want := range []string{">" + c.first + "<", ">" + c.last + "<"} {
			if !strings.Contains(body, want) {
				t.Errorf("page %d has no %s", page, want)
			}
		}
		if next := strings.Contains(body, fmt.Sprintf(`href="/runs/01a3?page=%d" rel="next"`, page+1)); next != c.next {
			t.Errorf("page %d: links to the next page: %t, want %t", page, next, c.next)
		}
	}
	if w := answer(s, "/runs/01a3?page=1000000"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), `id="calls"`) {
		t.Errorf("a page after the last: HTTP %d %s, want %d without calls", w.Code, w.Body, http.StatusOK)
	}
}

func TestUnknownRun(t *testing.T) {
	w := answer(siteOf(t, Sources{Run: func(_ context.Context, id string, _ int) (*RunDetails, error) {
		return nil, fmt.Errorf("run %q: %w", id, ErrUnknown)
	}}), "/runs/%3Cscript%3E")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "run &#34;&lt;script&gt;&#34;: not found.") {
		t.Errorf("HTTP %d %s, want %d with the id", w.Code, w.Body, http.StatusNotFound)
	}
}
