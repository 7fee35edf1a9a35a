package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

func TestWorstOfSeveralRuns(t *testing.T) {
	t.Parallel()
	one, other := errors.New("no route"), errors.New("disk full")
	partial, paused := statusError{runs.Partial}, statusError{runs.PausedBudget}
	failed := statusError{runs.Failed}
	for _, test := range []struct {
		errs []error
		want int
	}{
		{nil, exitDone},
		{[]error{partial}, exitPartial},
		{[]error{partial, paused}, exitBudget},
		{[]error{paused, partial}, exitBudget},
		{[]error{partial, failed}, exitFailed},
		{[]error{partial, paused, failed}, exitFailed},
		{[]error{partial, one, paused}, exitFailed},
		{[]error{paused, &outlier.Error{Kind: outlier.Unauthorized}}, exitKeyRefused},
		{[]error{partial, &fs.PathError{Path: os.Stdout.Name(), Err: syscall.EPIPE}}, exitPartial},
	} {
		if got := exitCode(t.Context(), selectWorst(test.errs)); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.errs, got, test.want)
		}
	}
	// The message has every error, and no statuses: they are in the summaries.
	got := errorMessage(t.Context(), selectWorst([]error{partial, one, paused, other}))
	if want := "outlierd: no route\ndisk full"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}

