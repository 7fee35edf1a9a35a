package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/runs"
)

const restFile = `
version: 1
service: {url: "sim://", limit: 6000/min}
jobs:
  watch: {search: {query: [finance], where: {published_at: since last success}, pages: 1}}
`

// restOf returns what a run that buys the rest of another does.
func (w *workshop) restOf(e *Engine, row *runs.Run) forecast.Next {
	w.Helper()
	next, err := forecasts(e).Next(w.ctx, facts.RestSpec(w.config, row), false)
	if err != nil {
		w.Fatal(err)
	}
	return next
}

// lastOf returns the run that bought the last of what a run has left; "" if there is more.
func (w *workshop) lastOf(e *Engine, row *runs.Run) string {
	w.Helper()
	_, err := forecasts(e).Next(w.ctx, facts.RestSpec(w.config, row), false)
	if nothing, ok := errors.AsType[*facts.NothingLeftError](err); ok {
		return nothing.Last
	}
	return ""
}

// buyRest buys the rest of a run.
func (w *workshop) buyRest(ctx context.Context, e *Engine, row *runs.Run) (*runs.Run, error) {
	w.Helper()
	return e.Perform(ctx, &Order{Spec: facts.RestSpec(w.config, row), Trigger: Manual})
}

// succeeds runs the only job, which must succeed.
func (w *workshop) succeeds(e *Engine) *runs.Run {
	w.Helper()
	row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
	if err != nil || row.Status != runs.OK {
		w.Fatalf("run %+v, error %v", row, err)
	}
	return row
}

