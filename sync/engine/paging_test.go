package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

const pagesFile = `
version: 1
service: {url: "sim://", limit: 600/min}
budget: {per_month: 400}
jobs:
  one: {search: {query: [home espresso], where: {z_score: 4..}, pages: all}, budget: {per_run: 60}}
`

// library returns the number of hits for pagesFile.
func (w *workshop) library() int {
	w.Helper()
	row := w.mustRun(runs.OK)
	time.Sleep(7 * time.Hour)
	return int(row.Hits)
}

// TestUnexpectedPagesWasteOneRequest at most: whatever the service reports about its pages, all hits are
// found once, and at most one request finds nothing new. It is two if every page repeats the first one,
// because both meanings of `from` are tried.
func TestUnexpectedPagesWasteOneRequest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays many kinds of services")
	}
	hits := 0 // of the service as it is
	for _, test := range []struct {
		name   string
		quirks simulator.Quirk
		size   int  // size of its pages
		vain   int  // requests without new hits
		part   bool // only a part of the hits can be found
	}{
		{"total null", simulator.TotalNull, 40, 0, false},
		{"total growing", simulator.TotalGrows, 40, 1, false},
		{"total shrinking", simulator.TotalShrinks, 40, 0, false},
		{"total saturated", simulator.TotalStands, 40, 1, false},
		{"size not honoured", simulator.SizeIgnored, 20, 0, false},
		{"size not honoured, total null", simulator.SizeIgnored | simulator.TotalNull, 20, 0, false},
		{"size not honoured, total shrinking", simulator.SizeIgnored | simulator.TotalShrinks, 20, 0, false},
		{"pages repeated", simulator.PagesRepeated, 40, 2, true},
		{"pages endless", simulator.PagesEndless, 40, 1, false},
		{"pages endless, total saturated", simulator.PagesEndless | simulator.TotalStands, 40, 1, false},
	} {
		for _, items := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, items %t", test.name, items), func(t *testing.T) {
				bare(t, pagesFile, func(w *workshop) {
					plain := simulator.Options{Limit: 600, Freeze: true}
					if hits == 0 {
						w.renew(plain)
						hits = w.library()
					}
					there := hits
					if there <= 80 || there%20 == 0 || there >= 500 {
						t.Fatalf("there are %d hits; the test needs some pages of which the last one is short", there)
					}
					odd := plain
					odd.Quirks, odd.PagingItems = test.quirks, items
					w.renew(odd)
					w.dir = t.TempDir()
					w.use(pagesFile)
					want := runs.OK
					if test.quirks == simulator.TotalGrows || test.quirks == simulator.TotalStands {
						want = runs.Partial // the last page is empty, and total says that there are more hits
					}
					row := w.mustRun(want)
					steps := w.steps(row)
					if test.part {
						there = min(there, test.size)
					}
					if found := w.distinct(row); found != there {
						t.Errorf("%d different hits were found, want %d", found, there)
					}
					probes := 0
					if items && !test.part {
						probes = 1
					}
					if most := (there+test.size-1)/test.size + test.vain + probes; w.calls(outlier.OpSearch) > most {
						t.Errorf("%d requests for %d hits on pages of %d, want %d at most",
							w.calls(outlier.OpSearch), there, test.size, most)
					}
					ends := []string{runs.StopEmpty, runs.StopShort, runs.StopRepeated}
					if want == runs.Partial {
						ends = []string{runs.StopMissing}
					}
					if stop := steps[0].Stop; !slices.Contains(ends, stop) {
						t.Errorf("the search ended for %q", stop)
					}
				})
			})
		}
	}
}

// TestOverlapShowsWhatFromCounts: half of page one is the limit, and a page that is page one proves nothing.
func TestOverlapShowsWhatFromCounts(t *testing.T) {
	t.Parallel()
	list := func(from, n int) (ids []string) {
		for i := range n {
			ids = append(ids, fmt.Sprint("v", from+i))
		}
		return ids
	}
	for name, c := range map[string]struct {
		first, page []string
		from        int
		reading     string
		proven      bool
	}{
		"other hits":          {list(0, 40), list(40, 40), 1, job.PagingPage, true},
		"moved by one":        {list(0, 40), list(1, 40), 1, job.PagingOffset, true},
		"moved by twenty":     {list(0, 40), list(20, 40), 20, job.PagingOffset, true},
		"moved too far":       {list(0, 40), list(21, 40), 21, "", false},
		"nearly half of it":   {list(0, 40), list(21, 40), 1, job.PagingPage, true},
		"half of it":          {list(0, 40), list(20, 40), 1, job.PagingOffset, true},
		"the same page":       {list(0, 40), list(0, 40), 1, job.PagingOffset, false},
		"the end of page one": {list(0, 40), list(1, 39), 1, job.PagingOffset, true},
		"no hits":             {list(0, 40), nil, 1, "", false},
		"one hit":             {list(0, 1), list(1, 1), 1, "", false},
	} {
		page := outlier.Page{}
		for _, id := range c.page {
			page.Hits = append(page.Hits, outlier.Hit{VideoID: id})
		}
		if reading, proven := readingOfPage(c.first, page, c.from); reading != c.reading || proven != c.proven {
			t.Errorf("%s: from counts %q, proven %t; want %q, %t", name, reading, proven, c.reading, c.proven)
		}
	}
}

// steps returns the searches of a run.
func (w *workshop) steps(row *runs.Run) (steps []runs.Step) {
	w.Helper()
	w.inspect(func(e *Engine) {
		var err error
		if steps, err = e.Store.Steps.OfRun(row.ID); err != nil {
			w.Fatal(err)
		}
	})
	return steps
}

