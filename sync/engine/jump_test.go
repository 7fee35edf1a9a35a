package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// Tests of times that were recorded while the clock was wrong.

// TestForwardClockJumpEndsNoScan: the scan was paid for, and by the service's clock its deadline has not
// passed.
func TestForwardClockJumpEndsNoScan(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	asking(t, scanFile, func(w *workshop) {
		w.renew(course(simulator.Phase{Status: "Running", Lasts: 40*day + time.Hour}, simulator.Phase{Status: "Completed"}))
		w.withSinks(func(e *Engine) {
			ctx, cancel := contextFor(w, 2*time.Minute)
			defer cancel()
			if row, _ := e.Run(ctx, &w.config.Jobs[0], Manual, time.Time{}); row.Credits != 50 {
				t.Fatalf("%d credits before the process ended, want those of the scan", row.Credits)
			}
		})
		time.Sleep(40 * day)                               // the clock is set forward
		w.wire = shifted{w.service.Transport(), -40 * day} // only minutes have passed
		if row := w.mustRun(runs.OK); row.Credits != 56 || row.Pages != 3 {
			t.Errorf("%d credits and %d pages, want the scan to be read", row.Credits, row.Pages)
		}
		if got := len(w.started()); got != 1 {
			t.Errorf("%d scans were started", got)
		}
	})
}

// TestFarFutureTimesDelayNothing: if the clock was ahead, neither a scan waits for its next poll, nor do paid
// calls for the end of a block.
func TestFarFutureTimesDelayNothing(t *testing.T) {
	t.Parallel()
	bare(t, jobsFile, func(w *workshop) {
		w.inspect(func(e *Engine) {
			now := time.Now()
			o := &searchFacts{now: now, plan: &plan.Stored{Terms: job.Terms{Scan: &job.Scan{PollMin: time.Minute, PollMax: 10 * time.Minute}}}, mayPoll: e.Pace.Poll()}
			a := o.nextOfScan(action{step: &runs.Step{}, scan: &runs.Scan{State: runs.ScanRunning, NextPoll: now.Add(30 * day)}})
			if a.kind != pollScan {
				t.Errorf("a scan is looked at on %s", a.until)
			}
			for ahead, want := range map[time.Duration]bool{time.Hour: true, ledger.BlockFor: true, 30 * day: false, -time.Hour: false} {
				if got := (&ledger.Block{Until: now.Add(ahead)}).Stands(now); got != want {
					t.Errorf("a refusal that ends %s ahead stands: %v", ahead, got)
				}
			}
		})
	})
}

// TestClockThatJumpsIsLoggedOnce, and a steady clock is not, however long a turn of the loop takes.
func TestClockThatJumpsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := &workshop{T: t}
	w.use("version: 1\nservice: {url: \"sim://\"}\ntimezone: Europe/Berlin\njobs: {tea: {search: {query: [tea]}}}\n")
	s := &scheduler{engine: &Engine{Config: w.config, Log: slog.New(slog.NewTextHandler(&log, nil))}}
	wall, since := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), time.Duration(0)
	for _, turn := range []struct {
		wall, counted time.Duration
		want          string
	}{
		{0, 0, ""},
		{time.Minute, time.Minute, ""},
		{3 * day, 3 * day, ""}, // the clocks of Berlin change, which no machine's clock does
		{time.Minute + 20*time.Second, time.Minute, ""}, // corrected by a little
		{8*time.Hour + time.Minute, time.Minute, "msg=\"clock set forward, or the machine slept\" by=8h0m0s from=2026-03-31T14:03:20.000+02:00 to=2026-03-31T22:03:20.000+02:00"},
		{time.Minute, time.Minute, ""},
		{-365*day + time.Minute, time.Minute, "msg=\"clock set back\" by=8760h0m0s"},
		{time.Minute, time.Minute, ""},
	} {
		log.Reset()
		wall, since = wall.Add(turn.wall), since+turn.counted
		if jumped := s.noteClock(wall, since); jumped != (turn.want != "") {
			t.Errorf("at %s a jump is reported: %t", wall, jumped) // after which an idle schedule looks at the state
		}
		if said := log.String(); !strings.Contains(said, turn.want) || (said == "") != (turn.want == "") {
			t.Errorf("at %s the log is %q, want %q", wall, said, turn.want)
		}
	}
}

// TestSuspendedDaemonRunsEachJobOnce after hours or a year of suspension. Later runs are on time.
func TestSuspendedDaemonRunsEachJobOnce(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bare(t, scheduledFile, func(w *workshop) {
		began := time.Now() // midnight
		e, stop := w.open()
		defer stop()
		if _, err := e.Agenda(began); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		served := make(chan struct{})
		go func() {
			e.Serve(ctx)
			close(served)
		}()
		var from time.Time
		count := func(want map[string]int) {
			t.Helper()
			rows, err := e.Store.Runs.List(runs.Filter{}, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, row := range rows {
				if !row.Started.Before(from) {
					got[row.Job+" "+row.Trigger]++
				}
				if row.Status != runs.OK {
					t.Errorf("%s of %s ended as %s: %s", row.Job, row.Started, row.Status, row.Error)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("runs since %s (-want +got):\n%s", from, diff)
			}
			from = time.Now()
		}
		time.Sleep(90 * time.Minute)
		count(map[string]int{"hourly schedule": 1})
		for _, still := range []time.Duration{5*time.Hour + 15*time.Minute, 366 * day} { // until 6:45, and for a year
			err := e.Between(ctx, func(context.Context) error {
				time.Sleep(still)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			count(map[string]int{"hourly catch-up": 1, "daily catch-up": 1})
			time.Sleep(2 * time.Hour)
			count(map[string]int{"hourly schedule": 2})
			time.Sleep(21*time.Hour + 50*time.Minute) // 6:45 again
			count(map[string]int{"hourly schedule": 22, "daily schedule": 1})
		}
		cancel()
		<-served
	})
}