// TestRestBuysEachPageOnce: each page of the list is requested once, whatever `from` counts, and cursor and
// forecast do not change.
func TestRestBuysEachPageOnce(t *testing.T) {
	t.Parallel()
	for _, items := range []bool{false, true} {
		t.Run(fmt.Sprint("items ", items), func(t *testing.T) {
			bare(t, restFile, func(w *workshop) {
				l := &listing{counts: true, items: items}
				l.arrive(85)
				w.wire = l
				e, stop := w.open()
				defer stop()
				first := w.succeeds(e)
				ends, err := Endings(e.Facts(), first)
				if err != nil || !ends[0].Limited || ends[0].Left != 2 || ends[0].More != 4 || ends[0].Unseen() != 45 {
					t.Fatalf("%+v (%v), want 2 pages left for 4 credits, with 45 hits", ends, err)
				}
				marks, err := e.Store.Watermarks.List("")
				if err != nil {
					t.Fatal(err)
				}
				before, err := forecasts(e).Forecast(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(48 * time.Hour)
				row, err := w.buyRest(w.ctx, e, first)
				if err != nil || row.Status != runs.OK || row.RestOf != first.ID || row.Hits != 45 || row.Pages != 2 {
					t.Fatalf("the rest ended as %+v: %v", row, err)
				}
				want := []int{0, 1, 2}
				if items {
					want = []int{0, 40, 80}
				}
				if probed := slices.DeleteFunc(slices.Clone(l.asked), func(from int) bool { return items && from == 1 }); !slices.Equal(probed, want) {
					t.Errorf("requests from %v, want %v and at most one page to learn what from counts", l.asked, want)
				}
				step := w.searchesOf(e, row)[0]
				if step.Seen != 85 || step.Origin != w.searchesOf(e, first)[0].ID {
					t.Errorf("%d hits were seen, want 85: %+v", step.Seen, step)
				}
				if last := w.lastOf(e, first); last != row.ID {
					t.Errorf("the last of it was bought by run %q, want %s", last, row.ID)
				}
				after, err := e.Store.Watermarks.List("")
				if diff := cmp.Diff(marks, after); err != nil || diff != "" {
					t.Errorf("the cursor moved: %v\n%s", err, diff)
				}
				forecast, err := forecasts(e).Forecast(w.ctx)
				if err != nil || forecast.Jobs[0].Expected.Credits != before.Jobs[0].Expected.Credits {
					t.Errorf("%d credits are expected of the next run, and %d before the rest (%v)",
						forecast.Jobs[0].Expected.Credits, before.Jobs[0].Expected.Credits, err)
				}
			})
		})
	}
}

// searchesOf returns the searches of a run.
func (w *workshop) searchesOf(e *Engine, row *runs.Run) []runs.Step {
	w.Helper()
	steps, err := e.Store.Steps.OfRun(row.ID)
	if err != nil {
		w.Fatal(err)
	}
	return steps
}

// TestRestSurvivesStopsAndEdits: with a stop at any page, two starts, and another query in the file, the rest
// is one run of the stored search and is bought once.
func TestRestSurvivesStopsAndEdits(t *testing.T) {
	t.Parallel()
	for stopAt := 1; stopAt <= 4; stopAt++ {
		t.Run(fmt.Sprint("page ", stopAt), func(t *testing.T) {
			bare(t, restFile, func(w *workshop) {
				l := &listing{counts: true}
				l.arrive(185)
				w.wire = l
				e, stop := w.open()
				first := w.succeeds(e)
				ctx, cancel := context.WithCancel(w.ctx)
				l.change = func(page int) {
					if page == stopAt {
						cancel() // while this page is being requested; it still arrives
					}
				}
				cut, err := w.buyRest(ctx, e, first)
				if err == nil && stopAt < 4 {
					t.Fatalf("a run that was stopped ended as %+v", cut)
				}
				stop()
				w.use(strings.Replace(restFile, "finance", "cooking", 1))
				e, stop = w.open()
				defer stop()
				if w.lastOf(e, first) != "" {
					if stopAt < 4 {
						t.Error("a stopped run has no rest")
					}
				} else if row, err := w.buyRest(w.ctx, e, first); err != nil || row.ID != cut.ID || row.Status != runs.OK {
					t.Errorf("%+v (%v), want run %s to go on", row, err, cut.ID)
				}
				if want := []int{0, 1, 2, 3, 4}; !slices.Equal(l.asked, want) {
					t.Errorf("asked from %v, want %v", l.asked, want)
				}
				if spent, err := e.Store.Ledger.Spent(cut.ID); err != nil || spent.Charged+spent.Unknown != 8 {
					t.Errorf("%+v spent (%v), want 8 credits", spent, err)
				}
			})
		})
	}
}

// TestRestConfirmationAppliesAllCaps, also when the rest is continued.
func TestRestConfirmationAppliesAllCaps(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(restFile, "jobs:", "budget: {per_month: 6}\njobs:", 1), func(w *workshop) {
		l := &listing{counts: true}
		l.arrive(200)
		w.wire = l
		e, stop := w.open()
		defer stop()
		first := w.succeeds(e)
		if rest := w.restOf(e, first); rest.Most != 4 || rest.Cost.Lost <= 4 {
			t.Errorf("the confirmation is for %d of %d credits, want the 4 that the month leaves", rest.Most, rest.Cost.Lost)
		}
		if row, err := w.buyRest(w.ctx, e, first); err != nil || row.Status != runs.PausedBudget {
			t.Fatalf("%+v (%v), want it to be paused by the month", row, err)
		}
		if rest := w.restOf(e, first); rest.Old == nil || rest.Most != 0 {
			t.Errorf("the confirmation to continue %v is for %d credits, want 0", rest.Old, rest.Most)
		}
	})
}

// TestJobCapCutsRest: it is continued when the cap has room again, or later as a run of its own. The first
// pages of all searches are bought before second pages.
func TestJobCapCutsRest(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("watch: {search: {query: [finance]", "watch: {budget: {per_run: 4}, for_each: {q: [a, b]}, search: {query: [\"${q}\"]").Replace(restFile)
	bare(t, file, func(w *workshop) {
		l := &listing{counts: true}
		l.arrive(120)
		w.wire = l
		e, stop := w.open()
		defer stop()
		first := w.succeeds(e)
		rest := w.restOf(e, first)
		if all, _ := rest.Plan.Buys(100); all.Credits < 8 || rest.Cost.Lost != 4 {
			t.Errorf("the rest costs %d credits, at most %d; want 8 or a page more, and the cap of 4", all.Credits, rest.Cost.Lost)
		}
		row, err := w.buyRest(w.ctx, e, first)
		if err != nil || row.Status != runs.PausedBudget || row.Pages != 2 {
			t.Fatalf("%+v (%v), want it to be paused after two pages", row, err)
		}
		for _, step := range w.searchesOf(e, row) {
			if step.Pages != 1 {
				t.Errorf("%d pages of %s, want one of each search", step.Pages, step.Item)
			}
		}
		row2, err := w.buyRest(w.ctx, e, first)
		if err != nil || row2.ID == row.ID || row2.Status != runs.OK || row2.Pages != 2 {
			t.Errorf("%+v (%v), want another run to buy the last two pages", row2, err)
		}
		if w.lastOf(e, first) != row2.ID {
			t.Errorf("left is %+v", w.restOf(e, first).Plan.Steps)
		}
		if want := []int{0, 0, 1, 1, 2, 2}; !slices.Equal(l.asked, want) {
			t.Errorf("asked from %v, want %v", l.asked, want)
		}
	})
}

