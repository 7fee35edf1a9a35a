package engine

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

const windowFile = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  weekly:
    reuse_for: 1m
    search: {query: [home espresso], where: {published_at: "since last success, overlap 3d, first 30d"}, pages: 2}
    enrich: {details: {top: 2}}
    budget: {per_run: 8}
`

// from returns the day on which the window of a run's request begins.
func (w *workshop) from(row *runs.Run) string {
	w.Helper()
	return strings.TrimSuffix(w.steps(row)[0].Window, "..")
}

// days returns the date n days after the start of the bubble.
func days(n int) string {
	return time.Date(2000, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// TestWindowStartsAtLastSuccess, minus the overlap: it starts at the time at which page one of the last
// search that ended by itself was requested.
func TestWindowStartsAtLastSuccess(t *testing.T) {
	t.Parallel()
	bare(t, windowFile, func(w *workshop) {
		time.Sleep(day - 30*time.Second) // page one is requested on one day, and page two on the next
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("from") == "1" {
				time.Sleep(50 * time.Second)
			}
			return w.service.Transport().RoundTrip(r)
		})
		if got := w.from(w.mustRun(runs.OK)); got != days(-30) {
			t.Errorf("the first window begins %s, want %s: 30 days ago", got, days(-30))
		}
		time.Sleep(10 * day)
		if got := w.from(w.mustRun(runs.OK)); got != days(-3) {
			t.Errorf("the second window begins %s, want %s: the day of page one less the overlap", got, days(-3))
		}
		if got := w.callsFor("publishedAtFrom=1999-12-29T00%3A00%3A00Z"); len(got) == 0 {
			t.Error("no request has the whole day as its bound")
		}
	})
}

// TestWatermarkMovesWithoutTheEnrichment, because the pages were searched.
func TestWatermarkMovesWithoutTheEnrichment(t *testing.T) {
	t.Parallel()
	bare(t, windowFile, func(w *workshop) {
		w.failOne("/video/")
		w.mustRun(runs.Partial)
		time.Sleep(10 * day)
		if got := w.from(w.mustRun(runs.OK)); got != days(-3) {
			t.Errorf("the window begins %s, want %s", got, days(-3))
		}
	})
}

// TestCapOrErrorKeepsWatermark of the search that it ended: the rest is searched again.
func TestCapOrErrorKeepsWatermark(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		file   string
		faults int
		left   int
	}{
		{"a cap", strings.Replace(windowFile, "per_run: 8", "per_run: 3", 1), 0, 1},
		{"an error", windowFile, plan.Attempts, 2},
		{"time", strings.Replace(windowFile, "budget: {per_run: 8}", "stop_after: 1m", 1), -1, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, test.file, func(w *workshop) {
				for range test.faults {
					w.service.FailNext(outlier.OpSearch, simulator.ServerError)
				}
				if test.faults < 0 {
					w.service.FailNext(outlier.OpSearch, simulator.RateLimited)
				}
				row, _ := w.run() // how it ends is tested elsewhere
				if step := w.steps(row)[0]; step.Left != test.left {
					t.Errorf("%d pages are left, want %d", step.Left, test.left)
				}
				time.Sleep(10 * day)
				w.use(windowFile)
				if got := w.from(w.mustRun(runs.OK)); got != days(10-30) {
					t.Errorf("the window begins %s, want %s: no search has come to its end", got, days(10-30))
				}
			})
		})
	}
}

// TestOnlyChangedQueryResetsWatermark: a watermark belongs to the job, its query and its for_each value, not
// to filters or the overlap.
func TestOnlyChangedQueryResetsWatermark(t *testing.T) {
	t.Parallel()
	for change, want := range map[[2]string]string{
		{"where: {", "where: {z_score: 2.., "}:                days(-3),
		{"[home espresso]", "[moka pot]"}:                     days(10 - 30),
		{"weekly:\n", "weekly:\n    for_each: {x: [home]}\n"}: days(10 - 30),
		{"weekly:\n", "monthly:\n"}:                           days(10 - 30),
		{"overlap 3d", "overlap 5d"}:                          days(-5),
	} {
		bare(t, windowFile, func(w *workshop) {
			w.mustRun(runs.OK)
			time.Sleep(10 * day)
			edited := strings.Replace(windowFile, change[0], change[1], 1)
			if strings.Contains(edited, "for_each") {
				edited = strings.Replace(edited, "[home espresso]", `["${x} espresso"]`, 1)
			}
			w.use(edited)
			row, err := w.run()
			if err != nil {
				t.Fatal(err)
			}
			if got := w.from(row); got != want {
				t.Errorf("with %q for %q the window begins %s, want %s", change[1], change[0], got, want)
			}
		})
	}
}

// TestStopWhenComparesWithEarlierRuns: ids of an earlier page of the same run still count as new, and page
// one never ends a search.
func TestStopWhenComparesWithEarlierRuns(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  one: {reuse_for: 1m, search: {query: [x], pages: 4, stop_when: {new_below: 50%}}}
`
	for _, test := range []struct {
		name          string
		before, after [][]int // the pages of a first and a second run
		taken         int     // pages of the second run
	}{
		{"all new", nil, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40)}, 4},
		{"page one all known", [][]int{numbers(0, 40)}, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40)}, 4},
		{"page two half known", [][]int{numbers(40, 20)}, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40)}, 4},
		{"page two known by more than half", [][]int{numbers(40, 21)}, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40)}, 2},
		{"page two as page one for the most part", nil, [][]int{numbers(0, 40), numbers(5, 40), numbers(45, 40), numbers(85, 40)}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, strings.Replace(file, "limit: 600/min", "limit: 600/min, paging: page", 1), func(w *workshop) {
				if test.before != nil {
					w.wire = pagesOf(t, len(test.before[0]), test.before...)
					w.mustRun(runs.OK)
					time.Sleep(time.Hour)
				}
				w.wire = pagesOf(t, 1000, test.after...)
				if row := w.mustRun(runs.OK); int(row.Pages) != test.taken {
					t.Errorf("%d pages, want %d", row.Pages, test.taken)
				}
			})
		})
	}
}

