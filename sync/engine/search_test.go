package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// pagesOf answers searches from a list of pages, each a list of video numbers. It does not answer other
// calls.
func pagesOf(t *testing.T, total int, pages ...[]int) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		connect(r)
		n, err := strconv.Atoi(r.URL.Query().Get("from"))
		if err != nil {
			t.Errorf("from: %v", err)
		}
		hits := []map[string]any{}
		if n < len(pages) {
			for _, video := range pages[n] {
				hits = append(hits, map[string]any{
					"id": fmt.Sprintf("video-%05d", video), "kind": "video",
					"snippet": map[string]any{"channelId": "UC-aaaaaaaaaaaaaaaaaaaaa"}, "statistics": map[string]any{},
				})
			}
		}
		body, err := json.Marshal(map[string]any{"pagination": map[string]any{"total": total, "from": n, "size": 40}, "hits": hits})
		if err != nil {
			t.Error(err)
		}
		return page(http.StatusOK, "application/json", string(body)), nil
	})
}

// numbers returns n video numbers from first on.
func numbers(first, n int) (all []int) {
	for i := range n {
		all = append(all, first+i)
	}
	return all
}

// A search stops at the wanted number of pages, at an empty page, at a short page that the total explains, or
// at one without new ids.
func TestSearchStopsAfterItsLastPage(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  one: {search: {query: [x], pages: 5}}
`
	for _, test := range []struct {
		name  string
		total int
		pages [][]int
		want  string
		taken int
		hits  int
	}{
		{"as many pages as the job wants", 1000, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40), numbers(160, 40), numbers(200, 40)}, runs.StopPages, 5, 200},
		{"an empty page", 40, [][]int{numbers(0, 40), {}}, runs.StopEmpty, 2, 40},
		{"an empty page in the middle", 1000, [][]int{numbers(0, 40), {}}, runs.StopMissing, 2, 40},
		{"nothing at all", 0, nil, runs.StopEmpty, 1, 0},
		{"a short page that the total explains", 55, [][]int{numbers(0, 40), numbers(40, 15)}, runs.StopShort, 2, 55},
		{"a short page that it does not", 1000, [][]int{numbers(0, 30), numbers(30, 40), numbers(70, 40), numbers(110, 40), numbers(150, 40)}, runs.StopPages, 5, 190},
		{"a page without a new id", 1000, [][]int{numbers(0, 40), numbers(40, 40), numbers(0, 40)}, runs.StopRepeated, 3, 120},
		{"a total alone ends nothing", 40, [][]int{numbers(0, 40), numbers(40, 40), {}}, runs.StopEmpty, 3, 80},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t, file, func(w *workshop) {
				w.wire = pagesOf(t, test.total, test.pages...)
				status := runs.OK
				switch {
				case test.hits == 0:
					status = runs.OKEmpty
				case test.want == runs.StopMissing:
					status = runs.Partial
				}
				row := w.mustRun(status)
				if row.Pages != int64(test.taken) || row.Hits != int64(test.hits) {
					t.Errorf("%d pages with %d hits, want %d with %d", row.Pages, row.Hits, test.taken, test.hits)
				}
				if steps := w.steps(row); len(steps) != 1 || steps[0].Stop != test.want {
					t.Errorf("searches %+v, want one that stopped for %q", steps, test.want)
				}
			})
		})
	}
}

// TestPagesAndOffsetsFindEqualHits: the interface does not define what `from` counts, so service.paging does.
func TestPagesAndOffsetsFindEqualHits(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min, paging: %s}
jobs:
  one: {search: {query: [home espresso], pages: 4}}
`
	for paging, items := range map[string]bool{job.PagingPage: false, job.PagingOffset: true} {
		t.Run(paging, func(t *testing.T) {
			single(t, fmt.Sprintf(file, paging), func(w *workshop) {
				w.service = simulator.New(simulator.Options{Seed: 1, Key: testKey, PagingItems: items, Limit: 600})
				w.wire = w.service.Transport()
				row := w.mustRun(runs.OK)
				if got := w.count("select count(*) from outliers"); row.Hits != 160 || got != 160 {
					t.Errorf("%d hits and %d videos, want 160 of each", row.Hits, got)
				}
				if got := w.count("select count(distinct rank) from outliers_history where rank between 1 and 160"); got != 160 {
					t.Errorf("%d different ranks, want 160", got)
				}
			})
		})
	}
}

