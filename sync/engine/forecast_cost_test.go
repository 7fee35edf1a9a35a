package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// TestPlanCapAndConfirmationAgree on the worst case: the lesser of per_run and the most that a run can cost
// with lost answers.
func TestPlanCapAndConfirmationAgree(t *testing.T) {
	t.Parallel()
	const searching = `search: {query: [home espresso], pages: 1}`
	for name, test := range map[string]struct {
		does, budget string
		want         outlier.Credits
	}{
		"a cap that cannot be reached": {searching, "{per_run: 100}", 2 * plan.Attempts},
		"no cap":                       {searching, "{}", 2 * plan.Attempts},
		"a cap that can":               {searching, "{per_run: 5}", 5},
		"all pages":                    {strings.Replace(searching, "1", "all", 1), "{per_run: 100}", 100},
		"a page that may be wasted":    {strings.Replace(searching, "1", "2", 1), "{per_run: 100}", 3 * 2 * plan.Attempts},
		"a scan, which is sent once":   {`scan: {query: [home espresso], read: {pages: 1}}`, "{per_run: 100}", 50 + 2*plan.Attempts},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 400}
jobs:
  one: {`+test.does+`, budget: `+test.budget+`}
`, func(w *workshop) {
				e, stop := w.open()
				defer stop()
				spec := w.config.Job("one")
				f, err := forecasts(e).Forecast(w.ctx)
				if err != nil || f.Jobs[0].Worst.Lost != test.want {
					t.Errorf("plan says %d (%v), want %d", f.Jobs[0].Worst.Lost, err, test.want)
				}
				if next, err := forecasts(e).Next(w.ctx, spec, false); err != nil || next.Most != test.want {
					t.Errorf("the confirmation is for %d credits (error %v), want %d", next.Most, err, test.want)
				}
				p, err := e.Facts().PlanNow(w.ctx, spec, false, time.Now())
				if err != nil || p.Stored.CapFor(spec.Budget) != test.want {
					t.Errorf("the cap is %d (%v), want %d", p.Stored.CapFor(spec.Budget), err, test.want)
				}
			})
		})
	}
}

// TestRaisedCapAppliesToUnfinishedRun, up to what the run can use of it.
func TestRaisedCapAppliesToUnfinishedRun(t *testing.T) {
	t.Parallel()
	file := strings.NewReplacer("per_run: 60", "per_run: 2", "pages: all", "pages: 3").Replace(pagesFile)
	bare(t, file, func(w *workshop) {
		w.mustRun(runs.PausedBudget)
		for raised, want := range map[string]outlier.Credits{"per_run: 10": 10, "per_run: 100": 4 * 2 * plan.Attempts} {
			w.use(strings.Replace(file, "per_run: 2", raised, 1))
			w.inspect(func(e *Engine) {
				f, err := forecasts(e).Forecast(w.ctx)
				if err != nil || f.Jobs[0].Continues == "" || f.Jobs[0].Worst.Lost > want-2 {
					t.Errorf("%s: plan says %+v (%v); want a run that goes on, with %d to spend at most",
						raised, f.Jobs[0], err, want-2)
				}
				rows, err := e.Store.Runs.List(runs.Filter{Job: "one"}, 1)
				if err != nil {
					t.Fatal(err)
				}
				if cap := rows[0].Plan.CapFor(w.config.Job("one").Budget); cap != want {
					t.Errorf("%s: the cap is %d, want %d", raised, cap, want)
				}
			})
		}
		if row := w.mustRun(runs.OK); row.Pages != 3 {
			t.Errorf("%d pages, want 3", row.Pages)
		}
	})
}

// TestReadingScanMayWastePage, like any search whose second page shows what `from` counts.
func TestReadingScanMayWastePage(t *testing.T) {
	t.Parallel()
	file := strings.Replace(scanFile, "per_run: 60", "per_run: 90", 1)
	bare(t, file, func(w *workshop) {
		o := anHour
		o.PagingItems = true
		w.renew(o)
		var worst forecast.Estimate
		w.inspect(func(e *Engine) {
			f, err := forecasts(e).Forecast(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			worst = f.Jobs[0].Worst
		})
		row := w.mustRun(runs.OK)
		if row.Pages != 3 || row.Credits != 58 || row.Credits > worst.Credits || int(row.Requests) > worst.Requests {
			t.Errorf("%d pages for %d credits in %d requests; want 3 for 58, and no more than the %d credits and %d requests of the plan",
				row.Pages, row.Credits, row.Requests, worst.Credits, worst.Requests)
		}
	})
}

// TestFreshAnswersAreNotPlanned in any of the plan's numbers.
func TestFreshAnswersAreNotPlanned(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.naming("weekly")
		w.mustRun(runs.OK)
		for _, want := range []int{0, 2} { // a day later, and eight days later
			time.Sleep(day)
			all, _ := w.foreseen()
			f := all.Jobs[0]
			if f.Calls != want || f.Fresh != 2-want || f.Worst.Requests != want || f.Expected.Requests != want {
				t.Errorf("at %s: %d calls, %d fresh, %d requests at worst, %d expected; want %d calls in all of them",
					all.At, f.Calls, f.Fresh, f.Worst.Requests, f.Expected.Requests, want)
			}
			time.Sleep(6 * day)
		}
	})
}

// TestEmptyResultIsPlannedAsRow, or with the rows of earlier runs, in plans of later runs. The plan of
// a run that starts now has what the SQL finds now.
func TestEmptyResultIsPlannedAsRow(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 600/min, paging: page}
budget: {per_month: 400}
jobs:
  first: {every: 24h, search: {query: tea}}
  alike: {after: first, related: {video_id: {sql: select video_id from outliers}, pages: 3, refresh_after: 1d}, budget: {per_run: 5}}
  each: {every: 24h, reuse_for: 1m, for_each: {channel: {sql: select channel_id from outliers}}, search: {where: {channel_id: "${channel}"}}}
  rivals: {every: 24h, channels: {id: {sql: select channel_id from outliers}}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		var found []string
		e.IDs = func(context.Context, string, string) ([]string, error) { return found, nil }
		check := func(name string, credits outlier.Credits, requests int, assumed bool) {
			t.Helper()
			f, err := forecasts(e).Forecast(w.ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			got := f.Jobs[0]
			if got.Worst.Credits != credits || got.Worst.Requests != requests || got.Assumed != assumed || got.Expected.Credits != credits {
				t.Errorf("%s: %+v, expected %+v, assumed %t; want %d credits, %d requests, assumed %t",
					name, got.Worst, got.Expected, got.Assumed, credits, requests, assumed)
			}
			if got.Problem != "" || strings.Contains(strings.Join(got.Changes, " "), job.Assumed) {
				t.Errorf("%s: problem %q, changes %q", name, got.Problem, got.Changes)
			}
		}
		check("alike", 4, 2, true) // of six, within five
		check("each", 2, 1, true)
		check("rivals", 0, 2, true)
		if _, c, err := forecasts(e).WorstCase(w.ctx, w.config.Job("each"), false); err != nil || c.Credits != 0 {
			t.Errorf("a run that starts now and finds no rows may cost %+v (error %v), want nothing", c, err)
		}
		if next, err := forecasts(e).Next(w.ctx, w.config.Job("alike"), true); err != nil || next.Most != 5 {
			t.Errorf("a run that comes after another may cost %d (%v), want the 5 of its cap", next.Most, err)
		}
		found = []string{"UC1234567890abcdefghijkl", "UCabcdefghijkl1234567890", "UCabcdefghijkl1234567891"}
		check("each", 6, 3, false)
		if row, err := e.Run(w.ctx, w.config.Job("each"), Manual, time.Time{}); err != nil || row.Credits != 6 {
			t.Fatalf("%+v: %v", row, err)
		}
		found = nil
		check("each", 6, 3, true)
	})
}

// TestWorstCaseOfACycle, which may be more than its budget.
func TestWorstCaseOfACycle(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 200}
jobs:
  daily: {schedule: "0 6 * * *", search: {query: [home espresso], pages: 9}}
  little: {schedule: "0 6 * * *", search: {query: [tea], pages: 9}, budget: {per_month: 20}}
  off: {schedule: "0 6 * * *", enabled: false, search: {query: [tea], pages: 9}}
`, func(w *workshop) {
		w.inspect(func(e *Engine) {
			f, err := forecasts(e).Forecast(w.ctx)
			if err != nil || f.Cycle.Worst != 31*18+20 || f.Cycle.Projected != 200 {
				t.Errorf("%+v (%v), want 578 credits at worst, and 200 projected", f.Cycle, err)
			}
			if _, worst, err := forecasts(e).Month(w.ctx); err != nil || worst != 31*18+20 {
				t.Errorf("the runs of 31 days cost %d credits at worst (%v), want 578", worst, err)
			}
		})
	})
}

