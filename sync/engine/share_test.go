package engine

import (
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// TestRunWithoutShareIsNotEmpty: the record says that it did not search, and how many pages it left.
func TestRunWithoutShareIsNotEmpty(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 4, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], pages: 3}}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "daily") })
		looked := 0
		for _, run := range w.serve(3*day + time.Hour) {
			if run.Pages > 0 {
				looked++
				continue
			}
			if run.Status != runs.OK || run.Credits != 0 {
				t.Errorf("a run without a share ended as %s for %d credits", run.Status, run.Credits)
			}
			if step := w.steps(&run)[0]; step.Stop != plan.StopShare || step.Left != 3 {
				t.Errorf("its search ended as %q and left %d pages, want %q and 3",
					step.Stop, step.Left, plan.StopShare)
			}
		}
		if looked > 2 {
			t.Errorf("%d runs in three days took a page; want the credits to last the month", looked)
		}
	})
}

// TestBudgetShareCutKeepsWatermark of the search that it ended: the rest is searched in its next turn.
func TestBudgetShareCutKeepsWatermark(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 70, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], where: {published_at: "since last success, overlap 3d, first 90d"}, pages: 3}}
`
	bare(t, file, func(w *workshop) {
		w.withSinks(func(e *Engine) { w.see(e, "daily") })
		rows := w.serve(3*day + time.Hour)
		for i, run := range rows {
			step := w.steps(&run)[0]
			if step.Pages != 1 || step.Stop != plan.StopShare {
				t.Errorf("run %d took %d pages and ended as %q; want its share to have cut it",
					i, step.Pages, step.Stop)
			}
			if got := w.from(&run); got != days(i+1-90) {
				t.Errorf("run %d searches from %s on, want %s as no search has come to its end", i, got, days(i+1-90))
			}
		}
		if len(rows) != 3 {
			t.Errorf("%d runs in three days", len(rows))
		}
	})
}

// TestPausedJobsShareGoesToOthers during the pause: jobs that run after it need no credits either, and its
// share for the time after the pause is reserved.
func TestPausedJobsShareGoesToOthers(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 160, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], pages: 9}}
  other: {every: 24h, search: {query: [moka pot], pages: 9}}
  next: {after: other, search: {query: [latte art], pages: 9}}
`
	bare(t, file, func(w *workshop) {
		w.inspect(func(e *Engine) {
			share := func() outlier.Credits {
				t.Helper()
				p, err := e.Facts().PlanNow(w.ctx, w.config.Job("daily"), true, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if p.Stored.Share == nil {
					return -1 // it gets everything that it asks for
				}
				return *p.Stored.Share
			}
			pause := func(until time.Time) {
				t.Helper()
				if err := e.Store.Schedule.Pause([]runs.Pause{{Job: "other", Since: time.Now(), Until: until}}); err != nil {
					t.Fatal(err)
				}
			}
			_, turn := e.Facts().Caps().CycleBounds()
			all := share()
			pause(time.Time{})
			alone := share()
			pause(time.Now().Add(time.Until(turn) / 2))
			half := share()
			pause(time.Now().Add(time.Minute))
			time.Sleep(time.Hour)
			if over := share(); !(0 < all && all < half && half < alone && over == all) {
				t.Errorf("shares of %d credits, %d while two of three jobs are paused, %d if for half of the cycle, %d afterwards",
					all, alone, half, over)
			}
		})
	})
}

// TestFreshSeedsWantNoShare: a job whose seeds are bought again after two weeks is due every day, and does not take the
// credits of the others for the runs that buy nothing.
func TestFreshSeedsWantNoShare(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 135, pace: even}
jobs:
  daily: {every: 24h, search: {query: [home espresso], pages: 2}}
  alike: {every: 24h, related: {title: [moka pot], refresh_after: 14d}}
`
	bare(t, file, func(w *workshop) {
		w.inspect(func(e *Engine) {
			for _, name := range []string{"daily", "alike"} {
				p, err := e.Facts().PlanNow(w.ctx, w.config.Job(name), true, time.Now())
				if err != nil || p.Stored.Share != nil {
					t.Errorf("%s has a share, %v; want all that it asks for, since 124 + 6 credits are enough", name, err)
				}
			}
			needed := func() []facts.JobMonth {
				t.Helper()
				_, turn := e.Facts().Caps().CycleBounds()
				m, err := e.Facts().Month(job.NewCalendar(w.config, time.Now(), turn), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				jobs, err := m.After(w.ctx, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				return jobs
			}
			before := needed()[1].Runs
			p, err := e.Facts().PlanNow(w.ctx, w.config.Job("alike"), true, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ahead := runs.Watermark{Job: "alike", Key: facts.BoughtKey(p.Steps[0].Watermark), At: time.Now().AddDate(1, 0, 0), Run: "run-1"}
			err = e.Store.DB.Update(func(tx *store.Tx) error { return runs.MoveWatermark(tx, ahead) })
			if after := needed()[1].Runs; err != nil || before == 0 || after != before {
				t.Errorf("%d runs buy, %d if a wrong clock dates the last purchase in a year, %v; want as many", before, after, err)
			}
		})
	})
}
