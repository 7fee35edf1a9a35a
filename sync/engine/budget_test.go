package engine

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/forecast"
	"outlierd/sync/runs"
	"outlierd/sync/state"
)

// glance returns the budget from a state that is opened read-only.
func (w *workshop) glance() *forecast.Budget {
	w.Helper()
	store, err := state.Peek(w.ctx, filepath.Join(w.data(), "state"),
		state.Options{Service: w.config.Service.URL, Location: w.config.Timezone, Renews: w.config.Budget.Renews})
	if err != nil {
		w.Fatal(err)
	}
	defer store.Close()
	e := &Engine{Config: w.config, Store: store, IDs: w.seeds, Client: &outlier.Client{}}
	b, err := forecasts(e).Budget(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// TestPlanCountsSpendingAfterCalendarChange, before a process has opened the state with the new calendar.
func TestPlanCountsSpendingAfterCalendarChange(t *testing.T) {
	t.Parallel()
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
timezone: UTC
budget: {per_month: 100, per_day: 50, renews: on day 1}
jobs:
  one: {search: {query: [home espresso], pages: 1}, budget: {per_month: 20}}
`
	for _, change := range []struct{ was, is string }{{"on day 1", "on day 15"}, {"UTC", "Asia/Tokyo"}} {
		bare(t, file, func(w *workshop) {
			time.Sleep(19*day + 20*time.Hour)
			w.mustRun(runs.OK)
			w.use(strings.Replace(file, change.was, change.is, 1))
			glanced := w.glance()
			if glanced.Cycle.Held != 2 || glanced.Cycle.Projected != 2 {
				t.Errorf("%s: %d credits are held and %d projected, want 2",
					change.is, glanced.Cycle.Held, glanced.Cycle.Projected)
			}
			w.inspect(func(e *Engine) {
				b, err := forecasts(e).Budget(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(b.Caps, glanced.Caps); diff != "" {
					t.Errorf("%s: once the books are open, the caps are others (-open +glanced):\n%s", change.is, diff)
				}
			})
		})
	}
}
