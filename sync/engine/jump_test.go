package engine

import (
	"testing"
	"time"

	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// What was written down by a clock that was wrong.

// TestClockThatWasSetForwardGivesUpNoScan: it was paid for, and its deadline has not passed
// at the service.
func TestClockThatWasSetForwardGivesUpNoScan(t *testing.T) {
	t.Parallel()
	asking(t, scanFile, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 40*day + time.Hour}, simulator.Phase{Status: "Completed"}))
		w.inspect(func(e *Engine) {
			ctx, cancel := contextFor(w, 2*time.Minute)
			defer cancel()
			if row, _ := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); row.Credits != 50 {
				t.Fatalf("%d credits before the process ended, want those of the scan", row.Credits)
			}
		})
		time.Sleep(40 * day)                               // the clock is set forward
		w.wire = shifted{w.service.Transport(), -40 * day} // and only minutes have passed
		if row := w.mustRun(runs.OK); row.Credits != 56 || row.Pages != 3 {
			t.Errorf("%d credits and %d pages, want the scan to be read", row.Credits, row.Pages)
		}
		if got := len(w.started()); got != 1 {
			t.Errorf("%d scans were started", got)
		}
	})
}

// TestClockThatWasAheadKeepsNothingWaiting: neither a job for an instant far ahead, nor a scan
// for its next poll, nor paid calls for the end of a refusal.
func TestClockThatWasAheadKeepsNothingWaiting(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.use("version: 1\nservice: {url: \"sim://\"}\njobs: {daily: {every: 1d, search: {query: [tea]}}}\n")
		w.inspect(func(e *Engine) {
			now := time.Now()
			s := &scheduler{engine: e, worker: &worker{engine: e}, agenda: []*Appointment{
				{Spec: &w.config.Jobs[0], Due: now.Add(31 * day), Begins: now.Add(31 * day), Trigger: CatchUp},
			}}
			s.beginDue(w.ctx)
			if a := s.agenda[0]; !a.Due.Equal(now.Add(day)) || a.Trigger != Scheduled {
				t.Errorf("on %s the job is due at %s by %s, want a day later", now, a.Due, a.Trigger)
			}
			r := &run{engine: e, worker: s.worker, plan: plan.Frozen{Scan: &job.Scan{PollMin: time.Minute, PollMax: 10 * time.Minute}}}
			if next := r.pollDue(&runs.Scan{NextPoll: now.Add(30 * day)}); next.Sub(now) > 10*time.Minute {
				t.Errorf("a scan is looked at on %s", next)
			}
			for ahead, want := range map[time.Duration]bool{time.Hour: true, ledger.BlockFor: true, 30 * day: false, -time.Hour: false} {
				if got := (&ledger.Block{Until: now.Add(ahead)}).Stands(now); got != want {
					t.Errorf("a refusal that ends %s ahead stands: %v", ahead, got)
				}
			}
		})
	})
}
