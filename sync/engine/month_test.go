package engine

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/state"
)

// day is a day without a change of the clocks.
const day = 24 * time.Hour

// design is the job file that shows all that there is, as it stands.
func design(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../job/testdata/design.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lively is the seed of a service that has breakout videos about coffee in every window
// of the month.
const lively = 24

// month runs the jobs of the design for some days from 1 January 2000 on: its schedules
// as `up` keeps them, and its scan once, by hand, while `up` is stopped.
func (w *workshop) month(days int) []state.Run {
	w.Helper()
	half := time.Duration(days/2)*day + 11*time.Hour
	w.serve(half)
	w.inspect(func(e *Engine) {
		row, err := e.Run(w.ctx, w.config.Job("niche-scan"), Manual, time.Time{})
		if err != nil || row.Status != state.OK {
			w.Errorf("the scan ended as %s with error %v", row.Status, err)
		}
	})
	return w.serve(time.Duration(days)*day - half)
}

// TestMonthOfTheDesign: every job of the design ends well, whatever its kind, and the
// books are those of the service.
func TestMonthOfTheDesign(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a month")
	}
	days, want := 31, map[string]int{"coffee": 9, "lookalikes": 9, "niche-scan": 1, "rivals": 93, "keep-fresh": 5, "rising-channels": 1}
	bubble(t, design(t), func(w *workshop) {
		w.single = true
		w.renew(simulator.Options{Seed: lively})
		w.inspect(func(e *Engine) { w.see(e, "coffee", "rivals", "keep-fresh", "rising-channels") })
		runs := w.month(days)
		ended, found := map[string]int{}, map[string]bool{}
		for _, run := range runs {
			ended[run.Job]++
			found[run.Job] = found[run.Job] || run.Status == state.OK
			// SQL finds no seeds before there are videos, or those that were bought lately.
			seeded := run.Job == "lookalikes" || run.Job == "keep-fresh"
			if run.Status != state.OK && !(run.Status == state.OKEmpty && seeded) {
				t.Errorf("%s of %s ended as %s: %s", run.Job, run.Started, run.Status, run.Error)
			}
		}
		if !found["lookalikes"] || !found["keep-fresh"] {
			t.Error("the jobs with SQL never found a seed")
		}
		if diff := cmp.Diff(want, ended); diff != "" {
			t.Errorf("runs by job (-want +got):\n%s", diff)
		}
		w.booksAgree()
		t.Logf("%d calls, %d credits, %d videos", w.service.Books().Total.Calls, w.spent(), w.count("select count(*) from outliers"))
	})
}

// booksAgree holds the ledger that is published against the books of the service.
func (w *workshop) booksAgree() {
	w.Helper()
	books := w.service.Books()
	for op, totals := range books.Operations {
		booked := w.count("select coalesce(sum(price), 0)::bigint from ops.credits where outcome <> 'refunded' and operation = '" + string(op) + "'")
		if outlier.Credits(booked) != totals.Spent() {
			w.Errorf("%s: ops.credits says %d, the service charged %d", op, booked, totals.Spent())
		}
	}
	if open := w.count("select count(*) from ops.credits where outcome not in ('spent', 'refunded')"); open != 0 {
		w.Errorf("%d rows of ops.credits are neither spent nor refunded", open)
	}
	if len(books.UnknownParams) > 0 || books.Total.Refused > 0 {
		w.Errorf("the service refused %d calls and met unknown parameters %v", books.Total.Refused, books.UnknownParams)
	}
}

// TestDesignFindsTheSameWhateverFromCounts: a service that counts pages and one that counts
// items give the same tables, and finding out costs one request.
func TestDesignFindsTheSameWhateverFromCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("plays the jobs of weeks twice")
	}
	// One request more than the design allows may be needed to find out.
	file := strings.NewReplacer("per_run: 12", "per_run: 14", "per_run: 60", "per_run: 62", "    pages: 2 ", "    pages: 3 ").Replace(design(t))
	found, pages := map[bool][]string{}, map[bool]int{}
	for _, items := range []bool{false, true} {
		bubble(t, file, func(w *workshop) {
			time.Sleep(time.Until(simulator.Epoch))
			w.single = true
			w.renew(simulator.Options{Seed: lively, Freeze: true, PagingItems: items})
			e, stop := w.open()
			for _, name := range []string{"coffee", "lookalikes", "niche-scan", "rivals", "keep-fresh", "rising-channels"} {
				if row, err := e.Run(w.ctx, w.config.Job(name), Manual, time.Time{}); err != nil || row.Status != state.OK {
					t.Errorf("items %t: %s ended as %s, error %v: %s", items, name, row.Status, err, row.Error)
				}
			}
			stop()
			found[items] = w.rows("select * exclude (_run_id, _job, _response_id, observed_at, first_seen_at, last_seen_at, times_seen) from outliers order by video_id")
			if ids := w.count("select count(distinct video_id) from outliers"); ids != len(found[items]) {
				t.Errorf("items %t: %d rows of %d videos", items, len(found[items]), ids)
			}
			pages[items] = w.calls(outlier.OpSearch) + w.calls(outlier.OpRelated) + w.calls(outlier.OpFindChannels)
			w.booksAgree()
		})
	}
	if len(found[false]) < 200 {
		t.Errorf("%d videos; the test needs pages", len(found[false]))
	}
	if diff := cmp.Diff(found[false], found[true]); diff != "" {
		t.Errorf("outliers by pages and by items:\n%s", diff)
	}
	if wasted := pages[true] - pages[false]; wasted != 1 {
		t.Errorf("%d requests were wasted on learning what from counts, want one", wasted)
	}
}
