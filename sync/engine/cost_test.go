package engine

import (
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/state"
)

// TestStatementCapAndQuestionAreOneNumber: the lesser of per_run and of what a run can
// cost at all, answers that are lost included.
func TestStatementCapAndQuestionAreOneNumber(t *testing.T) {
	const searching = `search: {query: [home espresso], pages: 1}`
	for name, test := range map[string]struct {
		does, budget string
		want         outlier.Credits
	}{
		"a cap that cannot be reached": {searching, "{per_run: 100}", 2 * maxAttempts},
		"no cap":                       {searching, "{}", 2 * maxAttempts},
		"a cap that can":               {searching, "{per_run: 5}", 5},
		"all pages":                    {strings.Replace(searching, "1", "all", 1), "{per_run: 100}", 100},
		"a page that may be wasted":    {strings.Replace(searching, "1", "2", 1), "{per_run: 100}", 3 * 2 * maxAttempts},
		"a scan, which is sent once":   {`scan: {query: [home espresso], read: {pages: 1}}`, "{per_run: 100}", 50 + 2*maxAttempts},
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
				f, err := e.Forecast(w.ctx)
				if err != nil || f.Jobs[0].Worst.Lost != test.want {
					t.Errorf("plan says %d (%v), want %d", f.Jobs[0].Worst.Lost, err, test.want)
				}
				if most, err := e.MayCost(w.ctx, spec); err != nil || most != test.want {
					t.Errorf("it is asked about %d (%v), want %d", most, err, test.want)
				}
				_, plan, err := e.resolve(w.ctx, spec, Manual, time.Now())
				if err != nil || plan.cap(spec.Budget) != test.want {
					t.Errorf("the cap is %d (%v), want %d", plan.cap(spec.Budget), err, test.want)
				}
			})
		})
	}
}

// TestRaisedCapHoldsForARunUnderWay as far as the run can make use of it.
func TestRaisedCapHoldsForARunUnderWay(t *testing.T) {
	file := strings.NewReplacer("per_run: 60", "per_run: 2", "pages: all", "pages: 3").Replace(pagesFile)
	bare(t, file, func(w *workshop) {
		w.mustRun(state.PausedBudget)
		for raised, want := range map[string]outlier.Credits{"per_run: 10": 10, "per_run: 100": 4 * 2 * maxAttempts} {
			w.use(strings.Replace(file, "per_run: 2", raised, 1))
			w.inspect(func(e *Engine) {
				f, err := e.Forecast(w.ctx)
				if err != nil || f.Jobs[0].Continues == "" || f.Jobs[0].Worst.Lost > want-2 {
					t.Errorf("%s: plan says %+v (%v); want a run that goes on, with %d to spend at most", raised, f.Jobs[0], err, want-2)
				}
				rows, err := e.Store.Runs("one", 1)
				if err != nil {
					t.Fatal(err)
				}
				plan, err := thaw(rows[0].Plan)
				if cap := plan.cap(w.config.Job("one").Budget); err != nil || cap != want {
					t.Errorf("%s: the cap is %d (%v), want %d", raised, cap, err, want)
				}
			})
		}
		if row := w.mustRun(state.OK); row.Pages != 3 {
			t.Errorf("%d pages, want 3", row.Pages)
		}
	})
}

// TestReadingAScanMayWasteAPage, like any search whose second page tells what `from`
// counts.
func TestReadingAScanMayWasteAPage(t *testing.T) {
	file := strings.Replace(scanFile, "per_run: 60", "per_run: 90", 1)
	bare(t, file, func(w *workshop) {
		o := anHour
		o.PagingItems = true
		w.renew(o)
		var worst Estimate
		w.inspect(func(e *Engine) {
			f, err := e.Forecast(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			worst = f.Jobs[0].Worst
		})
		row := w.mustRun(state.OK)
		if row.Pages != 3 || row.Credits != 58 || row.Credits > worst.Credits || int(row.Requests) > worst.Requests {
			t.Errorf("%d pages for %d credits in %d requests; want 3 for 58, and no more than the %d credits and %d requests of the plan",
				row.Pages, row.Credits, row.Requests, worst.Credits, worst.Requests)
		}
	})
}
