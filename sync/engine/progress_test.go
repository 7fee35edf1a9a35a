package engine

import (
	"testing"
	"time"

	"outlierd/sync/runs"
)

const longQueueFile = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  long:
    search: {query: [home espresso], pages: 5}
    enrich: {details: {}, comments: {}}
    budget: {per_run: 60}
`

// TestManualForecastIgnoresOtherCalls: a manual run makes only its own calls, whatever the value of others.
func TestManualForecastIgnoresOtherCalls(t *testing.T) {
	const file = `
version: 1
service: {url: "sim://", limit: 10/min}
jobs:
  other: {search: {query: [home espresso]}, enrich: {transcript: {}}}
  mine: {search: {query: [latte art]}, enrich: {details: {}}}
  due: {every: 1m, search: {query: [moka pot]}, enrich: {channel_videos: {}}}
`
	bare(t, file, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		ctx, cancel := contextFor(w, 10*time.Second)
		defer cancel()
		_, _ = e.Run(ctx, w.config.Job("other"), Manual, time.Time{}) // interrupted
		forecast := make(chan time.Duration, 1)
		at := time.Now().Add(70 * time.Second)
		time.AfterFunc(70*time.Second, func() {
			p, err := newestProgress(e)
			if err != nil || p.Job != "mine" {
				t.Errorf("progress %+v, error %v", p, err)
			}
			forecast <- p.Left
		})
		row, err := e.Run(w.ctx, w.config.Job("mine"), Manual, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if left, truth := <-forecast, row.Ended.Sub(at); (left - truth).Abs() > truth/10 {
			t.Errorf("the forecast is %s, want %s within a tenth", left, truth)
		}
	})
}

// TestEndForecastIsWithinTenPercent of the remaining time, from the first calls of a run of more than 300
// calls on.
func TestEndForecastIsWithinTenPercent(t *testing.T) {
	if testing.Short() {
		t.Skip("makes hundreds of calls")
	}
	bare(t, longQueueFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		type forecast struct {
			done, queued int
			at           time.Time
			left         time.Duration
		}
		var all []forecast
		ended := make(chan *runs.Run)
		go func() {
			row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
			if err != nil {
				t.Error(err)
			}
			ended <- row
		}()
		for {
			select {
			case row := <-ended:
				total := all[len(all)-1].done
				for _, part := range []float64{0.1, 0.5, 0.9} {
					for _, f := range all {
						if float64(f.done) < part*float64(total) {
							continue
						}
						truth := row.Ended.Sub(f.at)
						if off := (f.left - truth).Abs(); off > truth/10 {
							t.Errorf("after %d of %d calls the forecast is %s, want %s within a tenth",
								f.done, total, f.left, truth)
						}
						break
					}
				}
				if total < 300 {
					t.Errorf("the run made %d calls; the test needs 300", total)
				}
				return
			case <-time.After(45 * time.Second):
				p, err := newestProgress(e)
				if err != nil {
					t.Error(err)
				}
				all = append(all, forecast{p.Done, p.Queued, time.Now(), p.Left})
			}
		}
	})
}

// newestProgress returns the progress of the newest run in progress; the zero Progress if no run is.
func newestProgress(e *Engine) (Progress, error) {
	all, err := e.Store.Runs.InProgress()
	newest := ""
	for i := range all {
		newest = max(newest, all[i].ID)
	}
	if err != nil || newest == "" {
		return Progress{}, err
	}
	return e.ProgressOf(newest)
}
