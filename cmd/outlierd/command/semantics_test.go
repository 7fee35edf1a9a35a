package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sync/forecast"
)

// TestPlanShowsListAsOneRequest: a list of queries has one line, with the price of one request.
func TestPlanShowsListAsOneRequest(t *testing.T) {
	t.Parallel()
	f := &forecast.Forecast{Jobs: []forecast.Job{{
		Job:      "coffee",
		Searches: []forecast.Search{{Op: outlier.OpSearch, Queries: []string{"moka pot", "latte art"}, Pages: 1, Credits: 2}},
	}}}
	for line := range strings.Lines(report.Plan(f, time.UTC, true)) {
		if strings.Contains(line, "moka pot") != strings.Contains(line, "latte art") {
			t.Errorf("the queries of one request have lines of their own: %s", line)
		}
		cost := "1 page   2 credits  one request per page covers 2 queries"
		if strings.Contains(line, "moka pot") && strings.HasSuffix(strings.TrimSpace(line), cost) {
			return
		}
	}
	t.Error("no line has both queries, a page, two credits, and that they are one request")
}

// opensFile is a line of an example that opens the published file with DuckDB.
var opensFile = regexp.MustCompile(`(?i)^\s*(duckdb |.*duckdb\.connect\(|attach ).*outliers\.duckdb`)

// TestExamplesOpenFileReadOnly, so that a copy of an example cannot change the published file.
func TestExamplesOpenFileReadOnly(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !opensFile.MatchString(line) {
				continue
			}
			seen++
			flat := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(line))
			if !strings.Contains(flat, "readonly") {
				t.Errorf("%s: this example opens the file for writing: %s", page, line)
			}
		}
	}
	if seen < 4 {
		t.Errorf("found %d examples, want those of README.md and docs/querying.md", seen)
	}
}
