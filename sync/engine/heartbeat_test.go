package engine

import (
	"context"
	"sync"
	"testing"
	"time"
)

// beats runs the schedule for a while and returns the longest time without a heartbeat.
func (w *workshop) beats(e *Engine, d time.Duration) (longest time.Duration) {
	w.Helper()
	if _, err := e.Agenda(time.Now()); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		for sleep(ctx, 10*time.Second) == nil {
			longest = max(longest, time.Since(e.Beat()))
		}
	})
	e.Serve(ctx)
	watching.Wait()
	return longest
}

// TestHeartbeatContinuesDuringWaits: for the next due time, for the rate limit, and for a service that
// returns no usable answer.
func TestHeartbeatContinuesDuringWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit string
		wire  func(*workshop)
	}{
		"idle":            {"10/min", func(*workshop) {}},
		"slow limit":      {"2/h", func(*workshop) {}},
		"refused at once": {"10/min", func(w *workshop) { w.wire = blocking(w.wire, "/search/") }},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t, "version: 1\nservice: {url: \"sim://\", limit: "+c.limit+"}\njobs: {a: {every: 2h, search: {query: x, pages: 3}}}\n", func(w *workshop) {
				c.wire(w)
				e, stop := w.open()
				defer stop()
				if longest := w.beats(e, 3*time.Hour); longest > 2*time.Minute {
					t.Errorf("the schedule noted no time for %s", longest)
				}
				if w.calls("search") == 0 {
					t.Error("nothing was asked")
				}
			})
		})
	}
}

// TestHeartbeatStopsWhenTheScheduleHangs in a query that never ends.
func TestHeartbeatStopsWhenTheScheduleHangs(t *testing.T) {
	t.Parallel()
	bare(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {a: {every: 1h, videos: {id: {sql: select video_id from outliers}}}}\n", func(w *workshop) {
		e, stop := w.open()
		defer stop()
		e.IDs = func(context.Context, string, string) ([]string, error) {
			time.Sleep(20 * time.Minute)
			return nil, nil
		}
		if longest := w.beats(e, 90*time.Minute); longest < 19*time.Minute {
			t.Errorf("while the schedule was stuck for 20 minutes, no time was noted for %s", longest)
		}
	})
}
