package engine

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// TestQueueExplainsFirstRow, also if no call is queued yet because pages come first.
func TestQueueExplainsFirstRow(t *testing.T) {
	t.Parallel()
	const scanFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  niche: {scan: {query: [grinder], poll: 1m..10m, read: {pages: 2}}, budget: {per_run: 60}}
`
	for name, c := range map[string]struct {
		file string
		wire func(http.RoundTripper) http.RoundTripper
		op   outlier.Operation
		what string
		why  string // a part of it
		rows int    // at least
		soon bool   // its time is within half an hour
	}{
		"a refusal of a search": {
			file: jobsFile, wire: func(w http.RoundTripper) http.RoundTripper { return blocking(w, "/search/") },
			op: outlier.OpSearch, what: "home espresso", why: "the service refuses until 00:15", rows: 1, soon: true,
		},
		"a refusal of a data call": {
			file: jobsFile, wire: func(w http.RoundTripper) http.RoundTripper { return blocking(w, "/video/comments/") },
			op: outlier.OpComments, why: "the service refuses until 00:1", rows: 5, soon: true,
		},
		"a cap": {
			file: strings.Replace(jobsFile, "jobs:", "budget: {per_month: 100, per_day: 2}\njobs:", 1),
			op:   outlier.OpSearch, what: "home espresso", why: "a cap is reached: the cap for the day 2000-01-01", rows: 1,
		},
		"a refused key": {
			file: jobsFile, wire: func(http.RoundTripper) http.RoundTripper { return refusing(http.StatusUnauthorized, "who are you") },
			op: outlier.OpSearch, what: "home espresso", why: "its run failed, and the next run continues it: ", rows: 1,
		},
		"a key that is refused later": {
			file: jobsFile, wire: func(w http.RoundTripper) http.RoundTripper {
				return afterPages(w, func() *http.Response {
					return page(http.StatusUnauthorized, "application/json", `{"status":"error","error":{"message":"who are you"}}`)
				})
			},
			op: outlier.OpChannelVideos, why: "the service refuses the key since 00:00: ", rows: 5, soon: true,
		},
		"a scan": {
			file: scanFile, op: outlier.OpStartScan, what: "grinder", why: "waits for scan ", rows: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, c.file, func(w *workshop) {
				if c.wire != nil {
					w.wire = c.wire(w.service.Transport())
				}
				e, stop := w.open()
				defer stop()
				ctx, cancel := contextFor(w, 3*time.Minute)
				defer cancel()
				row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
				if row.Status == runs.OK {
					t.Fatalf("run %+v, error %v; want one that is interrupted", row, err)
				}
				waiting, err := queueOf(e, "")
				if err != nil || len(waiting) < c.rows {
					t.Fatalf("queue %+v, error %v; want at least %d rows", waiting, err, c.rows)
				}
				first := waiting[0]
				if first.Op != c.op || c.what != "" && first.Entity != c.what || !strings.HasPrefix(first.Why, c.why) {
					t.Errorf("first is %s %q: %s; want %s %q: %s",
						first.Op, first.Entity, first.Why, c.op, c.what, c.why)
				}
				if soon := !first.At.IsZero() && time.Until(first.At) < 30*time.Minute; soon != c.soon {
					t.Errorf("its time is %s, want one within half an hour: %t", first.At, c.soon)
				}
				if (first.Value == nil) != (c.what != "") {
					t.Errorf("its value is %v, want one only for data calls", first.Value)
				}
				for i := 1; i < len(waiting); i++ {
					if !strings.HasSuffix(waiting[i].Why, " before it") && !strings.HasPrefix(waiting[i].Why, "the service refuses the key") {
						t.Errorf("row %d: %s; want the calls before it, or the refused key", i, waiting[i].Why)
					}
				}
			})
		})
	}
}

// refusing simulates a service that refuses all requests.
func refusing(status int, message string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		connect(r)
		return page(status, "application/json", `{"status":"error","error":{"message":"`+message+`"}}`), nil
	})
}

// TestQueueNamesAllJobs, and lists for each job all calls that it wants.
func TestQueueNamesAllJobs(t *testing.T) {
	t.Parallel()
	bare(t, sharedFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		for _, job := range []string{"a", "b"} {
			ctx, cancel := contextFor(w, 10*time.Second)
			_, _ = e.Run(ctx, w.config.Job(job), Manual, time.Time{}) // it is interrupted
			cancel()
		}
		waiting, err := queueOf(e, "b")
		if err != nil || len(waiting) < 20 {
			t.Fatalf("%d rows, error %v; want at least 20", len(waiting), err)
		}
		for _, row := range waiting {
			if row.Op == outlier.OpDetails && (row.Job != "a" || len(row.Others) != 1 || row.Others[0] != "b") {
				t.Errorf("%s %s is wanted by %s and %v, want a and b", row.Op, row.Entity, row.Job, row.Others)
			}
		}
	})
}