// TestRestSkipsUnstorablePage: the page is not requested again, the search reports what it has left, and the
// run of the rest is not partial because of it.
func TestRestSkipsUnstorablePage(t *testing.T) {
	t.Parallel()
	for _, items := range []bool{false, true} {
		for bad, unread := range []int{1, 40} { // a hit of page one, and one of page two
			t.Run(fmt.Sprintf("items %t, %d unreadable", items, unread), func(t *testing.T) {
				bare(t, strings.Replace(restFile, "pages: 1", fmt.Sprint("pages: ", bad+1), 1), func(w *workshop) {
					l := &listing{counts: true, items: items, spoiled: 40*bad + 1, spoils: unread}
					l.arrive(185)
					w.wire = l
					w.config.Service.Paging = "page"
					if items {
						w.config.Service.Paging = "offset"
					}
					e, stop := w.open()
					defer stop()
					first, _ := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
					ends, err := Endings(e.Facts(), first)
					if err != nil || first.Status != runs.Partial || !ends[0].Leaves() || ends[0].Left != 4-bad {
						t.Fatalf("%s, %+v (%v), want partial, and %d pages left", first.Status, ends, err, 4-bad)
					}
					row, err := w.buyRest(w.ctx, e, first)
					if err != nil || row.Status != runs.OK {
						t.Fatalf("the rest ended as %+v: %v", row, err)
					}
					if step := w.searchesOf(e, row)[0]; step.Seen != 185-unread || step.Unread != 0 {
						t.Errorf("%d hits were seen, want %d: %+v", step.Seen, 185-unread, step)
					}
					want := []int{0, 1, 2, 3, 4}
					if items {
						want = []int{0, 40, 80, 120, 160}
					}
					if !slices.Equal(l.asked, want) {
						t.Errorf("asked from %v, want %v", l.asked, want)
					}
					if ends, err := Endings(e.Facts(), row); err != nil || ends[0].Short || ends[0].Leaves() {
						t.Errorf("%+v (%v), though the service gave all that it counts", ends, err)
					}
					if w.lastOf(e, first) != row.ID {
						t.Error("there is a rest of what was bought whole")
					}
				})
			})
		}
	}
}

// TestRestWithoutTotalDoublesPages: it is as many pages again as the search had, because there is no other
// limit.
func TestRestWithoutTotalDoublesPages(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(restFile, "pages: 1", "pages: 2", 1), func(w *workshop) {
		l := &listing{}
		l.arrive(300)
		w.wire = l
		e, stop := w.open()
		defer stop()
		first := w.succeeds(e)
		row, err := w.buyRest(w.ctx, e, first)
		if err != nil || row.Pages != 2 || row.Hits != 80 {
			t.Errorf("%+v (%v), want two pages more", row, err)
		}
		if again, err := w.buyRest(w.ctx, e, row); err != nil || again.RestOf != first.ID || w.searchesOf(e, again)[0].Seen != 240 {
			t.Errorf("%+v (%v), want the rest of the rest", again, err)
		}
	})
}

// TestRestEnrichesItsBestHits as the job says, in addition to those of the first run.
func TestRestEnrichesItsBestHits(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min}
jobs:
  watch: {search: {query: [home espresso], where: {z_score: 4..}, pages: 1}, enrich: {details: {top: 3}}}
