package main

import (
	"context"
	"strings"
	"testing"
	"time"
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
			t.Error("no hit says that it comes from the scan")
		}
	})
}

func TestScanIsNotStartedUnasked(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		contains(p, p.refused(exitUsage, "scan", "start", "moka pot"), "--yes")
		contains(p, p.refused(exitUsage, "scan", "start", "Some Channel", "--channel", "--yes"), "scan.channel_id", "24")
		if got := p.must("scan", "list", "-o", "json"); got != "[]\n" {
			t.Errorf("there is a scan: %s", got)
		}
	})
}

func TestScanThatIsLeftCanBeReadLater(t *testing.T) {
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
			t.Fatalf("it is not said how to go on: %s", told)
		}
		contains(p, p.refused(exitFailed, "scan", "read", id), "has not ended: its status is ", "nothing spent")
		contains(p, p.refused(exitUsage, "scan", "read", "moka"), "is no id of a scan")

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

func TestScanOfWhichNobodyKnowsIsSettledByWord(t *testing.T) {
	bubble(t, nothingConfigured, func(p *person) {
		contains(p, p.refused(exitUsage, "scan", "resolve"), "--not-created INTENT")
		contains(p, p.refused(exitFailed, "scan", "resolve", "--not-created", "7"), "no such scan")
		contains(p, p.refused(exitFailed, "scan", "adopt", "7f9c24e8-3b12-4fef-91e0-1e2b3c4d5e6f"), "scan")
	})
}
