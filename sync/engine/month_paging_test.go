package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
)

// What is compared of a video, and of each time it was seen: everything but what tells
// which answer it was and when it came.
const (
	outlierRows = "select * exclude (_run_id, _response_id, observed_at, first_seen_at, last_seen_at, times_seen, previous_seen_at, previous_view_count) from outliers order by video_id"
	timesSeen   = "select video_id, times_seen from outliers order by video_id"
	sightings   = "select * exclude (_run_id, _response_id, observed_at, scan_id), scan_id is not null from outliers_history order by all"
)

// counting puts a service in the place of the old one at which the design's searches have
// pages, and whose `from` counts pages or items.
func (w *workshop) counting(items bool) {
	time.Sleep(time.Until(simulator.Epoch))
	w.single = true
	w.renew(simulator.Options{Seed: 4, Freeze: true, PagingItems: items})
}

// performed runs jobs by hand, one after another, as they are but for what is overridden,
// and says how each ended.
func (w *workshop) performed(o job.Overrides, names ...string) map[string]runs.Status {
	w.Helper()
	ended := map[string]runs.Status{}
	w.inspect(func(e *Engine) {
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

// TestResultsDoNotDependOnWhatFromCounts: a service that counts pages and one that counts
// items give the same tables, and finding out costs one request.
//
// That request belongs to whichever search takes the first page two. The caps of coffee
// and of the scan hold the pages that the jobs want and nothing else, so both are raised
// here by that one page; what happens where nobody raises them is the next test's.
func TestResultsDoNotDependOnWhatFromCounts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays the jobs of weeks twice")
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
			if n := w.count("select count(*) from outliers_history where _job = 'coffee' and page > 0"); n < 80 {
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

// TestPageSpentOnLearningPagingIsRecovered: where a cap has no room for the request that
// finds out, the run that made it ends a page short, at its own cap. No other does, and
// the next run of each job ends well. (The other jobs of the design take no page two.)
//
// What differs in the end is what that page alone would have brought. The hits of a
// search are found again by the next run, whose window did not move, so that they were
// seen once less. Another scan of the same words is another scan: what nothing else finds
// of the page of the first one stays away, until somebody reads on with `scan read`.
//
// One of the two jobs is first by chance, and each in turn with -long.
func TestPageSpentOnLearningPagingIsRecovered(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays the jobs with pages four times")
	}
	first := rand.IntN(2)
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
						w.config.Jobs[i].Enrich = nil // as if the file asked for pages alone
					}
					want := map[string]runs.Status{"coffee": runs.OK, "niche-scan": runs.OK}
					if items {
						want[jobs[0]] = runs.PausedBudget
					}
					if diff := cmp.Diff(want, w.performed(job.Overrides{}, jobs...)); diff != "" {
						t.Errorf("items %t: the first runs ended (-want +got):\n%s", items, diff)
					}
					time.Sleep(25 * time.Hour) // an answer of the last hours would not be bought again, and a live scan be joined
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

// toReaders lets readers see what a workshop without sinks has done.
func (w *workshop) toReaders() {
	w.Helper()
	w.bare, w.single = false, true
	w.inspect(func(e *Engine) {
		s, err := e.newWorker(w.ctx, queue.Filter{})
		if err == nil {
			err = s.publish(w.ctx)
		}
		if err != nil {
			w.Fatal(err)
		}
	})
}

// without are the rows of all that are not among others, as often as they are not.
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
