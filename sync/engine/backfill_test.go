package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

const backfillFile = `
version: 1
service: {url: "sim://", limit: 10/min}
timezone: Europe/Berlin
budget: {per_month: 400}
jobs:
  coffee:
    for_each: {topic: [home espresso, moka pot]}
    search: {query: "${topic}", where: {published_at: "since last success, overlap 7d, first 30d"}, pages: 2}
    enrich: {details: {top: 2}}
    budget: {per_run: 8}
`

// backfill runs the first job over dates in the past, or continues an interrupted backfill; ctx may
// interrupt it.
func (w *workshop) backfill(ctx context.Context, most outlier.Credits) (row *runs.Run, steps []runs.Step) {
	w.Helper()
	spec := w.backfillSpec(most)
	w.withSinks(func(e *Engine) {
		old, err := e.Facts().Continues(spec)
		if err != nil {
			w.Fatal(err)
		}
		if old != nil {
			row, _ = e.Perform(ctx, &Order{Spec: spec, Trigger: Manual, Old: old})
		} else {
			row, _ = e.Run(ctx, spec, Manual, time.Time{})
		}
		if steps, err = e.Store.Steps.OfRun(row.ID); err != nil {
			w.Fatal(err)
		}
	})
	return row, steps
}

func (w *workshop) backfillSpec(most outlier.Credits) *job.Spec {
	w.Helper()
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // when the bubble's clock starts
	spec, err := w.config.Jobs[0].With(job.Overrides{Backfill: &job.Backfill{
		From: began.AddDate(0, -4, 9).Format(time.DateOnly), To: began.AddDate(0, 1, 0).Format(time.DateOnly), Each: "month", Most: most,
	}})
	if err != nil {
		w.Fatal(err)
	}
	return &spec
}

// became returns how the searches of a run ended, in order.
func became(steps []runs.Step) (all []string) {
	for _, s := range steps {
		all = append(all, fmt.Sprintf("%s %s %d %s", s.Item, s.Window, s.Pages, s.Stop))
	}
	return all
}

// TestBackfillBuysUncoveredDatesOnce, the newest first. The cursor does not move.
func TestBackfillBuysUncoveredDatesOnce(t *testing.T) {
	t.Parallel()
	bare(t, backfillFile, func(w *workshop) {
		w.mustRun(runs.OK) // from 2 December on
		before := w.lessons()
		row, steps := w.backfill(w.ctx, 12)
		windows := []string{"1999-12-01..1999-12-01", "1999-11-01..1999-11-30", "1999-10-01..1999-10-31", "1999-09-10..1999-09-30"}
		var got []string
		for i, s := range steps {
			if i%2 == 0 {
				got = append(got, s.Window)
			}
			open := func(newer runs.Step) bool { return newer.Window != s.Window && newer.Stop == "" }
			if s.Pages > 0 && slices.ContainsFunc(steps[:i], open) {
				t.Errorf("%s has pages before a newer window has all of its: %v", s.Window, became(steps))
			}
		}
		if !slices.Equal(got, windows) || row.Status != runs.PausedBudget || row.Credits != 12 {
			t.Fatalf("a backfill of 12 credits ends as %s with %d spent on %v, want windows %v",
				row.Status, row.Credits, became(steps), windows)
		}
		time.Sleep(8 * time.Hour) // longer than the job's own reuse_for
		for range 9 {
			if row, _ = w.backfill(w.ctx, 8); row.Status != runs.PausedBudget {
				break
			}
		}
		if row.Status != runs.OK {
			t.Fatalf("the last backfill ended as %s: %s", row.Status, row.Error)
		}
		if after := w.lessons(); !slices.EqualFunc(before.Watermarks, after.Watermarks, func(a, b runs.Watermark) bool { return a == b }) {
			t.Errorf("the cursor was %v and is %v", before.Watermarks, after.Watermarks)
		}
		w.inspect(func(e *Engine) {
			if p, _, err := forecasts(e).WorstCase(w.ctx, w.backfillSpec(8), false); err != nil || len(p.Steps) > 0 {
				t.Errorf("what is left to buy is %+v (error %v), want nothing of the covered dates", p, err)
			}
		})
		w.boughtOnce()
	})
}

// TestBackfillLeavesTodayToTheJob, even if the job has never run.
func TestBackfillLeavesTodayToTheJob(t *testing.T) {
	t.Parallel()
	bare(t, backfillFile, func(w *workshop) {
		w.inspect(func(e *Engine) {
			p, _, err := forecasts(e).WorstCase(w.ctx, w.backfillSpec(8), false)
			if err != nil || len(p.Steps) != 8 || p.Steps[0].Window != "1999-12-01..1999-12-31" {
				w.Errorf("%+v (%v), want four windows of two searches from yesterday back", p, err)
			}
		})
	})
}

// boughtOnce fails the test if any page was requested twice.
func (w *workshop) boughtOnce() {
	w.Helper()
	w.inspect(func(e *Engine) {
		pages := map[string]int{}
		for entry, err := range e.Store.Journal.After(0) {
			if err != nil {
				w.Fatal(err)
			}
			if entry.Op == outlier.OpSearch {
				pages[entry.Params]++
			}
		}
		if len(pages) == 0 {
			w.Error("the journal has no page")
		}
		for params, n := range pages {
			if n > 1 {
				w.Errorf("%d requests for %s", n, params)
			}
		}
	})
}

// TestInterruptedBackfillIsContinued: the same command continues it within its cap, days
// later and after runs of the job itself, and nothing else does.
func TestInterruptedBackfillIsContinued(t *testing.T) {
	t.Parallel()
	bare(t, strings.Replace(backfillFile, "10/min", "1/min", 1), func(w *workshop) {
		w.mustRun(runs.OK)
		ctx, cancel := contextFor(w, 90*time.Second)
		first, _ := w.backfill(ctx, 40)
		cancel()
		if first.Credits == 0 || first.Status == runs.OK {
			t.Fatalf("cut off as %s with %d credits", first.Status, first.Credits)
		}
		time.Sleep(3 * 24 * time.Hour)
		own := w.mustRun(runs.OK)
		if own.ID == first.ID {
			t.Fatal("a run of the job continues the backfill")
		}
		row, steps := w.backfill(w.ctx, 40)
		if row.ID != first.ID || row.Status != runs.OK || row.Credits > 40 {
			t.Errorf("run %s ended as %s with %d credits, want %s to go on: %v",
				row.ID, row.Status, row.Credits, first.ID, became(steps))
		}
		w.boughtOnce()
	})
}
