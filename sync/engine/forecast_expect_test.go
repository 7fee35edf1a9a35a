package engine

import (
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

const expectedFile = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one: {search: {query: [home espresso], pages: 2}}
`

// expected checks the estimate for the only job.
func (w *workshop) expected(credits outlier.Credits, requests, basis int) {
	w.Helper()
	f, _ := w.foreseen()
	if got := f.Jobs[0]; got.Expected.Credits != credits || got.Expected.Requests != requests || got.Basis != basis {
		w.Errorf("%d credits and %d requests are expected from %d runs; want %d, %d and %d",
			got.Expected.Credits, got.Expected.Requests, got.Basis, credits, requests, basis)
	}
}

// TestEstimateUsesComparableRuns: not overridden ones, and not ones that found their pages in the journal if
// another one bought its pages.
func TestEstimateUsesComparableRuns(t *testing.T) {
	t.Parallel()
	bare(t, expectedFile, func(w *workshop) {
		w.performed(job.Overrides{Pages: 1}, "one")
		w.expected(4, 2, 0)
		time.Sleep(day)
		w.mustRun(runs.OK)
		w.expected(4, 2, 1)
		if row := w.mustRun(runs.OK); row.Credits != 0 {
			t.Fatalf("the pages of a moment ago were bought again for %d credits", row.Credits)
		}
		w.expected(4, 2, 1)
	})
}

// TestEstimateOfAlwaysReusedPages: its runs buy nothing, and no other runs are known.
func TestEstimateOfAlwaysReusedPages(t *testing.T) {
	t.Parallel()
	bare(t, expectedFile, func(w *workshop) {
		w.performed(job.Overrides{}, "one")
		w.use(strings.Replace(expectedFile, "  one:", "  two:", 1))
		w.mustRun(runs.OK)
		w.expected(0, 0, 1)
	})
}

// TestEstimateIsLimitedByCaps, whatever the last run cost.
func TestEstimateIsLimitedByCaps(t *testing.T) {
	t.Parallel()
	for caps, want := range map[string][2]int{"per_month: 4": {0, 0}, "per_month: 6": {2, 1}, "per_month: 9": {4, 2}} {
		file := strings.Replace(expectedFile, "pages: 2}", "pages: 2}, budget: {"+caps+"}", 1)
		bare(t, file, func(w *workshop) {
			w.mustRun(runs.OK)
			time.Sleep(7 * time.Hour) // what is in the journal would not be bought again
			w.expected(outlier.Credits(want[0]), want[1], 1)
		})
	}
}
