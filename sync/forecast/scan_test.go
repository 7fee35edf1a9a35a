package forecast

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sync/engine"
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

// TestForecastWithAScanUnderWay: what it costs was paid or is set aside, so that neither a
// cap cuts it nor the end of the cycle counts it twice. One more run is to come.
func TestForecastWithAScanUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		until func(w *workshop, stop context.CancelFunc)
		want  Search
	}{
		"started": {
			func(w *workshop, stop context.CancelFunc) { time.AfterFunc(10*time.Minute, stop) },
			Search{Op: outlier.OpStartScan, Queries: []string{"espresso"}, Pages: 5, Credits: 10},
		},
		"half read": {
			func(w *workshop, stop context.CancelFunc) { w.wire = stopAtSearch(w.service.Transport(), 2, stop) },
			Search{Op: outlier.OpSearch, Queries: []string{"espresso"}, Pages: 3, Credits: 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, underWayFile, func(w *workshop) {
				w.renew(anHour)
				ctx, stop := context.WithCancel(w.ctx)
				defer stop()
				test.until(w, stop)
				w.inspect(func(e *engine.Engine) {
					if row, err := e.Run(ctx, w.config.Job("niche"), engine.Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
						t.Fatalf("the run that was left is %v, %v", row, err)
					}
				})
				f, held := w.foreseen()
				told := &f.Jobs[0]
				if held != 60 || told.Continues == "" || told.Worst.Credits != test.want.Credits {
					t.Errorf("%d are held, and %d more at worst; want 60 and %d", held, told.Worst.Credits, test.want.Credits)
				}
				if diff := cmp.Diff([]Search{test.want}, told.Searches); diff != "" {
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

// TestForecastOfAScanThatNobodyKnowsOf tells what the run that waits for a person's word
// would say, as its problem if it has nothing else to do.
func TestForecastOfAScanThatNobodyKnowsOf(t *testing.T) {
	two := strings.NewReplacer("[espresso machine repair]", `["${topic}"]`, "scan:\n", "for_each: {topic: [moka pot, latte art]}\n    scan:\n",
		"per_run: 60", "per_run: 120").Replace(scanFile)
	t.Run("alone", func(t *testing.T) {
		bare(t, scanFile, func(w *workshop) {
			w.renew(anHour)
			w.service.FailNext(outlier.OpStartScan, simulator.DropAnswer)
			unsettled := w.leftUnsettled()
			told, _ := w.foreseen()
			f := told.Jobs[0]
			if want := unsettled.Scan.HowToSettle(); f.Continues == "" || !strings.HasSuffix(f.Problem, want) || !strings.Contains(unsettled.Error(), want) {
				t.Errorf("the plan says %q, and the run %q; want %q of both", f.Problem, unsettled, want)
			}
			w.settle(unsettled.Scan.Intent)
			if told, _ := w.foreseen(); told.Jobs[0].Problem != "" {
				t.Errorf("after it was settled the plan says %q", told.Jobs[0].Problem)
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
			w.inspect(func(e *engine.Engine) {
				row, err := e.Run(ctx, w.config.Job("niche"), engine.Manual, time.Time{})
				if err == nil || row.Status != runs.Interrupted {
					t.Fatalf("the run that was left is %v, %v", row, err)
				}
			})
			told, _ := w.foreseen()
			if f := told.Jobs[0]; f.Problem != "" || len(f.Changes) != 1 || !strings.HasPrefix(f.Changes[0], `a scan of ["moka pot"] may have been started: `) {
				t.Errorf("the plan says %q and %q", f.Problem, f.Changes)
			}
		})
	})
}

// leftUnsettled performs the only job, which ends for want of a person's word.
func (w *workshop) leftUnsettled() *engine.UnsettledScanError {
	w.Helper()
	_, err := w.run()
	unsettled, ok := errors.AsType[*engine.UnsettledScanError](err)
	if !ok {
		w.Fatalf("the run ended with %v, want an *engine.UnsettledScanError", err)
	}
	return unsettled
}

// stopAtSearch asks for a stop during the given search, once the service has it: then it is
// answered all the same.
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
