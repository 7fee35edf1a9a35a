package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// The columns of a video and of its sightings that are compared: all but those that identify the answer
// and its time.
const (
	outlierRows = "select * exclude (_run_id, _response_id, _first_response_id, observed_at, first_seen_at, last_seen_at, times_seen, previous_seen_at, previous_view_count) from outliers order by video_id"
	timesSeen   = "select video_id, times_seen from outliers order by video_id"
	sightings   = "select * exclude (_run_id, _response_id, observed_at, scan_id), scan_id is not null from outliers_history order by all"
)

// counting replaces the service by one in which the design's searches have several pages, and whose
// `from` counts pages or items.
func (w *workshop) counting(items bool) {
	time.Sleep(time.Until(simulator.Epoch))
	w.single = true
	w.renew(simulator.Options{Seed: 4, Freeze: true, PagingItems: items})
}

// performed runs jobs by hand, one after another, with overrides, and returns how each ended.
func (w *workshop) performed(o job.Overrides, names ...string) map[string]runs.Status {
	w.Helper()
	ended := map[string]runs.Status{}
	w.withSinks(func(e *Engine) {
		for _, name := range names {
			spec := *w.config.Job(name)
			if !cmp.Equal(o, job.Overrides{}) {
				var err error
				if spec, err = spec.With(o); err != nil {
					w.Fatal(err)
				}
			}
			row, err := e.Run(w.ctx, &spec, Manual, time.Time{})
			if row == nil {
				w.Fatalf("%s: %v", name, err)
			}
			ended[name] = row.Status
		}
	})
	return ended
}

// TestPagingUnitChangesNoResults: a service that counts pages and one that counts items lead to the same
// tables, and finding out costs one request. It is run if it is chosen by [isPlayed].  That request belongs
// to the search that takes the first page two. The caps of coffee and of the scan have room for exactly the
// pages that the jobs want, so both are raised here by one page. The next test shows what happens without
// that.
func TestPagingUnitChangesNoResults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays the jobs of weeks twice")
	}
	if !isPlayed(t) {
		t.Skip("another long test was chosen at random")
	}
	file := design(t, slices.Concat(wide, []string{"per_run: 12", "per_run: 14", "per_run: 60", "per_run: 62"})...)
	found, pages := map[bool][]string{}, map[bool]int{}
	for _, items := range []bool{false, true} {
		single(t, file, func(w *workshop) {
			w.counting(items)
			for name, status := range w.performed(job.Overrides{}, "coffee", "lookalikes", "niche-scan", "rivals", "keep-fresh", "rising-channels") {
				if status != runs.OK {
					t.Errorf("items %t: %s ended as %s", items, name, status)
				}
			}
			found[items] = slices.Concat(w.rows(outlierRows), w.rows(timesSeen), w.rows(sightings))
			if n := w.count("select count(*) from outliers_history where _job = 'coffee' and page > 0"); n < 40 {
				t.Errorf("items %t: %d hits of coffee are on later pages; the test needs some", items, n)
			}
			if n := w.count("select count(*) from (select 1 from outliers_history group by _run_id, source, item, scan_id, video_id having count(*) > 1)"); n != 0 {
				t.Errorf("items %t: %d videos were seen twice by one search of a run", items, n)
			}
			pages[items] = w.calls(outlier.OpSearch) + w.calls(outlier.OpRelated) + w.calls(outlier.OpFindChannels)
			w.booksAgree()
		})
	}
	if diff := cmp.Diff(found[false], found[true]); diff != "" {
		t.Errorf("by pages and by items:\n%s", diff)
	}
	if wasted := pages[true] - pages[false]; wasted != 1 {
		t.Errorf("%d requests were wasted on learning what from counts, want one", wasted)
	}
}

// TestNextRunRecoversWastedPage: if a cap has no room for the request that finds out what `from` counts, the
// run that made it ends one page early, at its own cap. No other run does, and the next run of each job
// succeeds. (The other jobs of the design take no page two.)  The results differ only by what that page would
// have returned. The next run of a search, whose window did not move, finds its hits, so they have one
// sighting less. Another scan of the same words has other results: hits of the first scan that nothing else
// finds stay missing until someone continues it with `scan read`.  One of the two jobs is first, at random,
// and each in turn with -long.
func TestNextRunRecoversWastedPage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays the jobs with pages four times")
	}
	first := testenv.Random(t).IntN(2)
	for i, jobs := range [][]string{{"coffee", "niche-scan"}, {"niche-scan", "coffee"}} {
		if i != first && !*long {
			continue
		}
		t.Run(jobs[0], func(t *testing.T) {
			tables, seen := map[bool][]string{}, map[bool][]string{}
			for _, items := range []bool{false, true} {
				bubble(t, design(t, wide...), func(w *workshop) {
					w.counting(items)
					w.bare = true
					for i := range w.config.Jobs {
						w.config.Jobs[i].Enrich = nil // as if the file had only pages
					}
					want := map[string]runs.Status{"coffee": runs.OK, "niche-scan": runs.OK}
					if items {
						want[jobs[0]] = runs.PausedBudget
					}
					if diff := cmp.Diff(want, w.performed(job.Overrides{}, jobs...)); diff != "" {
						t.Errorf("items %t: the first runs ended (-want +got):\n%s", items, diff)
					}
					time.Sleep(25 * time.Hour) // recent answers would be reused, and a live scan joined
					want[jobs[0]] = runs.OK
					if diff := cmp.Diff(want, w.performed(job.Overrides{}, jobs...)); diff != "" {
						t.Errorf("items %t: the next runs ended (-want +got):\n%s", items, diff)
					}
					w.toReaders()
					tables[items] = w.rows(outlierRows)
					seen[items] = w.rows("select video_id, _job, source, item, page, rank from outliers_history")
					w.booksAgree()
				})
			}
			missed := without(seen[false], seen[true])
			if len(missed) == 0 || len(missed) > outlier.MaxSize {
				t.Errorf("by items %d sightings are missing, want those of one page", len(missed))
			}
			for _, row := range without(tables[false], tables[true]) {
				if jobs[0] == "coffee" || !slices.ContainsFunc(missed, func(s string) bool { return s[:11] == row[:11] }) {
					t.Errorf("by items %s is missing", row)
				}
			}
			if more := append(without(seen[true], seen[false]), without(tables[true], tables[false])...); len(more) > 0 {
				t.Errorf("by items alone: %q", more)
			}
		})
	}
}

// toReaders publishes what a workshop without sinks has done.
func (w *workshop) toReaders() {
	w.Helper()
	w.bare, w.single = false, true
	w.withSinks(func(e *Engine) {
		s, err := newWorker(w.ctx, e)
		if err == nil {
			err = s.publish(w.ctx)
		}
		if err != nil {
			w.Fatal(err)
		}
	})
}

// without returns all rows without the others, counting duplicates.
func without(all, others []string) (rest []string) {
	left := map[string]int{}
	for _, row := range others {
		left[row]++
	}
	for _, row := range all {
		if left[row]--; left[row] < 0 {
			rest = append(rest, row)
		}
	}
	return rest
}