`
	bubble(t, file, func(w *workshop) {
		w.single = true
		e, stop := w.open()
		defer stop()
		first := w.succeeds(e)
		row, err := w.buyRest(w.ctx, e, first)
		if err != nil || row.Status != runs.OK {
			t.Fatalf("%+v (%v)", row, err)
		}
		if n := w.count("select count(*) from ops.requests where operation = 'details' and outcome = 'charged'"); n != 6 {
			t.Errorf("%d details, want 3 for each run", n)
		}
		if n := w.count("select count(distinct video_id) from outliers"); n != int(first.Hits+row.Hits) {
			t.Errorf("%d videos in the table, want %d", n, first.Hits+row.Hits)
		}
		got := w.rows("select complete, total = seen, left_hits, left_pages, pages, run_id = '" + first.ID + "', last_run_id = '" + row.ID + "' from ops.coverage")
		want := []string{fmt.Sprint(true, true, 0, 0, first.Pages+row.Pages, true, true)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ops.coverage:\n%s", diff)
		}
		if n := w.count("select left_hits from ops.searches where run_id = '" + first.ID + "'"); n != int(row.Hits) {
			t.Errorf("the first search left %d hits, want %d", n, row.Hits)
		}
	})
}

// TestUnfinishedRunHasNoRest: its own job continues it.
func TestUnfinishedRunHasNoRest(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(restFile, "pages: 1", "pages: 3", 1), func(w *workshop) {
		l := &listing{counts: true}
		l.arrive(200)
		w.wire = l
		e, stop := w.open()
		defer stop()
		ctx, cancel := context.WithCancel(w.ctx)
		l.change = func(int) { cancel() }
		row, err := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{})
		if err == nil || row == nil {
			t.Fatalf("run %+v, error %v; want one that was stopped", row, err)
		}
		if _, err := forecasts(e).Next(w.ctx, facts.RestSpec(w.config, row), false); err == nil || !strings.Contains(err.Error(), "outlierd run --continue "+row.ID) {
			t.Errorf("error %v, want the command that continues it", err)
		}
	})
}

// TestRestCompletesCutSearches: it buys the pages that the job wants and a cut search lacks, and all pages of
// a search that was not started.
func TestRestCompletesCutSearches(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("6000/min", "1/h", "pages: 1}", "pages: 3}, stop_after: 1m, for_each: {q: [a, b]}", "[finance]", `["${q}"]`).
		Replace(restFile)
	bare(t, file, func(w *workshop) {
		l := &listing{counts: true}
		l.arrive(400)
		w.wire = l
		e, stop := w.open()
		first := w.succeeds(e)
		stop()
		w.use(strings.Replace(file, "1/h", "6000/min", 1))
		e, stop = w.open()
		defer stop()
		time.Sleep(time.Hour)
		row, err := w.buyRest(w.ctx, e, first)
		if err != nil || row.Pages != 5 || first.Pages != 1 {
			t.Errorf("%d pages, then %+v (%v), want 1, then the other 5 of 2 searches", first.Pages, row, err)
		}
		for _, step := range w.searchesOf(e, row) {
			if step.Next != 3 || step.Seen != 120 {
				t.Errorf("%+v, want the 3 pages that the job wants", step)
			}
		}
	})
}

// TestRestBeginsAtAnEmptyPage in the middle of a list: the cursor stays, and what is offered begins with that page,
// which is asked for again.
func TestRestBeginsAtAnEmptyPage(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(restFile, "pages: 1", "pages: 5", 1), func(w *workshop) {
		all := [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40), numbers(120, 40), numbers(160, 40)}
		gap := slices.Clone(all)
		gap[1] = nil
		w.wire = pagesOf(t, 200, gap...)
		first := w.mustRun(runs.Partial)
		if want := `search ["finance"]: page 2 is empty although the service reports 200 hits`; first.Error != want || first.Credits != 4 {
			t.Errorf("the run ended with %q for %d credits, want %q for 4", first.Error, first.Credits, want)
		}
		w.wire = pagesOf(t, 200, all...)
		e, stop := w.open()
		defer stop()
		if marks, err := e.Store.Watermarks.List(""); len(marks) != 0 || err != nil {
			t.Errorf("the cursor has moved: %+v (%v)", marks, err)
		}
		ends, err := Endings(e.Facts(), first)
		if err != nil || !ends[0].Cut || !ends[0].Leaves() || ends[0].Left != 4 || ends[0].More != 8 {
			t.Fatalf("%+v (%v), want 4 pages left for 8 credits", ends, err)
		}
		row, err := w.buyRest(w.ctx, e, first)
		if err != nil || row.Status != runs.OK || row.Pages != 4 || row.Hits != 160 || row.Credits != 8 {
			t.Errorf("the rest ended as %+v: %v", row, err)
		}
	})
}
