package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sinks"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

// Tests of sentences of testdata/semantics.txt that belong to no other file.

func TestRunIsAUUIDv7(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		last := ""
		for range 3 {
			row := w.mustRun(runs.OK)
			id, err := uuid.Parse(row.ID)
			if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
				t.Errorf("run %s is of version %d (%v), want 7", row.ID, id.Version(), err)
			}
			if row.ID <= last {
				t.Errorf("run %s sorts before %s, which is older", row.ID, last)
			}
			last = row.ID
			time.Sleep(time.Minute)
		}
	})
}

func TestManualRunHasNoDueTime(t *testing.T) {
	t.Parallel()
	bare(t, scheduledFile, func(w *workshop) {
		for range 2 {
			w.mustRun(runs.OK) // a run of a job with a schedule
		}
		w.inspect(func(e *Engine) {
			rows, err := e.Store.Runs.List(runs.Filter{Job: "hourly"}, 0)
			if err != nil || len(rows) != 2 || !rows[0].Due.IsZero() || !rows[1].Due.IsZero() {
				t.Errorf("runs %+v, error %v; want two without a due instant", rows, err)
			}
		})
	})
}

// TestRunStoresStepsResolvedOnce: later changes of the file, the tables or the clock do not affect the lists,
// SQL seeds, templates and windows of a run in progress.
func TestRunStoresStepsResolvedOnce(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 400, per_day: 4}
lists: {kinds: [video, short]}
jobs:
  one:
    for_each: {kind: {list: kinds}}
    related:
      video_id: {sql: select video_id from outliers}
      where: {type: "${kind}", published_at: last 3d, exclude_keyword: ["no ${kind}"]}
      pages: 2
`
	bare(t, file, func(w *workshop) {
		var asked []string
		pages := pagesOf(t, 1000, numbers(0, 40), numbers(40, 40))
		w.wire = roundTripper(func(r *http.Request) (*http.Response, error) {
			params := r.URL.Query()
			params.Del("from")
			params.Del("size")
			asked = append(asked, params.Encode())
			return pages.RoundTrip(r)
		})
		answer := []string{"dQw4w9WgXcQ", "9bZkp7q19f0"}
		perform := func(want runs.Status) (row *runs.Run) {
			w.withSinks(func(e *Engine) {
				e.IDs = func(context.Context, string, string) ([]string, error) { return answer, nil }
				var err error
				if row, err = e.Run(w.ctx, w.config.Job("one"), Manual, time.Time{}); row.Status != want {
					t.Fatalf("the run ended as %s (%v), want %s", row.Status, err, want)
				}
			})
			return row
		}
		first := perform(runs.PausedBudget)
		stored := paramsOf(w.steps(first))
		if len(stored) != 2 || !strings.Contains(stored[1], "type=short") || strings.Contains(stored[0], "from=") {
			t.Fatalf("steps %q; want one for each value, with canonical parameters and without from", stored)
		}
		time.Sleep(20 * time.Hour) // the next day
		answer = []string{"kJQP7kiw5Fk"}
		w.use(strings.NewReplacer("[video, short]", "[video]", "last 3d", "last 9d", "no ${kind}", "not ${kind}", "per_day: 4", "per_day: 40").Replace(file))
		second := perform(runs.OK)
		if second.ID != first.ID || !slices.Equal(paramsOf(w.steps(second)), stored) {
			t.Errorf("run %s with steps %q, want run %s to go on with %q",
				second.ID, paramsOf(w.steps(second)), first.ID, stored)
		}
		if want := []string{stored[0], stored[1], stored[0], stored[1]}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	})
}

func paramsOf(steps []runs.Step) (all []string) {
	for _, step := range steps {
		all = append(all, step.Query.Encode())
	}
	return all
}

// TestParameterListCostsOneRequest for all its values, and the plan has one line for it.
func TestParameterListCostsOneRequest(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {search: {query: [moka pot, latte art]}}
`
	bare(t, file, func(w *workshop) {
		f, _ := w.foreseen()
		queries := []string{"moka pot", "latte art"}
		want := []forecast.Search{{
			Op: outlier.OpSearch, Queries: queries, Pages: 1, Credits: 2, Parameters: url.Values{"query": queries},
		}}
		if diff := cmp.Diff(want, f.Jobs[0].Searches); diff != "" {
			t.Errorf("the plan says (-want +got):\n%s", diff)
		}
		w.mustRun(runs.OK)
		calls := w.service.Books().Calls
		if len(calls) != 1 || !strings.Contains(calls[0].Identity, "query=moka+pot&query=latte+art") || calls[0].Charged != 2 {
			t.Errorf("calls %+v, want one with both queries for 2 credits", calls)
		}
	})
}