// TestStopWhenIgnoresUncoveredHits: ids seen by an overridden run, or by a search that a cap or an error has
// cut off, end no later search early.
func TestStopWhenIgnoresUncoveredHits(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one: {reuse_for: 1m, search: {query: [x], pages: 4, stop_when: {new_below: 50%}}BUDGET}
`
	pages := [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40)}
	for name, before := range map[string]func(w *workshop){
		"overridden": func(w *workshop) {
			spec, err := w.config.Jobs[0].With(job.Overrides{Pages: 2})
			if err != nil {
				t.Fatal(err)
			}
			w.withSinks(func(e *Engine) {
				if row, err := e.Run(w.ctx, &spec, Manual, time.Time{}); err != nil || row.Pages != 2 {
					t.Fatalf("run %+v, error %v", row, err)
				}
			})
		},
		"cut by a cap": func(w *workshop) {
			w.use(strings.Replace(file, "BUDGET", ", budget: {per_run: 4}", 1))
			if row := w.mustRun(runs.PausedBudget); row.Pages != 2 {
				t.Fatalf("run %+v", row)
			}
			w.use(strings.Replace(file, "BUDGET", "", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, strings.Replace(file, "BUDGET", "", 1), func(w *workshop) {
				w.wire = pagesOf(t, 1000, pages...)
				before(w)
				time.Sleep(25 * time.Hour)
				if row := w.mustRun(runs.OK); row.Pages != 4 {
					t.Errorf("the job's run takes %d pages, want 4", row.Pages)
				}
				time.Sleep(time.Hour)
				if row := w.mustRun(runs.OK); row.Pages != 2 {
					t.Errorf("the one after it takes %d pages, want 2: all is known", row.Pages)
				}
			})
		})
	}
}
