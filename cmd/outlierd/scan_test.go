package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outlierd/outlier/simulator"
)

const nothingConfigured = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  coffee: {search: {query: espresso}}
`

func TestScanIsStartedWaitedForAndRead(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		began := time.Now()
		out := p.must("scan", "start", "moka pot", "--yes", "--pages", "2", "-o", "csv")
		if rows := strings.Count(out, "\n") - 1; rows < 41 || rows > 80 {
			t.Errorf("%d rows are printed of two pages", rows)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 3*time.Hour {
			t.Errorf("it took %v", took)
		}
		if got := p.ask("select sum(price) from ops.credits where outcome = 'spent'"); got != "54" {
			t.Errorf("%s credits were spent", got)
		}
		listed := p.must("scan", "list", "-o", "csv")
		contains(p, listed, "ended,Completed,once:scan,fast,\"[\"\"moka pot\"\"]\",50,")
		if got := p.ask("select count(*) from outliers_history where source = 'scan'"); got == "0" {
			t.Error("no hit has the id of the scan")
		}
	})
}

func TestScanIsNotStartedUnasked(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		contains(p, p.refused(exitUsage, "scan", "start", "moka pot"), "--yes")
		contains(p, p.refused(exitUsage, "scan", "start", "Some Channel", "--channel", "--yes"), "outlierd: CHANNEL: ", "24")
		if got := p.must("scan", "list", "-o", "json"); got != "[]\n" {
			t.Errorf("there is a scan: %s", got)
		}
	})
}

func TestDetachedScanCanBeReadLater(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		ctx, cancel := context.WithCancel(p.Context())
		time.AfterFunc(5*time.Minute, cancel)
		_, told, code := p.do(ctx, "scan", "start", "moka pot", "--yes")
		if code != exitInterrupted {
			t.Fatalf("exit code %d: %s", code, told)
		}
		_, line, _ := strings.Cut(told, "outlierd scan read ")
		id, _, _ := strings.Cut(line, "\n")
		if len(id) != 36 {
			t.Fatalf("the command to continue is missing: %s", told)
		}
		contains(p, p.refused(exitUsage, "scan", "start", "moka pot"), "this scan is live, started by hand on 2000-01-01 00:00 UTC; reading it costs up to 12 credits")
		contains(p, p.refused(exitFailed, "scan", "read", id), "has not ended: its status is ", "no credits were spent")
		contains(p, p.refused(exitUsage, "scan", "read", "moka"), "is not a scan id")

		time.Sleep(4 * time.Hour)
		out := p.must("scan", "read", id, "--pages", "3", "--where", "z_score=0..", "-o", "ndjson")
		if rows := strings.Count(out, "\n"); rows == 0 {
			t.Error("nothing was read")
		}
		if got := p.ask("select count(*) from ops.credits where operation = 'start_scan'"); got != "1" {
			t.Errorf("%s scans were started", got)
		}
		contains(p, p.must("scan", "list"), "ended", "Completed")
	})
}

func TestScanRefusedByACapReportsOnlyTheRefusal(t *testing.T) {
	bubble(t, strings.Replace(nothingConfigured, "jobs:", "budget: {per_month: 60}\njobs:", 1), func(p *person) {
		p.must("search", "tea")
		for _, output := range []string{"table", "json", "csv"} {
			out, told, code := p.do(p.Context(), "scan", "start", "moka pot", "--yes", "-o", output)
			if code != exitBudget || out != "" && output != "json" {
				t.Errorf("exit code %d, printed %q", code, out)
			}
			if output == "json" {
				contains(p, out, `"exit_code": 4`, "the cap for the billing cycle")
			}
			contains(p, told, "the cap for the billing cycle", "raise the cap, or wait for the next billing cycle",
				"To continue when the budget allows:\n  outlierd ", " scan start 'moka pot' --yes -o "+output)
			if lines := strings.Count(told, "\n"); lines != 5 { // the price, how it ended, why, and how to go on
				t.Errorf("%d lines are printed:\n%s", lines, told)
			}
		}
	})
}

func TestScansAreNamedByTheirIDs(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		for _, command := range []string{"adopt", "read"} {
			said := p.refused(exitUsage, "scan", command, "nope")
			contains(p, said, `"nope" is not a scan id`, "a UUID such as ", "'outlierd scan list'")
			if strings.Contains(said, "0-9a-f") {
				t.Errorf("the message has a regular expression: %s", said)
			}
		}
		const id = "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"
		contains(p, p.refused(exitFailed, "scan", "adopt", id), "there is no unconfirmed start", "'outlierd scan list'")
		contains(p, p.refused(exitFailed, "scan", "read", id), "the service has no scan "+id)
		for _, args := range [][]string{{"1"}, {}, {"1", "--not-created", "1"}} {
			contains(p, p.refused(exitUsage, append([]string{"scan", "resolve"}, args...)...), "--not-created INTENT", "outlierd scan adopt ID", "outlierd scan list")
		}
	})
}

const twoScanJobs = `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{parquet: parquet}]
jobs:
  sc: {every: 1h, scan: {query: [moka pot, aeropress], read: {pages: 5}}}
  other: {scan: {query: [aeropress, moka pot], read: {where: {z_score: 3..}, pages: 1}}}
