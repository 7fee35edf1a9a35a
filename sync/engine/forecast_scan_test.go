package engine

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/state"
)

const underWayFile = `
version: 1
service: {url: "sim://", limit: 10/min, paging: page}
budget: {per_month: 400, per_day: 60}
jobs:
  niche:
    schedule: "0 6 20 * *"
    scan: {query: [espresso], deadline: 6h, read: {pages: 5}}
    budget: {per_run: 60, per_month: 125}
`

// TestForecastWithAScanUnderWay: what it costs was paid or is set aside, so that neither a
// cap cuts it nor the end of the cycle counts it twice. One more run is to come.
func TestForecastWithAScanUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		until func(w *workshop, stop context.CancelFunc)
		want  SearchForecast
	}{
		"started": {
			func(w *workshop, stop context.CancelFunc) { time.AfterFunc(10*time.Minute, stop) },
			SearchForecast{Op: outlier.OpStartScan, Queries: []string{"espresso"}, Pages: 5, Credits: 10},
		},
		"half read": {
			func(w *workshop, stop context.CancelFunc) { w.wire = stopAtSearch(w.service.Transport(), 2, stop) },
			SearchForecast{Op: outlier.OpSearch, Queries: []string{"espresso"}, Pages: 3, Credits: 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, underWayFile, func(w *workshop) {
				w.renew(anHour)
				ctx, stop := context.WithCancel(w.ctx)
				defer stop()
				test.until(w, stop)
				w.inspect(func(e *Engine) {
					if row, err := e.Run(ctx, w.config.Job("niche"), Manual, time.Time{}); err == nil || row.Status != state.Running {
						t.Fatalf("the run that was left is %v, %v", row, err)
					}
				})
				f, held := w.foreseen()
				told := &f.Jobs[0]
				if held != 60 || told.Continues == "" || told.Worst.Credits != test.want.Credits {
					t.Errorf("%d are held, and %d more at worst; want 60 and %d", held, told.Worst.Credits, test.want.Credits)
				}
				if diff := cmp.Diff([]SearchForecast{test.want}, told.Searches); diff != "" {
					t.Errorf("the searches to come (-want +got):\n%s", diff)
				}
				if len(told.Cuts) > 0 {
					t.Errorf("a scan that is paid for is to be cut: %+v", told.Cuts)
				}
				if c := f.Cycle; c.Held != 60 || c.Wanted != 60 || c.Projected != 120 {
					t.Errorf("%d are held, %d wanted and %d projected; want 60, 60 for the run to come, and 120", c.Held, c.Wanted, c.Projected)
				}
			})
		})
	}
}

// stopAtSearch asks for a stop during the given search, which is answered all the same.
func stopAtSearch(wire http.RoundTripper, nth int, stop func()) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, "/search/") {
			if nth--; nth == 0 {
				stop()
			}
		}
		return wire.RoundTrip(r)
	})
}
