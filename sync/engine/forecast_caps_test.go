package engine

import (
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// TestForecastAppliesDayAndJobCaps: credits that a cap will refuse are not projected.
func TestForecastAppliesDayAndJobCaps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		caps, job string
		want      outlier.Credits // of a January that begins now
	}{
		"no cap but the month's": {"per_month: 3000", "{}", 2 * (31*24 - 1)},
		"a cap of the day":       {"per_month: 3000, per_day: 4", "{}", 4 * 31},
		"a cap of the job":       {"per_month: 3000", "{per_month: 20}", 20},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {`+test.caps+`}
jobs:
  hourly: {every: 1h, search: {query: [home espresso]}, budget: `+test.job+`}
`, func(w *workshop) {
				e, stop := w.open()
				defer stop()
				f, err := forecasts(e).Forecast(w.ctx)
				if err != nil || f.Cycle.Wanted != test.want || f.Cycle.Projected != test.want {
					t.Errorf("%+v, error %v; want %d credits wanted and projected", f.Cycle, err, test.want)
				}
			})
		})
	}
}

// TestPacedCreditsLastWholeCycle: without pacing, the first runs spend all of them.
func TestPacedCreditsLastWholeCycle(t *testing.T) {
	t.Parallel()
	for pace, early := range map[string]bool{"": true, ", pace: even": false} {
		bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 20`+pace+`}
jobs:
  hourly: {every: 1h, search: {query: [home espresso]}}
`, func(w *workshop) {
			f, _ := w.foreseen()
			if c := f.Cycle; c.Projected != 20 || c.LastsTo.IsZero() == early {
				t.Errorf("with %q %d credits are projected and last until %s; want 20, and a time before the cycle's end: %t",
					pace, c.Projected, c.LastsTo, early)
			}
		})
	}
}

// TestContinuedRunStaysWithinShare: it needs no more than its share of the month, so no other cap cuts what
// the share allows.
func TestContinuedRunStaysWithinShare(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 70, per_day: 4, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], pages: 3}}
`, func(w *workshop) {
		w.leaveUnfinished("daily", runs.Interrupted)
		f, _ := w.foreseen()
		if next := f.Jobs[0]; next.Continues != "run-1" || next.Worst.Credits != 2 || len(next.Cuts) > 0 {
			t.Errorf("%+v, want the rest of the run for 2 credits, and no cap that cuts it", next)
		}
	})
}

// TestLaterRestIsNotCounted: a run that its job's next due time continues costs this cycle nothing if that is
// due after its end.
func TestLaterRestIsNotCounted(t *testing.T) {
	t.Parallel()
	for schedule, want := range map[string]outlier.Credits{"every: 2d": 2, `schedule: "0 6 28 6 *"`: 0} {
		bare(t, `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 70, per_day: 4}
jobs:
  rare: {`+schedule+`, search: {query: [home espresso]}}
`, func(w *workshop) {
			w.leaveUnfinished("rare", runs.PausedBudget)
			f, _ := w.foreseen()
			if next := f.Jobs[0]; next.Continues != "run-1" || f.Cycle.Wanted-2*outlier.Credits(next.Runs) != want {
				t.Errorf("%s: %d credits are wanted for %d runs and the rest of another, want %d for the rest",
					schedule, f.Cycle.Wanted, next.Runs, want)
			}
		})
	}
}

// leaveUnfinished records a run of a job that ended before its first page.
func (w *workshop) leaveUnfinished(job string, status runs.Status) {
	w.Helper()
	w.inspect(func(e *Engine) {
		p, err := e.Facts().PlanNow(w.ctx, w.config.Job(job), true, time.Now())
		if err != nil {
			w.Fatal(err)
		}
		row := runs.Run{ID: "run-1", Job: job, Trigger: string(Scheduled), Due: time.Now(), Started: time.Now(),
			Ended: time.Now(), Status: status, Plan: &p.Stored}
		if err := e.Store.Runs.Begin(row, p.Steps); err != nil {
			w.Fatal(err)
		}
	})
}