`

// TestSameScanIsBoughtOnce whatever starts it: a schedule, another job, and the same job by
// hand and in another way. Each run reads it for itself.
func TestSameScanIsBoughtOnce(t *testing.T) {
	bubble(t, twoScanJobs, func(p *person) {
		ctx, stop := context.WithTimeout(p.Context(), 62*time.Minute)
		defer stop()
		p.do(ctx, "up")
		_, id, _ := strings.Cut(p.must("scan", "list", "-o", "csv"), "\n1,")
		id, _, _ = strings.Cut(id, ",")
		contains(p, p.must("plan", "other"), "1 page   2 credits", "joins scan "+id)
		joined := "joined scan " + id + ", started by job sc on 2000-01-01 01:00 UTC; no credits spent on its start"
		left, leave := context.WithTimeout(p.Context(), 5*time.Minute)
		defer leave()
		if _, told, _ := p.do(left, "run", "other"); !strings.Contains(told, `"msg":"scan joined"`) {
			t.Errorf("the plan does not show that a scan is joined:\n%s", told)
		}
		contains(p, p.must("run", "sc", "--pages", "2"), joined, "80 hits on 2 pages", "4 credits spent")
		contains(p, p.must("run", "other"), joined, "40 hits on 1 page", "2 credits spent")
		contains(p, p.must("run", "sc"), "200 hits on 5 pages")    // goes on with the run that paid
		contains(p, p.must("plan", "other"), "1 page  52 credits") // it was read, so the next one is another
		p.write(strings.ReplaceAll(twoScanJobs, "sc:", "tea:"))    // the job is gone, and its scan is not
		contains(p, p.must("scan", "list"), id[:8], " sc ")
	})
}

// lossy is a service whose answers to POST /scan are lost on the way.
type lossy struct {
	service http.Handler

	mu  sync.Mutex
	ids []string // of the scans that were started all the same
}

// lost are the ids of the scans that were started all the same.
func (l *lossy) lost() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ids)
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		l.service.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	l.service.ServeHTTP(answer, r)
	var scan struct{ ID string }
	_ = json.Unmarshal(answer.Body.Bytes(), &scan) // without an id the test fails
	l.mu.Lock()
	l.ids = append(l.ids, scan.ID)
	l.mu.Unlock()
	panic(http.ErrAbortHandler)
}

func TestUnconfirmedScanIsSettledByAPerson(t *testing.T) {
	service := &lossy{service: simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})}
	server := httptest.NewServer(service)
	defer server.Close()
	p := &person{T: t, dir: t.TempDir()}
	t.Setenv("OUTLIERD_KEY", "demo")
	p.env = os.LookupEnv
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min}, budget: {per_month: 200}, jobs: {tea: {search: {query: tea}}}}`)

	contains(t, p.refused(exitFailed, "scan", "start", "moka pot", "--yes"), "not known whether it was started", "outlierd scan adopt ID", "--not-created 1")
	if again := p.refused(exitFailed, "scan", "start", "moka pot", "--yes"); len(service.lost()) != 1 {
		t.Fatalf("it was sent again: %s", again)
	}
	contains(t, p.must("scan", "list"), "unknown", "moka pot")
	contains(t, p.must("scan", "list", "-o", "csv"), "\n1,,unknown,,once:scan,fast,")
	contains(t, p.refused(exitFailed, "scan", "adopt", "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"), "7f9c24e8",
		"if there is none, run 'outlierd scan resolve --not-created 1': ")
	contains(t, p.must("scan", "adopt", service.lost()[0]), "intent 1, running", "outlierd scan read "+service.lost()[0])
	contains(t, p.refused(exitFailed, "scan", "read", service.lost()[0]), "has not ended")

	p.refused(exitFailed, "scan", "start", "latte art", "--yes")
	contains(t, p.must("scan", "resolve", "--not-created", "2"), "intent 2 was not created; 50 credits are available again")
	contains(t, p.refused(exitFailed, "scan", "resolve", "--not-created", "2"), "not_created")
	contains(t, p.refused(exitFailed, "scan", "resolve", "--not-created", "7"), "no scan has this intent")
	contains(t, p.refused(exitUsage, "scan", "resolve"), "--not-created INTENT")
	p.must("run", "tea")
	if got := p.ask("select string_agg(outcome, ' ' order by id) from ops.credits where operation = 'start_scan'"); got != "spent refunded" {
		t.Errorf("the ledger has %q for the scans", got)
	}
}

// TestAdoptedScanIsReadByItsRun, and to nobody else: another run of the job
// would only meet it. That run stays, whatever a person runs beside it.
func TestAdoptedScanIsReadByItsRun(t *testing.T) {
	service := &lossy{service: simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})}
	server := httptest.NewServer(service)
	defer server.Close()
	p := &person{T: t, dir: t.TempDir()}
	t.Setenv("OUTLIERD_KEY", "demo")
	p.env = os.LookupEnv
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min}, budget: {per_month: 300},
		jobs: {niche: {scan: {query: moka pot}}, other: {scan: {query: latte art}}}}`)

	for _, job := range []string{"niche", "other"} {
		contains(t, p.refused(exitFailed, "run", job), "not known whether it was started")
	}
	if told := p.must("scan", "adopt", service.lost()[0]); !strings.HasSuffix(told, "Continue with:\n  outlierd run niche\n") {
		t.Errorf("the message about a scan that its run waits for is: %s", told)
	}
	p.refused(exitFailed, "run", "other", "--again") // leaves the run alone that wished for the scan
	if told := p.must("scan", "adopt", service.lost()[1]); !strings.HasSuffix(told, "Continue with:\n  outlierd run other\n") {
		t.Errorf("the message about a scan that an earlier run waits for is: %s", told)
	}
	contains(t, p.must("plan", "other"), "5 pages  10 credits") // it was paid for, and is to be read
	if len(service.lost()) != 2 {
		t.Errorf("%d scans were started", len(service.lost()))
	}
}