// parsed returns a job file with one search.
func parsed(t *testing.T, limit, search string) *job.Config {
	t.Helper()
	text := "version: 1\nservice: {url: \"sim://\", limit: " + limit + "}\njobs:\n  coffee: {" + search + "}\n"
	config, err := job.Parse("/jobs.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestPlanShowsTheWorstCase: a search of several pages may need one more, to find out what the service's `from`
// counts.
func TestPlanShowsTheWorstCase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ limit, job, want string }{
		{"10/min", "search: {query: [espresso], pages: 1}", "coffee: at most 2 credits (6 if answers are lost), 1 request, 6 s at 10/min"},
		{"10/min", "search: {query: [espresso], pages: 4}, enrich: {details: {top: 15}}", "coffee: at most 10 credits (30 if answers are lost), 20 requests, 2 min at 10/min"},
		{"10/min", "search: {query: [espresso], pages: 4}, enrich: {details: {}}", "coffee: at most 10 credits (30 if answers are lost), 205 requests, 20 min at 10/min"},
		{"100/h", "search: {query: [espresso], pages: 18}, enrich: {details: {}}", "coffee: at most 38 credits (114 if answers are lost), 779 requests, 7.8 h at 100/h"},
		{"10/min", "search: {query: [espresso], pages: all}, budget: {per_run: 6}", "coffee: at most 6 credits, 3 requests, 18 s at 10/min"},
	} {
		config := parsed(t, test.limit, test.job)
		err := withoutState(t.Context(), config, func(p *program) error {
			if got := planLine(t.Context(), p.forecasts(), &config.Jobs[0]); got != test.want {
				t.Errorf("%s: %q, want %q", test.job, got, test.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSpelledDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 400 * time.Millisecond: "0 s", 90 * time.Second: "90 s", 119*time.Second + 600*time.Millisecond: "2 min",
		2 * time.Minute: "2 min", 90 * time.Minute: "90 min", 2*time.Hour - time.Second: "2.0 h", 2 * time.Hour: "2.0 h", 30 * time.Hour: "30.0 h",
	} {
		if got := term.Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestFactsBreakWhereATerminalEnds(t *testing.T) {
	t.Parallel()
	facts := []string{"rows channels 2", "comments 294", "videos 3"}
	for columns, want := range map[int]string{
		0:  "  rows channels 2 · comments 294 · videos 3\n",
		80: "  rows channels 2 · comments 294 · videos 3\n",
		40: "  rows channels 2 · comments 294\n  videos 3\n",
		10: "  rows channels 2\n  comments 294\n  videos 3\n",
	} {
		got := term.Wrap(facts, columns)
		if got != want {
			t.Errorf("at %d columns: %q, want %q", columns, got, want)
		}
		for line := range strings.Lines(got) {
			if columns >= 40 && term.Width(line) > columns {
				t.Errorf("at %d columns the line %q wraps", columns, line)
			}
		}
	}
}

func TestRunsAsRowsForPrograms(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{duckdb: outliers.duckdb}]
jobs:
  none: {search: {query: tea, where: {z_score: 1000..}, pages: 3}}
  much: {search: {query: home espresso, pages: 5}, budget: {per_run: 4}}
`, func(p *person) {
		out, stderr, code := p.do(p.Context(), "run", "--all", "-o", "json")
		if code != exitBudget {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		contains(t, stderr, "none  ok_empty", "much  paused_budget") // summaries on standard error
		var rows []struct {
			Job, Status string
			Credits     int
			Endings     []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		if saved := rows[0].Endings[0]["credits_saved"]; rows[0].Status != "ok_empty" || rows[0].Credits != 2 || saved != nil {
			t.Errorf("the row of a search without hits is %+v", rows[0])
		}
		if left := rows[1].Endings[0]["credits_left"]; rows[1].Status != "paused_budget" || rows[1].Credits != 4 || left != 6.0 {
			t.Errorf("the row of a run that was stopped by a cap is %+v", rows[1])
		}
		contains(t, p.refused(exitUsage, "run", "--all", "-o", "xml"), "want table, json or ndjson")
	})
}

// hit is a hit of the service with a title.
func hit(id, title string, zScore float64) string {
	document, _ := json.Marshal(map[string]any{
		"id": id, "kind": "video", "snippet": map[string]any{"title": title, "channelId": "UC1234567890abcdefghijkl", "channelTitle": "The Lab"},
		"statistics": map[string]any{"zScore": zScore},
	})
	return string(document)
}

// TestRunNamesItsBestHits: their titles, which cannot act on a terminal, and the command that shows more.
func TestRunNamesItsBestHits(t *testing.T) {
	t.Parallel()
	bubble(t, `
version: 1
service: {url: "https://service.example", key: "${OUTLIERD_KEY}"}
budget: {per_month: 100}
jobs:
  tea: {search: {query: tea, sort: published_at desc}, enrich: {sort: z_score desc}}
`, func(p *person) {
		hits := []string{hit("aaaaaaaaaaa", "the fourth", 1), hit("bbbbbbbbbbb", "the \x1b[2Jfirst\u202e\nline", 9), hit("ccccccccccc", "the third", 2), hit("ddddddddddd", "the second", 3)}
		service := answers{status: 200, body: fmt.Sprintf(`{"hits": [%s], "pagination": {"total": 4}, "items": []}`, strings.Join(hits, ","))}
		p.network = func(string) (http.RoundTripper, error) { return &service, nil }
		p.env = func(name string) (string, bool) {
			return map[string]string{"OUTLIERD_KEY": "CANARY"}[name], name == "OUTLIERD_KEY"
		}
		out := p.must("run")
		want := `
  the best are:
    the ` + "\ufffd[2Jfirst\ufffd" + ` line · The Lab
    the second · The Lab
    the third · The Lab
  more: outlierd -c ` + filepath.Join(p.dir, "jobs.yaml") + ` sql "select title, channel_title, z_score from outliers order by z_score desc limit 10"
`
		if !strings.HasSuffix(out, want) {
			t.Errorf("got\n%s\nwant at its end\n%s", out, want)
		}
	})
}

// TestManualRequestsAreMadeNow: neither the back-off of a failed call nor an unreadable page in the journal
// delays a repeated request by hand.
func TestManualRequestsAreMadeNow(t *testing.T) {
	var broken atomic.Bool
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() && r.URL.Path != "/video/-----------" { // which is asked for the time
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"unlike": "an answer"}`)
			return
		}
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	p := &person{T: t, dir: t.TempDir()}
	t.Setenv("OUTLIERD_KEY", "demo")
	p.env = os.LookupEnv
	p.begin()
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min}, budget: {per_month: 300},
		sinks: [{duckdb: outliers.duckdb}], jobs: {tea: {search: {query: tea}, enrich: {transcript: {top: 1}}}}}`)
	p.must("search", "moka pot")
	id := p.ask("select video_id from outliers limit 1")

	broken.Store(true)
	out, _, code := p.do(p.Context(), "transcript", id)
	_, stderr, _ := p.do(p.Context(), "transcript", id)
	if code != exitPartial || out != "" && !strings.Contains(out, "(0 rows)") {
		t.Errorf("exit code %d, printed %q", code, out)
	}
	contains(t, stderr, "1 request ", "the same command tries again now")
	p.refused(exitFailed, "run")
	broken.Store(false)
	contains(t, p.must("transcript", id), "seconds", "text")
	contains(t, p.must("run"), "40 hits on 1 page, ", "2 credits spent")
}