func TestCycleWorstCaseAppliesDayCap(t *testing.T) {
	t.Parallel()
	bare(t, `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 200, per_day: 6}
jobs:
  daily: {schedule: "0 6 * * *", search: {query: [home espresso], pages: 9}}
`, func(w *workshop) {
		w.inspect(func(e *Engine) {
			f, err := forecasts(e).Forecast(w.ctx)
			days := outlier.Credits((time.Until(f.Cycle.To) + day - 1) / day)
			if err != nil || f.Cycle.Worst != 6*days {
				t.Errorf("%+v (%v), want %d days of 6 credits at worst", f.Cycle, err, days)
			}
			if _, worst, err := forecasts(e).Month(w.ctx); err != nil || worst != 31*6 {
				t.Errorf("the runs of 31 days cost %d credits at worst (%v), want 186", worst, err)
			}
		})
	})
}

// TestCycleWorstCaseCountsCalendarDays: the days left, also if one of them has 23 or 25 hours.
func TestCycleWorstCaseCountsCalendarDays(t *testing.T) {
	t.Parallel()
	for begin, days := range map[string]outlier.Credits{
		"2000-03-25T23:30:00+01:00": 7, // to 31 March, with the 23 hours of the 26th
		"2000-10-10T00:30:00+02:00": 22,
		"2000-10-29T00:00:00+02:00": 3, // with the 25 hours of this day
		"2000-10-31T23:58:00+01:00": 1,
	} {
		bare(t, `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
timezone: Europe/Berlin
budget: {per_month: 2000, per_day: 6}
jobs:
  often: {every: 1m, search: {query: [home espresso], pages: 9}}
`, func(w *workshop) {
			now, err := time.Parse(time.RFC3339, begin)
			if err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Until(now))
			w.inspect(func(e *Engine) {
				if f, err := forecasts(e).Forecast(w.ctx); err != nil || f.Cycle.Worst != 6*days {
					t.Errorf("%s: %+v (%v), want %d days of 6 credits at worst", begin, f.Cycle, err, days)
				}
			})
		})
	}
}

