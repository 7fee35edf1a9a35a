package engine

import (
	"testing"

	"outlierd/outlier"
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