// Each id of a channels or videos job takes one call for each kind of data that the job fetches.
func TestEachNamedEntityTakesOneCall(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 60/min}
jobs:
  one: VERB
`
	for verb, want := range map[string][]string{
		"channels: {id: [UC1234567890abcdefghijkl, UCabcdefghijkl1234567890], fetch: [channel_videos, channel_shorts]}": {
			"channel_shorts UC1234567890abcdefghijkl", "channel_shorts UCabcdefghijkl1234567890",
			"channel_videos UC1234567890abcdefghijkl", "channel_videos UCabcdefghijkl1234567890",
		},
		"videos: {id: [dQw4w9WgXcQ, 9bZkp7q19f0, kJQP7kiw5Fk], fetch: [details]}": {
			"details 9bZkp7q19f0", "details dQw4w9WgXcQ", "details kJQP7kiw5Fk",
		},
	} {
		bare(t, strings.Replace(file, "VERB", "{"+verb+"}", 1), func(w *workshop) {
			w.mustRun(runs.OK)
			var got []string
			for _, call := range w.service.Books().Calls {
				got = append(got, fmt.Sprintf("%s %s", call.Op, call.Entity))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("calls %q, want %q", got, want)
			}
		})
	}
}

// TestRunEndsAfterItsOwnEnrichment and its searches, even while calls of another job are still queued.
func TestRunEndsAfterItsOwnEnrichment(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long: {every: 12h, search: {query: [sourdough]}, enrich: {details: {top: 40}}}
  short: {every: 12h, search: {query: [home espresso], pages: 2}, enrich: {details: {top: 3}}}
`
	bare(t, file, func(w *workshop) {
		time.Sleep(11 * time.Hour)
		ended := map[string]runs.Run{}
		for _, run := range w.serve(2 * time.Hour) {
			ended[run.Job] = run
		}
		short, long := ended["short"], ended["long"]
		if short.Status != runs.OK || short.Pages != 2 || short.Requests != 2+3 {
			t.Errorf("the short run ended as %s with %d pages and %d requests, want ok with 2 and 5",
				short.Status, short.Pages, short.Requests)
		}
		if long.Status != runs.OK || long.Requests != 1+40 || long.Ended.Sub(short.Ended) < 2*time.Minute {
			t.Errorf("the long run ended as %s with %d requests, %s after the short one; want ok with 41, minutes later",
				long.Status, long.Requests, long.Ended.Sub(short.Ended))
		}
	})
}

// TestStopAfterReportsQueuedCalls of a run that ends as ok: its stop_after and its top apply to all its
// searches together.
func TestStopAfterReportsQueuedCalls(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  one: {for_each: {topic: [home espresso, sourdough]}, search: {query: "${topic}"}, enrich: {details: {top: 25}}, stop_after: 2m}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) {
			row, err := e.Run(w.ctx, w.config.Job("one"), Manual, time.Time{})
			if took := row.Ended.Sub(row.Started); err != nil || row.Status != runs.OK || row.Pages != 2 || took < 2*time.Minute || took > 3*time.Minute {
				t.Fatalf("the run ended as %s (%v) with %d pages after %s, want ok with 2 after two minutes",
					row.Status, err, row.Pages, took)
			}
			done := w.calls(outlier.OpDetails)
			if p, err := progressOf(e.Store, e.Pace, row); err != nil || done == 0 || done == 25 || p.Queued != 25-done {
				t.Errorf("%d calls are queued after %d of 25 (%v)", p.Queued, done, err)
			}
		})
	})
}

