package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"outlierd/outlier"
	"outlierd/sync/runs"
)

// TestPollServesAllWaitingRuns: a manual poll of the scan serves the run as well, and the next run reads the
// scan at once.
func TestPollServesAllWaitingRuns(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.renew(anHour)
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
		defer cancel()
		w.withSinks(func(e *Engine) {
			if row, err := e.Run(ctx, w.config.Job("niche"), Manual, time.Time{}); err == nil || row.Status != runs.Interrupted {
				t.Errorf("the run that was left is %v, %v", row, err)
			}
		})
		look := func(status string, as runs.ScanState) {
			w.inspect(func(e *Engine) {
				id := w.started()[0]
				told, err := e.PollScan(w.ctx, id)
				if err != nil || told.Status != status {
					t.Errorf("the scan is %q (%v), want %s", told.Status, err, status)
				}
				if scan, err := e.Store.Scans.ByID(id); err != nil || scan.State != as || scan.Status != status {
					t.Errorf("noted is %v (%v), want %s", scan, err, as)
				}
			})
		}
		look("Running", runs.ScanRunning)
		time.Sleep(time.Hour)
		look("Completed", runs.ScanEnded)
		look("Completed", runs.ScanEnded)
		looks := w.calls(outlier.OpScan)
		if row := w.mustRun(runs.OK); row.Pages != 3 || w.calls(outlier.OpScan) != looks || w.calls(outlier.OpStartScan) != 1 {
			t.Errorf("%d pages after %d more polls and %d scans; want 3, none and 1",
				row.Pages, w.calls(outlier.OpScan)-looks, w.calls(outlier.OpStartScan))
		}
	})
}

func TestPollOfAScanOfOthers(t *testing.T) {
	t.Parallel()
	bare(t, scanFile, func(w *workshop) {
		w.inspect(func(e *Engine) {
			if _, err := e.PollScan(w.ctx, "11111111-2222-4333-8444-555555555555"); err == nil {
				t.Error("a scan that the service does not know was seen")
			}
			if _, err := e.PollScan(w.ctx, "no id"); err == nil {
				t.Error("an invalid id was requested")
			}
		})
	})
}

// TestWaitingPollDelaysNoOtherWork: while a poll waits for a slot, clients can still read and cancel, and a
// stop ends it.
func TestWaitingPollDelaysNoOtherWork(t *testing.T) {
	t.Parallel()
	bare(t, busyFile, func(w *workshop) {
		w.keeping(func(e *Engine, stop func()) {
			time.Sleep(time.Hour + time.Minute/2) // a run takes all slots
			poll := func(ctx context.Context) <-chan error {
				done := make(chan error, 1)
				go func() {
					done <- e.Between(ctx, func(ctx context.Context) error {
						_, err := e.PollScan(ctx, "11111111-2222-4333-8444-555555555555")
						return err
					})
				}()
				return done
			}
			atOnce := func(what string) {
				t.Helper()
				asked := time.Now()
				if err := e.Between(w.ctx, func(context.Context) error { return nil }); err != nil || time.Since(asked) > time.Second {
					t.Errorf("%s a look took %s (%v)", what, time.Since(asked), err)
				}
			}
			at, err := e.Pace.Slot(outlier.OpScan)
			if err != nil || time.Until(at) < 10*time.Second {
				t.Fatalf("a slot is free in %s (%v)", time.Until(at), err)
			}
			first := poll(w.ctx)
			gone, cancel := context.WithCancel(w.ctx)
			second := poll(gone)
			time.Sleep(time.Second)
			atOnce("while polls wait")
			cancel()
			taken := time.Now()
			if err := <-second; !errors.Is(err, context.Canceled) || time.Since(taken) > time.Second {
				t.Errorf("a poll that was taken back took %s (%v)", time.Since(taken), err)
			}
			if err := <-first; judge(err).kind != outlier.NotFound || time.Since(at) > time.Second {
				t.Errorf("the poll was answered %s after its slot (%v)", time.Since(at), err)
			}
			for range 20 { // until there is no slot for the next
				if at, err := e.Pace.Slot(outlier.OpScan); err == nil && time.Until(at) > 3*time.Second {
					break
				}
				time.Sleep(time.Second)
			}
			last := poll(w.ctx)
			time.Sleep(time.Second)
			stop()
			if err := <-last; !errors.Is(err, context.Canceled) {
				t.Errorf("a poll that waited at the stop returned %v", err)
			}
		})
	})
}
