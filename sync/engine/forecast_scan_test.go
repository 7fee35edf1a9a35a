package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/forecast"
	"outlierd/sync/runs"
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

// TestForecastWithAStartedScan: it was paid or its credits are set aside, so no cap cuts it, and the projection
// of the cycle counts it once. One more run is due.
func TestForecastWithAStartedScan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		until func(w *workshop, stop context.CancelFunc)
		want  forecast.Search
	}{
		"started": {
			func(w *workshop, stop context.CancelFunc) { time.AfterFunc(10*time.Minute, stop) },
			forecast.Search{Op: outlier.OpStartScan, Queries: []string{"espresso"}, Pages: 5, Credits: 10},
		},
		"half read": {
			func(w *workshop, stop context.CancelFunc) { w.wire = stopAtSearch(w.service.Transport(), 2, stop) },
			forecast.Search{Op: outlier.OpSearch, Queries: []string{"espresso"}, Pages: 3, Credits: 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, underWayFile, func(w *workshop) {
				w.renew(anHour)
				ctx, stop := context.WithCancel(w.ctx)
				defer stop()
				test.until(w, stop)
				w.inspect(func(e *Engine) {
					if row, err := e.Run(ctx, w.config.Job("niche"), Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
						t.Fatalf("run %v, error %v; want it interrupted", row, err)
					}
				})
				f, held := w.foreseen()
				next := &f.Jobs[0]
				if held != 60 || next.Continues == "" || next.Worst.Credits != test.want.Credits {
					t.Errorf("%d credits are held, and %d more at worst; want 60 and %d",
						held, next.Worst.Credits, test.want.Credits)
				}
				asked := cmpopts.IgnoreFields(forecast.Search{}, "Filters", "Parameters", "Read")
				if diff := cmp.Diff([]forecast.Search{test.want}, next.Searches, asked); diff != "" {
					t.Errorf("the searches to come (-want +got):\n%s", diff)
				}
				if len(next.Cuts) > 0 {
					t.Errorf("caps %+v cut a scan that is paid for, want none", next.Cuts)
				}
				if c := f.Cycle; c.Held != 60 || c.Wanted != 60 || c.Projected != 120 {
					t.Errorf("%d are held, %d wanted and %d projected; want 60, 60 for the run to come, and 120",
						c.Held, c.Wanted, c.Projected)
				}
			})
		})
	}
}

// TestForecastOfAnUnconfirmedScan has the error of the run that waits for a person as its problem, if the run
// has no other searches.
func TestForecastOfAnUnconfirmedScan(t *testing.T) {
	t.Parallel()
	two := strings.NewReplacer("[espresso machine repair]", `["${topic}"]`, "scan:\n", "for_each: {topic: [moka pot, latte art]}\n    scan:\n",
		"per_run: 60", "per_run: 120").Replace(scanFile)
	t.Run("alone", func(t *testing.T) {
		bare(t, scanFile, func(w *workshop) {
			w.renew(anHour)
			w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
			unsettled := w.leftUnsettled()
			all, _ := w.foreseen()
			f := all.Jobs[0]
			if want := unsettled.Scan.HowToSettle(); f.Continues == "" || !strings.HasSuffix(f.Problem, want) || !strings.Contains(unsettled.Error(), want) {
				t.Errorf("the plan says %q, and the run %q; want %q of both", f.Problem, unsettled, want)
			}
			w.settle(unsettled.Scan.Intent)
			if all, _ := w.foreseen(); all.Jobs[0].Problem != "" {
				t.Errorf("after it was settled the problem is %q, want none", all.Jobs[0].Problem)
			}
		})
	})
	t.Run("beside another that is under way", func(t *testing.T) {
		bare(t, two, func(w *workshop) {
			w.renew(anHour)
			w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
			ctx, stop := context.WithCancel(w.ctx)
			defer stop()
			time.AfterFunc(20*time.Minute, stop)
			w.inspect(func(e *Engine) {
				row, err := e.Run(ctx, w.config.Job("niche"), Manual, time.Time{})
				if err == nil || row.Status != runs.Interrupted {
					t.Fatalf("run %v, error %v; want it interrupted", row, err)
				}
			})
			all, _ := w.foreseen()
			const unsettled = `a scan of ["moka pot"] may have been started: `
			if f := all.Jobs[0]; f.Problem != "" || len(f.Changes) != 1 || !strings.HasPrefix(f.Changes[0], unsettled) {
				t.Errorf("the plan says %q and %q", f.Problem, f.Changes)
			}
		})
	})
}

// leftUnsettled runs the only job, which ends because a person has to settle its scan.
func (w *workshop) leftUnsettled() *UnsettledScanError {
	w.Helper()
	_, err := w.run()
	unsettled, ok := errors.AsType[*UnsettledScanError](err)
	if !ok {
		w.Fatalf("the run ended with %v, want an *UnsettledScanError", err)
	}
	return unsettled
}

// stopAtSearch stops the run during the given search, when the service has received it, so that it is still
// answered.
func stopAtSearch(wire http.RoundTripper, nth int, stop func()) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := wire.RoundTrip(r)
		if strings.HasPrefix(r.URL.Path, "/search/") {
			if nth--; nth == 0 {
				stop()
			}
		}
		return answer, err
	})
}
