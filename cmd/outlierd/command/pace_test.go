package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These tests show that the settings of the job file reach the limiter, which has tests of its own.

const pacedFile = `
version: 1
service: {url: "sim://", limit: 4/min}
sinks: [{duckdb: outliers.duckdb}]
jobs:
  tea: {search: {query: tea}, enrich: {details: {top: 3}}}
`

func TestRestartKeepsThePace(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(pacedFile, "4/min", "5/min", 1), func(p *person) {
		began := time.Now()
		p.must("run", "tea") // 5 requests: the time of the service, a page and three details
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("a run within the window took %s, want at most 10s", took)
		}
		if _, err := os.Stat(filepath.Join(p.dir, "data", "state", "pace.json")); err != nil {
			t.Error(err)
		}
		p.must("search", "coffee")
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("the next process sent its request after %s, want 1 to 2 minutes: the window was used up", took)
		}
	})
}

// A run stops rather than wait longer than service.max_wait.
func TestMaxWaitLimitsWaiting(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(pacedFile, "4/min", "3/h, max_wait: 20m", 1), func(p *person) {
		began := time.Now()
		stderr := p.refused(exitBudget, "run", "tea")
		contains(p, stderr, "service.max_wait", "\nTo continue:\n  outlierd -c ")
		if took := time.Since(began); took > 20*time.Minute {
			t.Errorf("the run stopped after %s, want at most 20m", took)
		}
		time.Sleep(time.Hour)
		p.must("run", "tea")
		if got := p.ask("select count(*), sum(if(operation = 'search', 1, 0)) from ops.requests"); got != "5,1" {
			t.Errorf("requests and searches: %s, want 5,1", got)
		}
	})
}

func TestRunUsesOnlyItsPaceShare(t *testing.T) {
	t.Parallel()
	bubble(t, strings.Replace(pacedFile, "4/min", "4/min, share: 0.5", 1), func(p *person) {
		p.must("run", "tea")
		const atOnce = "select count(*) from ops.requests where sent_at < (select min(sent_at) + interval 10 second from ops.requests)"
		if got := p.ask(atOnce); got != "2" {
			t.Errorf("with a share of 0.5, %s requests left at once, want 2 of the 4 a minute", got)
		}
	})
}
