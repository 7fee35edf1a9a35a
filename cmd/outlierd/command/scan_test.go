package command

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/programtest"
	"outlierd/outlier/simulator"
)

const nothingConfigured = `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{duckdb: outliers.duckdb}]
jobs:
  coffee: {search: {query: espresso}}
`

func TestScanStartWaitsAndReadsResults(t *testing.T) {
	t.Parallel()
	bubble(t, nothingConfigured, func(p *person) {
		began := time.Now()
		out := p.must("scan", "start", "moka pot", "--yes", "--pages", "2", "-o", "csv")
		if rows := strings.Count(out, "\n") - 1; rows < 41 || rows > 80 {
			t.Errorf("%d rows are printed, want 41 to 80 of two pages", rows)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 3*time.Hour {
			t.Errorf("it took %v, want 30m to 3h", took)
		}
		const spentAndRead = "select (select sum(price) from ops.credits where outcome = 'spent'), " +
			"(select count(*) > 0 from outliers_history where source = 'scan')"
		if got := p.ask(spentAndRead); got != "54,true" {
			t.Errorf("credits that were spent, and whether hits have the scan as their source: %s, want 54,true", got)
		}
		contains(p, p.must("scan", "list", "-o", "ndjson"), `"job":"once:scan",`, `"mode":"fast","queries":["moka pot"],"credits":50,"state":"ended",`,
			`"status":"Completed"`)
	})
}

func TestScanStartNeedsConfirmation(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(nothingConfigured, "jobs:", "budget: {per_month: 60, confirm_over: 20}\njobs:", 1), func(p *person) {
		contains(p, p.refused(exitUsage, "scan", "start", "moka pot"), "scan up to 60; ", "--yes")
		contains(p, p.refused(exitUsage, "scan", "start", "Some Channel", "--channel", "--yes"), "outlierd: CHANNEL: ", "24")
		if got := p.must("scan", "list", "-o", "json"); got != "[]\n" {
			t.Errorf("scans are %s, want none", got)
		}
	})
}

func TestDetachedScanCanBeReadLater(t *testing.T) {
	t.Parallel()
	bubble(t, nothingConfigured, func(p *person) {
		ctx, cancel := context.WithCancel(p.Context())
		time.AfterFunc(5*time.Minute, cancel)
		_, stderr, code := p.do(ctx, "scan", "start", "moka pot", "--yes")
		if code != exitInterrupted {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		toContinue(p, stderr)
		id := p.ask("select distinct scan_id from scans")
		again, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		_, stderr, _ = p.do(again, "scan", "start", "moka pot")
		contains(p, stderr, "scan: at most 12 credits ", "waits for scan "+id+", and reads it")
		second := toContinue(p, stderr)
		contains(p, p.refused(exitFailed, "scan", "read", id), "has not ended: its status is ", "no credits were spent")
		contains(p, p.refused(exitUsage, "scan", "read", "moka"), "is not a scan id")

		time.Sleep(4 * time.Hour)
		contains(p, p.must("run", "--continue", second), "scan: continuing the run of ", "on 5 pages")
		out := p.must("scan", "read", id, "--pages", "3", "--where", "z_score=0..", "-o", "ndjson")
		if rows := strings.Count(out, "\n"); rows == 0 {
			t.Error("no results were read")
		}
		if got := p.ask("select count(*) from ops.credits where operation = 'start_scan'"); got != "1" {
			t.Errorf("%s scans were started, want 1", got)
		}
		contains(p, p.must("scan", "list"), "ended", "Completed")
	})
}

func TestScanOverCapReportsOnlyRefusal(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(nothingConfigured, "jobs:", "budget: {per_month: 60}\njobs:", 1), func(p *person) {
		p.must("search", "tea")
		for _, output := range []string{"table", "json", "csv"} {
			out, stderr, code := p.do(p.Context(), "scan", "start", "moka pot", "--yes", "-o", output)
			if code != exitBudget || out != "" && output != "json" {
				t.Errorf("-o %s: exit code %d, want %d; printed %q", output, code, exitBudget, out)
			}
			if output == "json" {
				contains(p, out, `"exit_code": 4`, "the cap for the billing cycle")
			}
			contains(p, stderr, "the cap for the billing cycle", "raise the cap, or wait for the next billing cycle",
				"To continue, repeat the command when the budget allows\n")
			if lines := strings.Count(stderr, "\n"); lines != 4 { // the price, how it ended, why, and how to continue
				t.Errorf("-o %s: %d lines are printed, want 4:\n%s", output, lines, stderr)
			}
		}
	})
}

