package main

import (
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/forecast"
)

// TestPlanSaysThatAListIsOneRequest: one line with all queries, at the price of one.
func TestPlanSaysThatAListIsOneRequest(t *testing.T) {
	f := &forecast.Forecast{Jobs: []forecast.Job{{
		Job:      "coffee",
		Searches: []forecast.Search{{Op: outlier.OpSearch, Queries: []string{"moka pot", "latte art"}, Pages: 1, Credits: 2}},
	}}}
	for line := range strings.Lines(planText(f, time.UTC, true)) {
		if strings.Contains(line, "moka pot") != strings.Contains(line, "latte art") {
			t.Errorf("the queries of one request are told apart: %s", line)
		}
		cost := "1 page   2 credits  one request per page covers both queries"
		if strings.Contains(line, "moka pot") && strings.HasSuffix(strings.TrimSpace(line), cost) {
			return
		}
	}
	t.Error("no line has both queries, a page, two credits, and says that they are one request")
}