// TestResumedRunFollowsStoredSteps: the run buys what was resolved when it began, even if the file has
// changed.
func TestResumedRunFollowsStoredSteps(t *testing.T) {
	t.Parallel()
	file := strings.Replace(jobsFile, "jobs:", "budget: {per_month: 400, per_day: 2}\njobs:", 1)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.PausedBudget)
		edited := strings.NewReplacer("per_day: 2", "per_day: 10", "home espresso", "minecraft", "pages: 2", "pages: 9").Replace(file)
		w.use(edited)
		row := w.mustRun(runs.OK)
		if row.Pages != 2 {
			t.Errorf("%d pages, want the 2 of the job as it was", row.Pages)
		}
		for _, call := range w.service.Books().Calls {
			if call.Op == outlier.OpSearch && !strings.Contains(call.Identity, url.QueryEscape("home espresso")) {
				t.Errorf("bought %s", call.Identity)
			}
		}
	})
}

func TestChangedCapAppliesAtOnce(t *testing.T) {
	t.Parallel()
	file := strings.Replace(jobsFile, "per_run: 20", "per_run: 3", 1)
	bare(t, file, func(w *workshop) {
		row := w.mustRun(runs.PausedBudget)
		if row.Credits != 2 || !strings.Contains(row.Error, "per_run") {
			t.Fatalf("%d credits, error %q; want one page and the name of the cap", row.Credits, row.Error)
		}
		w.use(jobsFile)
		if next := w.mustRun(runs.OK); next.ID != row.ID || next.Pages != 2 {
			t.Errorf("run %s has %d pages, want run %s to go on to 2", next.ID, next.Pages, row.ID)
		}
	})
}

func TestOnlyManualRunsUseTheReserve(t *testing.T) {
	t.Parallel()
	file := strings.Replace(jobsFile, "jobs:", "budget: {per_month: 5, reserve: 2}\njobs:", 1)
	file = strings.Replace(file, "per_run: 20", "per_run: 3", 1)
	file = strings.Replace(file, "pages: 2", "pages: 1", 1)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.OK)
		time.Sleep(7 * time.Hour) // a recent answer would be reused
		row := w.mustRun(runs.PausedBudget)
		if row.Credits != 0 || !strings.Contains(row.Error, "reserve") {
			t.Errorf("%d credits, error %q; want none, since a second page would leave less than the reserve",
				row.Credits, row.Error)
		}
		e, stop := w.open()
		defer stop()
		next, err := e.Perform(w.ctx, &Order{Spec: &w.config.Jobs[0], Trigger: Manual, UseReserve: true})
		if err != nil || next.Status != runs.OK || next.Credits != 2 {
			t.Errorf("with the reserve: %+v, error %v; want the page to be bought", next, err)
		}
	})
}

// Enrichment fetches data for the best hits of the whole run.
func TestTopRanksHitsOfWholeRun(t *testing.T) {
	t.Parallel()
	single(t, jobsFile, func(w *workshop) {
		w.mustRun(runs.OK)
		const best = "(select video_id from outliers order by z_score desc nulls last, video_id limit %d)"
		for table, n := range map[string]int{"videos": 4, "comment_counts": 3} {
			query := fmt.Sprintf("select count(*) from %s where video_id not in "+best, table, n)
			if strays := w.count(query); strays != 0 {
				t.Errorf("table %s has %d videos that are not among the best %d", table, strays, n)
			}
		}
	})
}