// Commands name a scan by its ID, and explain why they refuse another argument.
func TestScanCommandsRequireScanID(t *testing.T) {
	t.Parallel()
	bubble(t, nothingConfigured, func(p *person) {
		for _, command := range []string{"adopt", "read"} {
			stderr := p.refused(exitUsage, "scan", command, "nope")
			contains(p, stderr, `"nope" is not a scan id`, "a UUID such as ", "'outlierd scan list'")
			if strings.Contains(stderr, "0-9a-f") {
				t.Errorf("the message has a regular expression: %s", stderr)
			}
		}
		const id = "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"
		contains(p, p.refused(exitFailed, "scan", "adopt", id), "there is no unconfirmed start", "'outlierd scan list'")
		contains(p, p.refused(exitFailed, "scan", "read", id), "the service has no scan "+id)
		for _, args := range [][]string{{"1"}, {}, {"1", "--not-created", "1"}} {
			contains(p, p.refused(exitUsage, append([]string{"scan", "resolve"}, args...)...),
				"--not-created INTENT", "outlierd scan adopt ID", "outlierd scan list")
		}
	})
}

const twoScanJobs = `
version: 1
service: {url: "sim://", limit: 600/min}
sinks: [{parquet: parquet}]
jobs:
  sc: {every: 1h, scan: {query: [moka pot, aeropress], read: {pages: 5}, poll: 5m..30m}}
  other: {scan: {query: [aeropress, moka pot], read: {where: {z_score: 3..}, pages: 1}}}
`

// TestSameScanIsBoughtOnce, whatever starts it: a schedule, another job, or the same job by hand with other
// flags. Each run reads the results for itself.
func TestSameScanIsBoughtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, twoScanJobs, func(p *person) {
		ctx, stop := context.WithTimeout(p.Context(), 62*time.Minute)
		defer stop()
		p.do(ctx, "up")
		_, id, _ := strings.Cut(p.must("scan", "list", "-o", "ndjson"), `"scan_id":"`)
		id, _, _ = strings.Cut(id, `"`)
		contains(p, p.must("plan", "other"), "1 page   2 credits", "joins scan "+id)
		joined := "joined scan " + id + ", started by job sc on 2000-01-01 01:00 UTC; no credits spent on its start"
		left, leave := context.WithTimeout(p.Context(), 5*time.Minute)
		defer leave()
		if _, stderr, _ := p.do(left, "run", "other"); !strings.Contains(stderr, `"msg":"scan joined"`) {
			t.Errorf("the log does not show that a scan was joined:\n%s", stderr)
		}
		contains(p, p.must("run", "sc", "--pages", "2"), joined, "80 hits on 2 pages", "4 credits spent")
		contains(p, p.must("run", "other"), joined, "40 hits on 1 page", "2 credits spent")
		contains(p, p.must("run", "sc"), "200 hits on 5 pages")    // continues the run that paid
		contains(p, p.must("plan", "other"), "1 page  52 credits") // the scan was read, so the next run starts another
		p.write(strings.ReplaceAll(twoScanJobs, "sc:", "tea:"))    // a removed job's scan is still listed
		contains(p, p.must("scan", "list"), id[:8], " sc ")
	})
}