func TestConfirmationAppliesAllCaps(t *testing.T) {
	t.Parallel()
	for caps, want := range map[[2]string]outlier.Credits{
		{"per_month: 9000", "{}"}:                          500*2*plan.Attempts + 2*plan.Attempts,
		{"per_month: 200", "{}"}:                           190,
		{"per_month: 200, reserve: 50", "{}"}:              140,
		{"per_month: 200, per_day: 60", "{}"}:              50,
		{"per_month: 200", "{per_month: 30}"}:              30,
		{"per_month: 200", "{per_run: 20, per_month: 30}"}: 20,
		{"per_month: 200, reserve: 195", "{per_run: 5}"}:   5,
		{"per_month: 200, per_day: 60", "{per_month: 60}"}: 50,
	} {
		bare(t, `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {`+caps[0]+`}
jobs:
  one: {search: {query: [home espresso], pages: 500}, budget: `+caps[1]+`}
  other: {search: {query: [tea]}}
`, func(w *workshop) {
			e, stop := w.open()
			defer stop()
			if caps[0] != "per_month: 9000" && !strings.Contains(caps[0], "195") {
				five := *w.config.Job("other")
				five.Pages = 5
				if row, err := e.Run(w.ctx, &five, Manual, time.Time{}); err != nil || row.Credits != 10 {
					t.Fatalf("%+v: %v; the test needs 10 credits", row, err)
				}
			}
			if next, err := forecasts(e).Next(w.ctx, w.config.Job("one"), false); err != nil || next.Most != want {
				t.Errorf("%v: the confirmation is for %d credits (error %v), want %d", caps, next.Most, err, want)
			}
		})
	}
}