// distinct returns the number of different hits of a run.
func (w *workshop) distinct(row *runs.Run) (n int) {
	w.Helper()
	w.inspect(func(e *Engine) {
		hits, err := e.Store.Hits.Best(row.ID, runs.Choice{All: true})
		n = len(hits)
		if err != nil {
			w.Fatal(err)
		}
	})
	return n
}

// TestPagingIsLearnedOnce for each endpoint: the next process remembers what `from` counts.
func TestPagingIsLearnedOnce(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  one: {reuse_for: 1m, search: {query: [home espresso], pages: 3}}
`
	for _, items := range []bool{false, true} {
		t.Run(fmt.Sprint("items ", items), func(t *testing.T) {
			bare(t, file, func(w *workshop) {
				w.renew(simulator.Options{Limit: 600, PagingItems: items})
				for run, want := range []int{3, 3} {
					before := w.calls(outlier.OpSearch)
					if items && run == 0 {
						want++ // the page that showed it
					}
					row := w.mustRun(runs.OK)
					if got := w.calls(outlier.OpSearch) - before; got != want || w.distinct(row) != 120 || row.Hits != 120 || row.Pages != 3 {
						t.Errorf("run %d: %d requests, %d hits of which %d differ, on %d pages; want %d requests, and 120 on 3 pages",
							run, got, row.Hits, w.distinct(row), row.Pages, want)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
}

// TestWastedPageIsNotCounted: it is only in the journal. Repeated hits count once, and new ones come
// with the next page.
func TestWastedPageIsNotCounted(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  one: {search: {query: [home espresso], pages: 3}}
`
	tables := map[bool][]string{}
	for _, items := range []bool{false, true} {
		bubble(t, file, func(w *workshop) {
			w.single = true
			w.renew(simulator.Options{Limit: 600, PagingItems: items, Freeze: true})
			w.mustRun(runs.OK)
			tables[items] = append(w.rows("select video_id, times_seen from outliers order by all"), w.rows("select video_id, page, rank from outliers_history order by all")...)
			if calls := w.count("select count(*) from ops.requests"); items && calls != 4 {
				t.Errorf("%d requests recorded, want three pages and the one that showed what from counts", calls)
			}
		})
	}
	if len(tables[false]) != 240 {
		t.Errorf("%d rows of 120 videos and their sightings", len(tables[false]))
	}
	if diff := cmp.Diff(tables[false], tables[true]); diff != "" {
		t.Errorf("by pages and by items:\n%s", diff)
	}
}

// TestInconclusivePagingIsNotRecorded: a service that repeats its page counts in neither way, and the
// next search tests again.
func TestInconclusivePagingIsNotRecorded(t *testing.T) {
	t.Parallel()
	bare(t, pagesFile, func(w *workshop) {
		w.renew(simulator.Options{Limit: 600, Quirks: simulator.PagesRepeated})
		w.mustRun(runs.OK)
		w.inspect(func(e *Engine) {
			if believed, err := e.Store.Learned.Paging(outlier.OpSearch); err != nil || believed.Reading != "" {
				t.Errorf("from counts %q by a page that was repeated, error %v", believed.Reading, err)
			}
		})
	})
}

// TestKillRepeatsNoPagingRequest: a kill while paging is learned wastes no second request, because what was
// learned and the position of the search are stored in one transaction with the answer. Three of the four moments
// are tested, at random, and all with -long.
func TestKillRepeatsNoPagingRequest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills at every moment")
	}
	file := strings.NewReplacer("pages: all", "pages: 3", "where: {z_score: 4..}, ", "").Replace(pagesFile)
	moments := []moment{beforePace, beforeDial, beforeSend, beforeAnswer}
	if !*long {
		testenv.Random(t).Shuffle(len(moments), func(i, k int) { moments[i], moments[k] = moments[k], moments[i] })
		moments = moments[:3]
	}
	for _, when := range moments {
		for n := range 4 {
			t.Run(fmt.Sprint("call ", n, " ", when), func(t *testing.T) {
				bare(t, file, func(w *workshop) {
					w.renew(simulator.Options{Limit: 600, PagingItems: true, Freeze: true})
					if !w.kill(n, when) {
						t.Fatal("there was no such call")
					}
					row := w.mustRun(runs.OK)
					if row.Pages != 3 || row.Hits != 120 || w.distinct(row) != 120 {
						t.Errorf("%d pages, %d hits, %d different ones; want 3 and 120",
							row.Pages, row.Hits, w.distinct(row))
					}
					if spent := w.spent(); spent != 8 { // a lost answer is free the second time
						t.Errorf("%d credits, want 8: three pages and the one that showed what from counts", spent)
					}
				})
			})
		}
	}
}

// TestOffsetsFollowTheReceivedHits: if `from` counts items, the page after a short one begins after its
// last hit, so that no hits are skipped.
func TestOffsetsFollowTheReceivedHits(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("pages: all", "pages: 4", "where: {z_score: 4..}, ", "").Replace(pagesFile)
	bare(t, file, func(w *workshop) {
		w.renew(simulator.Options{Limit: 600, PagingItems: true, Quirks: simulator.SizeIgnored, Freeze: true})
		row := w.mustRun(runs.OK)
		var from []string
		for _, call := range w.service.Books().Calls {
			_, encoded, _ := strings.Cut(call.Identity, "  ")
			params, err := url.ParseQuery(encoded)
			if err != nil {
				t.Fatal(err)
			}
			from = append(from, params.Get("from"))
		}
		if want := []string{"0", "1", "20", "40", "60"}; !slices.Equal(from, want) { // the second page shows the paging
			t.Errorf("pages were asked for from %q, want %q", from, want)
		}
		if n := w.distinct(row); n != 80 || row.Hits != 80 {
			t.Errorf("%d hits of which %d differ, want the first 80", row.Hits, n)
		}
	})
}