// TestRestOfUnreadScanIsRefused, whether or not the cap of its run has room to read it: its results are paid
// for.
func TestRestOfUnreadScanIsRefused(t *testing.T) {
	t.Parallel()
	file := strings.Replace(nothingConfigured, "search: {query: espresso}",
		"scan: {query: moka pot, read: {pages: 2}}, budget: {per_run: 60}", 1)
	bubble(t, file, func(p *person) {
		ctx, stop := context.WithTimeout(p.Context(), 5*time.Minute)
		defer stop()
		if _, stderr, code := p.do(ctx, "run", "coffee"); code != exitInterrupted {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		id := p.ask("select run_id from ops.runs")
		for _, room := range []string{"60", "50"} {
			p.write(strings.Replace(file, "60", room, 1))
			contains(p, p.refused(exitFailed, "run", "--rest", id),
				"run "+id+" has not ended; 'outlierd run --continue "+id+"' continues it")
		}
		p.write(file)
		time.Sleep(3 * time.Hour)
		contains(p, p.must("run", "--continue", id), "2 pages", "54 credits")
	})
}

func TestUnconfirmedScanIsAdoptedOrResolved(t *testing.T) {
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	started := programtest.LoseStarts(service)
	server := httptest.NewServer(service)
	defer server.Close()
	p := &person{T: t, dir: t.TempDir()}
	t.Setenv("OUTLIERD_KEY", "demo")
	p.env = os.LookupEnv
	p.begin()
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min},
		budget: {per_month: 200}, sinks: [{duckdb: outliers.duckdb}], jobs: {tea: {search: {query: tea}}}}`)

	contains(t, p.refused(exitFailed, "scan", "start", "moka pot", "--yes"),
		"not known whether it was started", "outlierd scan adopt ID", "--not-created 1")
	if again := p.refused(exitFailed, "scan", "start", "moka pot", "--yes"); len(started()) != 1 {
		t.Fatalf("%d scans were started, want 1: %s", len(started()), again)
	}
	contains(t, p.must("scan", "list"), "unknown", "moka pot")
	contains(t, p.must("scan", "list", "-o", "ndjson"), `{"intent":1,`, `"job":"once:scan",`, `"state":"unknown",`)
	contains(t, p.refused(exitFailed, "scan", "adopt", "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"), "7f9c24e8",
		"if there is none, run 'outlierd scan resolve --not-created 1': ")
	contains(t, p.must("scan", "adopt", started()[0]), "intent 1, running", "outlierd scan read "+started()[0])
	contains(t, p.refused(exitFailed, "scan", "read", started()[0]), "has not ended")

	p.refused(exitFailed, "scan", "start", "latte art", "--yes")
	contains(t, p.must("scan", "resolve", "--not-created", "2"), "intent 2 was not created; 50 credits are available again")
	contains(t, p.refused(exitFailed, "scan", "resolve", "--not-created", "2"), "not_created")
	contains(t, p.refused(exitFailed, "scan", "resolve", "--not-created", "7"), "no scan has this intent")
	contains(t, p.refused(exitUsage, "scan", "resolve"), "--not-created INTENT")
	p.must("run", "tea")
	if got := p.ask("select string_agg(outcome, ' ' order by id) from ops.credits where operation = 'start_scan'"); got != "spent refunded" {
		t.Errorf("the ledger has %q for the scans, want %q", got, "spent refunded")
	}
}

// TestRunReadsItsAdoptedScan: the run that started the scan continues, also after another run of the job.
func TestRunReadsItsAdoptedScan(t *testing.T) {
	service := simulator.New(simulator.Options{Seed: 1, Limit: 1_000_000})
	started := programtest.LoseStarts(service)
	server := httptest.NewServer(service)
	defer server.Close()
	p := &person{T: t, dir: t.TempDir()}
	t.Setenv("OUTLIERD_KEY", "demo")
	p.env = os.LookupEnv
	p.begin()
	p.write(`{version: 1, service: {url: "` + server.URL + `", key: "${OUTLIERD_KEY}", limit: 1000000/min}, budget: {per_month: 300},
		sinks: [{duckdb: outliers.duckdb}], jobs: {niche: {scan: {query: moka pot}}, other: {scan: {query: latte art}}}}`)

	for _, job := range []string{"niche", "other"} {
		contains(t, p.refused(exitFailed, "run", job, "--yes"), "not known whether it was started")
	}
	if out := p.must("run", "--due"); out != "" {
		t.Errorf("cron is told each time about scans that wait for a person: %s", out)
	}
	if out := p.must("scan", "adopt", started()[0]); !strings.HasSuffix(out, "Continue with:\n  outlierd run niche\n") {
		t.Errorf("the message about a scan that its run waits for is: %s", out)
	}
	p.refused(exitFailed, "run", "other", "--again", "--yes") // does not change the run that started the scan
	if out := p.must("scan", "adopt", started()[1]); !strings.HasSuffix(out, "Continue with:\n  outlierd run other\n") {
		t.Errorf("the message about a scan that an earlier run waits for is: %s", out)
	}
	contains(t, p.must("plan", "other"), "5 pages  10 credits") // the scan is paid for, and will be read
	if len(started()) != 2 {
		t.Errorf("%d scans were started, want 2", len(started()))
	}
}