// TestCompletedSearchMovesWatermark, whether it ended at the last page that the job wants, at the page where
// stop_when ended it, or at a page without new hits.
func TestCompletedSearchMovesWatermark(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one:
    search: {query: [x], where: {published_at: "since last success, overlap 3d, first 30d"}, pages: 3, stop_when: {new_below: 10%}}
  other: {search: {query: [y], pages: 2}}
`
	for _, test := range []struct {
		stop  string
		total int
		pages [][]int
	}{
		{runs.StopEmpty, 40, [][]int{numbers(0, 40), {}}},
		{runs.StopShort, 50, [][]int{numbers(0, 40), numbers(40, 10)}},
		{runs.StopRepeated, 1000, [][]int{numbers(0, 40), numbers(0, 40)}},
		{runs.StopPages, 1000, [][]int{numbers(0, 40), numbers(40, 40), numbers(80, 40)}},
		{runs.StopKnown, 1000, [][]int{numbers(0, 40), numbers(40, 40)}},
	} {
		t.Run(test.stop, func(t *testing.T) {
			bare(t, file, func(w *workshop) {
				w.wire = pagesOf(t, test.total, test.pages...)
				if test.stop == runs.StopKnown { // known from another job
					w.performed(job.Overrides{}, "other")
				}
				if step := w.steps(w.mustRun(runs.OK))[0]; step.Stop != test.stop {
					t.Errorf("the search ended as %s", step.Stop)
				}
				time.Sleep(10 * day)
				if got := w.from(w.mustRun(runs.OK)); got != days(-3) {
					t.Errorf("the next window begins %s, want %s: 3 days before page one", got, days(-3))
				}
			})
		})
	}
}

// TestFailedFirstPageFailsRun, whereas a failed enrichment makes it partial.
func TestFailedFirstPageFailsRun(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]runs.Status{"/search/": runs.Failed, "/video/": runs.Partial} {
		bare(t, windowFile, func(w *workshop) {
			w.failOne(path)
			row, _ := w.run() // the error is tested elsewhere
			if row == nil || row.Status != want {
				t.Fatalf("with %s failing the run ended as %+v, want %s", path, row, want)
			}
			if asked := w.calls(outlier.OpDetails); (asked == 0) != (path == "/search/") || (row.Pages == 0) != (path == "/search/") {
				t.Errorf("with %s failing there are %d pages and %d details", path, row.Pages, asked)
			}
		})
	}
}

// TestBatchIsBoundedByItsBytes, because a few hundred rows can be as large as the memory has room for.
func TestBatchIsBoundedByItsBytes(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const pages, title = 8, 50 << 10 // about 2 MB per page
	file := fmt.Sprintf(`
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
jobs:
  one: {search: {query: [x], pages: %d}}
`, pages)
	bubble(t, file, func(w *workshop) {
		w.single = true
		w.wire = largePages(t, title)
		var batches []int64
		w.withSinks(func(e *Engine) {
			e.Line.Warehouse = scale{Warehouse: e.Line.Warehouse, answers: &batches}
			if row, err := e.Run(w.ctx, w.config.Job("one"), Manual, time.Time{}); err != nil || row.Pages != pages {
				t.Fatalf("the run ended as %s after %d pages with error %v", row.Status, row.Pages, err)
			}
		})
		answers := int64(0)
		for _, n := range batches {
			answers += n
		}
		most := int64(8<<20/(title*outlier.MaxSize) + 1) // the last answer may exceed the limit of 8 MB
		if answers != pages || slices.Max(batches) > most || slices.Max(batches) < most-1 {
			t.Errorf("batches of %v answers, want %d in all and about %d in each", batches, pages, most)
		}
	})
}

// largePages returns a service whose hits have titles of the given length.
func largePages(t *testing.T, title int) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		connect(r)
		from, err := strconv.Atoi(r.URL.Query().Get("from"))
		if err != nil {
			t.Errorf("from: %v", err)
		}
		var hits []map[string]any
		for i := range outlier.MaxSize {
			hits = append(hits, map[string]any{
				"id": fmt.Sprintf("video%03d%03d", from, i), "kind": "video",
				"snippet": map[string]any{"channelId": "UC-aaaaaaaaaaaaaaaaaaaaa", "title": strings.Repeat("x", title)}, "statistics": map[string]any{},
			})
		}
		body, err := json.Marshal(map[string]any{"pagination": map[string]any{"total": 1000, "from": from, "size": outlier.MaxSize}, "hits": hits})
		if err != nil {
			t.Error(err)
		}
		return page(http.StatusOK, "application/json", string(body)), nil
	})
}

// scale is a warehouse that records the number of answers in each batch.
type scale struct {
	sinks.Warehouse
	answers *[]int64
}

func (s scale) Write(ctx context.Context, b sinks.Batch) error {
	*s.answers = append(*s.answers, b.Hi-b.Lo)
	return s.Warehouse.Write(ctx, b)
}
